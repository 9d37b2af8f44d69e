//! `wisp bench`.

mod compare;
mod ops;
mod report;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::{Args, builder::PossibleValuesParser};
use wisp_engine::{
    OpenModel,
    compiler::Program,
    device::measure::{Ceilings, ceilings_blocking},
    files,
    pipelines::{
        benchmark::{Rate, Speed, Workload, speed_blocking, warm_up_blocking},
        text_generation::TextGenerator,
    },
    session::{GpuProfiling, Model},
};

use self::report::{Report, Starts};
use crate::{
    destination::{self, Contents, Inputs},
    open::{self, describe},
    output::{self, print_json},
    settings::{DEVICE, LIMITS, MODEL, Resolved, Settings},
    values::whole,
};

/// Measure the speed of a model, and compare it with the limits of the device.
#[derive(Args)]
pub struct Bench {
    /// Tokens of the prompt
    #[arg(short = 'p', long, default_value_t = 128, value_name = "N", value_parser = whole(1, u32::MAX))]
    prompt_tokens: u32,
    /// Tokens to generate
    #[arg(short = 'n', long, default_value_t = 32, value_name = "N", value_parser = whole(1, u32::MAX))]
    new_tokens: u32,
    /// How often to repeat the measurement
    #[arg(short = 'r', long, default_value_t = 5, value_name = "RUNS", value_parser = whole(1, 1000))]
    runs: u32,
    /// Measure each kernel alone instead of the whole model
    #[arg(long)]
    ops: bool,
    /// Run the model at the precisions exact and int8 (or that of --precision) in turn, and print both; the weights
    /// are in memory twice
    #[arg(long, conflicts_with_all = ["ops", "profiling", "trace"])]
    compare: bool,
    /// Time the runs on the device instead: each run of a model (on) or each kernel (detailed) [default: the
    /// value of WISP_ENABLE_PROFILING]
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(["off", "on", "detailed"]), conflicts_with = "ops")]
    profiling: Option<String>,
    /// Write the measurements of --profiling to a trace file for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE", conflicts_with = "ops")]
    trace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS }>,
}

/// Returns the number of weights that matrix products multiply by for one token.
fn product_weights(program: &Program) -> u64 {
    let calls = program.calls.iter().filter(|call| call.is_product());
    calls.map(|call| program.matrix_weights(call)).sum()
}

/// Returns the operations of prefill per second. The output layer runs only for the prompt's last token.
fn prefill_operations_per_second(program: &Program, prefill: &Rate) -> f64 {
    let last_calls = program.calls.iter().rev();
    let output: u64 = last_calls
        .take_while(|call| call.is_product())
        .map(|call| program.matrix_weights(call))
        .sum();
    let per_token = 2.0 * (product_weights(program) - output) as f64;
    per_token * prefill.median + 2.0 * output as f64 * prefill.median / f64::from(prefill.tokens)
}

