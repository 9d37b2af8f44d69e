//! `wisp bench --compare`: two precisions in turn.

use std::time::Instant;

use anyhow::{Result, ensure};
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use serde::Serialize;
use wisp_engine::{
    device::measure::Ceilings,
    pipelines::{
        KvCacheFormat,
        benchmark::{Rate, Speed, speeds_blocking, warm_up_blocking},
        text_generation::TextGenerator,
    },
    session::{GpuProfiling, InferenceSession, Precision},
};

use super::{Bench, decoder, ops, prefill_operations_per_second};
use crate::{
    open::describe,
    output::{counted, print_json, print_line},
    settings::Resolved,
};

/// What `--json` prints, and the table shows.
#[derive(Serialize)]
struct Comparison {
    model: String,
    device: String,
    /// The class of kernels; `None` on the host.
    device_class: Option<&'static str>,
    kv_cache_format: KvCacheFormat,
    runs: u32,
    ceilings: Ceilings,
    /// The exact precision, then the other one.
    precisions: [Row; 2],
    /// The other precision's median speed of prompts, relative to the exact one's.
    prefill_ratio: f64,
    /// That of new tokens.
    decode_ratio: f64,
}

/// One precision.
#[derive(Serialize)]
struct Row {
    precision: Precision,
    prefill: Rate,
    decode: Rate,
    /// Bytes of weights and KV cache that decode reads per second, relative to the read ceiling.
    decode_fraction_of_read_ceiling: f64,
    /// Operations of prefill per second, relative to the ceiling of multiply-adds in f32.
    prefill_fraction_of_fma_ceiling: f64,
}

impl Bench {
    /// Measures the exact precision and another one in turn.
    pub(super) fn compare(&self, mut settings: Resolved) -> Result<()> {
        let config = &settings.config;
        let compiled = [
            &config.serialized_model_path,
            &config.save_to_serialized_model_path,
        ];
        ensure!(
            compiled.iter().all(|path| path.is_none()),
            "--compare compiles the model for two precisions: a compiled model has one"
        );
        let other = match config.precision {
            Precision::Exact => Precision::Int8,
            other => other,
        };
        let mut load = |precision| {
            settings.config.precision = precision;
            self.open(&settings)?
                .load_generator_blocking()
                .map_err(anyhow::Error::from)
        };
        let (exact_session, mut exact) = load(Precision::Exact)?;
        let (session, mut generator) = load(other)?;
        let device = describe(session.device().info());
        ensure!(
            session.precision() == other,
            "{device} has no kernels of precision {other}, so there is nothing to compare"
        );
        let start = Instant::now();
        let clock = move || start.elapsed();
        for generator in [&mut exact, &mut generator] {
            decoder(generator)?.profiler().set(GpuProfiling::Off);
            warm_up_blocking(generator, self.workload(), &clock)?;
        }
        let generators = [&mut exact, &mut generator];
        let [exact_speed, speed] = speeds_blocking(generators, self.workload(), &clock)?;
        let ceilings = self.ceilings(&settings)?;
        let comparison = Comparison {
            model: settings.name(),
            device,
            device_class: session.device().info().device_class(),
            kv_cache_format: generator.limits().cache_format.into(),
            runs: self.runs,
            prefill_ratio: speed.prefill.median / exact_speed.prefill.median,
            decode_ratio: speed.decode.median / exact_speed.decode.median,
            precisions: [
                self.row(&exact_session, &exact, exact_speed, &ceilings)?,
                self.row(&session, &generator, speed, &ceilings)?,
            ],
            ceilings,
        };
        match self.json {
            true => print_json(&comparison),
            false => comparison.print(),
        }
    }

    fn row(
        &self,
        session: &InferenceSession,
        generator: &TextGenerator,
        speed: Speed,
        ceilings: &Ceilings,
    ) -> Result<Row> {
        let model = decoder(generator)?;
        let dims = ops::run_dims(model, 1)?;
        let bytes = model.traffic(&dims, self.middle_position().into()).bytes();
        let operations = prefill_operations_per_second(model.program(), &speed.prefill);
        Ok(Row {
            precision: session.precision(),
            prefill: speed.prefill,
            decode: speed.decode,
            decode_fraction_of_read_ceiling: speed.decode.median * bytes as f64
                / ceilings.read_bytes_per_second,
            prefill_fraction_of_fma_ceiling: operations / ceilings.f32_operations_per_second,
        })
    }
}

impl Comparison {
    fn print(&self) -> Result<()> {
        let (model, device) = (&self.model, &self.device);
        let runs = counted(self.runs.into(), "run");
        print_line!("{model} on {device}, {runs} of each in turn")?;
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "",
            "precision",
            "tokens",
            "tokens/s",
            "least",
            "most",
            "of the ceiling",
        ]);
        for row in &self.precisions {
            let fraction = row.prefill_fraction_of_fma_ceiling;
            table.add_row(cells(
                "prefill",
                row.precision,
                &row.prefill,
                fraction,
                "f32 FMA",
            ));
        }
        for row in &self.precisions {
            let fraction = row.decode_fraction_of_read_ceiling;
            table.add_row(cells(
                "decode",
                row.precision,
                &row.decode,
                fraction,
                "read",
            ));
        }
        print_line!("{}", table.trim_fmt())?;
        print_line!(
            "{} against exact: prefill {:.2} times as fast, decode {:.2} times",
            self.precisions[1].precision,
            self.prefill_ratio,
            self.decode_ratio
        )?;
        print_line!(
            "ceilings: {:.2} GB/s read, {:.1} GFLOP/s f32",
            self.ceilings.read_bytes_per_second / 1e9,
            self.ceilings.f32_operations_per_second / 1e9
        )
    }
}

/// Returns the cells of a rate, as a fraction of a ceiling.
fn cells(
    what: &str,
    precision: Precision,
    rate: &Rate,
    fraction: f64,
    ceiling: &str,
) -> [String; 7] {
    [
        what.into(),
        precision.to_string(),
        rate.tokens.to_string(),
        format!("{:.2}", rate.median),
        format!("{:.2}", rate.least),
        format!("{:.2}", rate.most),
        format!("{:.0}% ({ceiling})", fraction * 100.0),
    ]
}
