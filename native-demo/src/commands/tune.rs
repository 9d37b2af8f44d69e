//! `wisp tune`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use clap::Args;
use wisp_engine::{
    Canceller,
    pipelines::config::TuningSource,
    session::{Precision, TuneReport, tuning_file},
};

use crate::{
    destination::{self, Contents, Inputs},
    interrupt,
    open::{self, cache, check_cache},
    output::{message, print, print_json},
    progress::progress_bar,
    settings::{DEVICE, LIMITS, MODEL, Settings},
    values::whole,
};

/// The least number of sequences that decode together in measurements.
const SEQUENCES: u64 = 8;

/// Measure which kernels are fastest on the device, and use them from then on.
#[derive(Args)]
pub struct Tune {
    /// Seconds after which no further measurement begins
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = whole(1, 86_400))]
    time_limit: u32,
    /// Write the tuning to this file, for --tuning, and not to the cache
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS }>,
}

impl Tune {
    pub fn run(self) -> Result<()> {
        let mut settings = self.settings.resolve()?;
        if settings.config.has_compiled_file() {
            bail!(
                "a compiled model has its kernels already: remove --serialized-model-path and --save-to-serialized-model-path"
            );
        }
        if self.out.is_none() {
            check_cache()?;
        }
        settings.config.tuning = TuningSource::Off;
        let sequences = settings.config.max_cache_batch_size.max(SEQUENCES);
        settings.config.max_cache_batch_size = sequences;
        let open = settings.open_with(|builder| builder.logit_rows(sequences))?;
        if let Some(out) = &self.out {
            destination::check(out, Contents::Tuning, &Inputs::of(&settings.config, &open))?;
        }
        open::files(&open)?.model_spec.decoder()?;
        let (session, mut generator) = open.load_generator_blocking()?;
        let canceller = Canceller::new();
        interrupt::begin(canceller.clone());
        let bar = progress_bar("{elapsed} of {msg}");
        let (start, limit) = (Instant::now(), u64::from(self.time_limit));
        let show = |what: &str| {
            bar.set_message(format!("{limit}s: {what}"));
            bar.tick();
            match canceller.is_cancelled() {
                true => std::ops::ControlFlow::Break(()),
                false => std::ops::ControlFlow::Continue(()),
            }
        };
        let now = move || start.elapsed();
        let limit = Duration::from_secs(limit);
        let report = generator.tune_blocking(&session, limit, &now, &show);
        interrupt::end();
        bar.finish_and_clear();
        let report = report?;
        if report.is_cancelled {
            message!("interrupted: nothing was saved");
            return Ok(());
        }
        let place = self.save(&report, settings.config.precision)?;
        match self.json {
            true => print_json(&report)?,
            false => print(format_args!("{}", report.table()))?,
        }
        message!("{place}");
        Ok(())
    }

    /// Writes the tuning to the file or the cache, and returns a sentence about where it is.
    fn save(&self, report: &TuneReport, precision: Precision) -> Result<String> {
        if let Some(out) = &self.out {
            tuning_file::write(out, &report.tuning)?;
            return Ok(format!(
                "written to {0}: use it with --tuning {0}",
                out.display()
            ));
        }
        let Some(cache) = cache() else {
            return Ok("not saved: there is no cache; name a file with --out".into());
        };
        // Other models have other shapes, which stay as they were measured.
        let measured: Vec<_> = report.points.iter().map(|point| &point.shape).collect();
        let earlier = tuning_file::load(&cache, &report.device, precision).unwrap_or_default();
        let earlier = earlier.without(|shape| measured.contains(&shape));
        let tuning = report.tuning.clone().followed_by(earlier);
        tuning_file::store(&cache, &report.device, precision, &tuning);
        Ok(match tuning.is_empty() {
            true => "the defaults stay".into(),
            false => "used from now on wherever the cache is; --tuning off ignores it".into(),
        })
    }
}