impl Bench {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        if self.compare {
            return self.compare(settings);
        }
        let open = self.open(&settings)?;
        if let Some(path) = &self.trace {
            let saved = settings.config.save_to_serialized_model_path.as_ref();
            let inputs = Inputs::of(&settings.config, &open).with(saved);
            destination::check(path, Contents::Trace, &inputs)?;
        }
        let start = Instant::now();
        let (session, mut generator) = open.load_generator_blocking()?;
        let load_seconds = start.elapsed().as_secs_f64();
        let limits = open.limits(&session.device().info().capabilities)?;
        let workload = self.workload();
        let start = Instant::now();
        let clock = move || start.elapsed();
        warm_up_blocking(&mut generator, workload, &clock)?;
        if self.ops {
            let ceilings = self.ceilings(&settings)?;
            let model = decoder(&generator)?;
            return ops::report(model, self.prompt_tokens, self.runs, ceilings, self.json);
        }
        let profiled = self.start_profiling(&generator)?;
        let Speed { prefill, decode } = speed_blocking(&mut generator, workload, &clock)?;
        if profiled {
            return self.report_profile(&generator, self.ceilings(&settings)?);
        }
        // Read before the ceilings are measured, which takes memory too.
        let host_peak_bytes = host_peak_bytes();
        let ceilings = self.ceilings(&settings)?;
        let starts = Starts::measure(&settings, open::files(&open)?, limits)?;
        let model = decoder(&generator)?;
        let (program, dims) = (model.program(), ops::run_dims(model, 1)?);
        let dispatches = model.dispatches(&dims);
        let traffic_position = self.middle_position();
        let traffic = model.traffic(&dims, traffic_position.into());
        let report = Report {
            model: settings.name(),
            device: describe(session.device().info()),
            device_class: session.device().info().device_class(),
            precision: session.precision(),
            kv_cache_format: limits.cache_format.into(),
            tuned_shapes: session.tuning().calls().len(),
            runs: self.runs,
            load_seconds,
            starts,
            first_token_seconds: f64::from(self.prompt_tokens) / prefill.median,
            decode_fraction_of_read_ceiling: decode.median * traffic.bytes() as f64
                / ceilings.read_bytes_per_second,
            prefill_fraction_of_fma_ceiling: prefill_operations_per_second(program, &prefill)
                / ceilings.f32_operations_per_second,
            prefill,
            decode,
            ceilings,
            weight_bytes_per_token: traffic.weights,
            cache_bytes_per_token: traffic.cache,
            bytes_read_of_least: traffic.ratio(),
            traffic_position,
            dispatches_per_token: dispatches + generator.sampler_dispatches(),
            prefix_cache_hit_rate: (limits.prefix_caching).then(|| generator.prefix_hits().rate()),
            device_peak_bytes: session.device().allocated().1,
            host_peak_bytes,
        };
        if self.json {
            return print_json(&report);
        }
        report.print()
    }

    fn workload(&self) -> Workload {
        Workload {
            prompt_tokens: self.prompt_tokens,
            new_tokens: self.new_tokens,
            runs: self.runs,
        }
    }

    /// Returns the position in the middle of the generated text.
    fn middle_position(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.new_tokens / 2)
    }

    /// Opens the model for the workload's prompt and context.
    fn open(&self, settings: &Resolved) -> Result<OpenModel> {
        let open = settings.open()?;
        let needed = u64::from(self.prompt_tokens) + u64::from(self.new_tokens) + 1;
        let max = open::files(&open)?.model_spec.spec.longest_context();
        if needed > max {
            bail!("-p and -n need {needed} positions, but the model has {max}");
        }
        let length = match settings.length_is_set {
            true => settings.config.max_length,
            false => needed.max(32).min(max),
        };
        if needed > length {
            bail!("-p and -n need {needed} tokens, but --max-length is {length}");
        }
        Ok(open
            .with_context_length(length)
            .for_prompt(self.prompt_tokens as usize, None))
    }

    /// Sets the profiler's mode and discards what it timed in the warm-up. Returns whether it times runs.
    fn start_profiling(&self, generator: &TextGenerator) -> Result<bool> {
        let profiler = decoder(generator)?.profiler();
        if let Some(mode) = &self.profiling {
            profiler.set(GpuProfiling::named(mode));
        }
        let profiled = profiler.mode() != GpuProfiling::Off;
        if self.trace.is_some() && !profiled {
            bail!("--trace needs --profiling on or detailed");
        }
        pollster::block_on(profiler.take())?;
        Ok(profiled)
    }

    /// Measures the limits of the device: memory bandwidth and arithmetic, the longer the more runs there are.
    fn ceilings(&self, settings: &Resolved) -> Result<Ceilings> {
        let start = Instant::now();
        let clock = move || -> Duration { start.elapsed() };
        let duration = self.runs * Duration::from_millis(60);
        Ok(ceilings_blocking(&settings.device()?, &clock, duration)?)
    }

    /// Prints the times of the profiler and writes the trace.
    fn report_profile(&self, generator: &TextGenerator, ceilings: Ceilings) -> Result<()> {
        let profile = pollster::block_on(decoder(generator)?.profiler().take())?;
        if let Some(path) = &self.trace {
            files::write_atomic(path, profile.trace().as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if self.json {
            return print_json(&serde_json::json!({
                "device": profile.device,
                "clock": profile.clock,
                "seconds": profile.seconds(),
                "left_out": profile.left_out,
                "rows": profile.rows(),
                "ceilings": ceilings,
            }));
        }
        output::print(format_args!("{}", profile.table(Some(&ceilings))))
    }
}

/// Returns the decoder of a built-in pipeline.
fn decoder(generator: &TextGenerator) -> Result<&Model> {
    let decoder = generator.decoder();
    Ok(decoder
        .context("only built-in decoders can be measured")?
        .decoder())
}

/// Returns the peak resident memory of this process in bytes, on Linux.
fn host_peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}
