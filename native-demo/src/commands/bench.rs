//! `wisp bench`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::{Args, builder::PossibleValuesParser};
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use serde::Serialize;
use wisp_engine::{
    compiler::Program,
    device::measure::{Ceilings, ceilings},
    files::DiskCache,
    pipelines::{
        ModelFiles, ModelLimits,
        benchmark::{Rate, Speed, Workload, speed, warm_up},
        prepare,
        text_generation::TextGenerator,
    },
    session::{GpuProfiling, InferenceSession, StartTimes},
};

use super::print_json;
use crate::{
    open::{self, describe},
    settings::{DEVICE, LIMITS, MODEL, Resolved, Settings},
};

/// Measure speed, next to what the device can do at most.
#[derive(Args)]
pub struct Bench {
    /// Tokens of the prompt
    #[arg(short = 'p', long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    prompt_tokens: u32,
    /// Tokens to generate
    #[arg(short = 'n', long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    new_tokens: u32,
    /// How many times
    #[arg(short = 'r', long, default_value_t = 5, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measure kernel by kernel instead
    #[arg(long)]
    ops: bool,
    /// Time the runs on the device instead, each run of a model (on) or each kernel (detailed) [default: as
    /// WISP_ENABLE_PROFILING says]
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(["off", "on", "detailed"]), conflicts_with = "ops")]
    profiling: Option<String>,
    /// Write what --profiling measured to a file for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS }>,
}

#[derive(Serialize)]
struct Report {
    model: String,
    device: String,
    runs: u32,
    load_seconds: f64,
    /// Compiling with an empty cache and with what the first left there.
    starts: Starts,
    first_token_seconds: f64,
    prefill: Rate,
    decode: Rate,
    ceilings: Ceilings,
    /// Weights read a second in decoding, over the read ceiling.
    decode_fraction_of_read_ceiling: f64,
    /// Operations a second in prefill, over the FMA ceiling.
    prefill_fraction_of_fma_ceiling: f64,
    weight_bytes_per_token: u64,
    dispatches_per_token: usize,
    /// Of the prompts' tokens, if prefixes are cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_cache_hit_rate: Option<f64>,
    device_peak_bytes: u64,
    host_peak_bytes: Option<u64>,
}

/// Two starts without weights: programs and pipelines.
#[derive(Serialize)]
struct Starts {
    first: StartTimes,
    second: StartTimes,
}

impl Starts {
    /// Each with a device of its own, over one cache that is empty at first. What drivers keep in caches
    /// of their own is not in their hands, and may make the first faster than it would be.
    fn measure(settings: &Resolved, files: &ModelFiles, limits: ModelLimits) -> Result<Starts> {
        let folder = tempfile::tempdir()?;
        let start = || -> Result<StartTimes> {
            let session = InferenceSession::new(settings.device()?);
            let session = session.with_cache(DiskCache::new(folder.path()));
            let target = &session.device().info().capabilities;
            for graph in prepare::graphs(files, target, limits)? {
                session.prepare(&session.compile(&graph)?)?;
            }
            Ok(session.start_times())
        };
        Ok(Starts {
            first: start()?,
            second: start()?,
        })
    }
}

/// One call of the program, measured alone.
#[derive(Serialize)]
struct OpReport {
    op: String,
    kernel: &'static str,
    calls: usize,
    microseconds: f64,
    gigabytes_per_second: Option<f64>,
    gigaflops: Option<f64>,
}

/// Bytes and weights that the products read for one token.
fn products(program: &Program) -> (u64, u64) {
    let calls = || program.calls.iter().filter(|call| call.is_product());
    (
        calls().map(|call| program.matrix_bytes(call)).sum(),
        calls().map(|call| program.matrix_weights(call)).sum(),
    )
}

impl Bench {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let open = settings.open()?;
        let needed = u64::from(self.prompt_tokens) + u64::from(self.new_tokens) + 1;
        let most = open::files(&open)?.model_spec.spec.max_positions;
        if needed > most {
            bail!("-p and -n need {needed} positions, but the model has {most}");
        }
        let open = open
            .with_context_length(needed.max(32).min(most))
            .for_prompt(self.prompt_tokens as usize, None);
        let limits = open.limits()?;
        let caches = limits.prefix_caching;
        let start = Instant::now();
        let (session, mut generator) = pollster::block_on(open.load_generator())?;
        let load_seconds = start.elapsed().as_secs_f64();
        let workload = Workload {
            prompt_tokens: self.prompt_tokens,
            new_tokens: self.new_tokens,
            runs: self.runs,
        };
        let start = Instant::now();
        let clock = move || start.elapsed();
        pollster::block_on(warm_up(&mut generator, workload, &clock))?;
        if self.ops {
            return self.report_ops(&generator, self.ceilings(&settings)?);
        }
        let profiler = decoder(&generator)?.profiler();
        if let Some(mode) = &self.profiling {
            profiler.set(GpuProfiling::named(mode));
        }
        let profiled = profiler.mode() != GpuProfiling::Off;
        if self.trace.is_some() && !profiled {
            bail!("--trace needs --profiling on or detailed");
        }
        // The warm-up is not part of it.
        pollster::block_on(profiler.take())?;
        let measured = pollster::block_on(speed(&mut generator, workload, &clock))?;
        if profiled {
            return self.report_profile(&generator, self.ceilings(&settings)?);
        }
        let Speed { prefill, decode } = measured;
        // Before the ceilings, whose measurement takes memory of its own.
        let host_peak_bytes = host_peak_bytes();
        let ceilings = self.ceilings(&settings)?;
        let starts = Starts::measure(&settings, open::files(&open)?, limits)?;
        let (weight_bytes, _) = products(decoder(&generator)?.program());
        // The output layer runs only for the prompt's last token.
        let program = decoder(&generator)?.program();
        let output: u64 = program
            .calls
            .iter()
            .rev()
            .take_while(|call| call.is_product())
            .map(|call| program.matrix_weights(call))
            .sum();
        let per_token = 2.0 * (products(program).1 - output) as f64;
        let operations = per_token * prefill.median
            + 2.0 * output as f64 * prefill.median / f64::from(prefill.tokens);
        let report = Report {
            model: settings.name(),
            device: describe(session.device().info()),
            runs: self.runs,
            load_seconds,
            starts,
            first_token_seconds: f64::from(self.prompt_tokens) / prefill.median,
            decode_fraction_of_read_ceiling: decode.median * weight_bytes as f64
                / ceilings.read_bytes_per_second,
            prefill_fraction_of_fma_ceiling: operations / ceilings.f32_operations_per_second,
            prefill,
            decode,
            ceilings,
            weight_bytes_per_token: weight_bytes,
            dispatches_per_token: decoder(&generator)?.dispatches_per_run()
                + generator.sampler_dispatches(),
            prefix_cache_hit_rate: caches.then(|| generator.prefix_hits().rate()),
            device_peak_bytes: session.device().allocated().1,
            host_peak_bytes,
        };
        if self.json {
            print_json(&report)
        } else {
            report.print();
            Ok(())
        }
    }

    /// Measures the device itself.
    fn ceilings(&self, settings: &Resolved) -> Result<Ceilings> {
        let start = Instant::now();
        let clock = move || -> Duration { start.elapsed() };
        Ok(pollster::block_on(ceilings(&settings.device()?, &clock))?)
    }

    /// Prints what the runs were timed at, and writes the trace.
    fn report_profile(&self, generator: &TextGenerator, ceilings: Ceilings) -> Result<()> {
        let profile = pollster::block_on(decoder(generator)?.profiler().take())?;
        if let Some(path) = &self.trace {
            std::fs::write(path, profile.trace()).with_context(|| path.display().to_string())?;
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
        print!("{}", profile.table(Some(&ceilings)));
        Ok(())
    }

    /// Measures each kind of call in decoding and in prefill.
    fn report_ops(&self, generator: &TextGenerator, ceilings: Ceilings) -> Result<()> {
        let model = decoder(generator)?;
        let program = model.program();
        let mut reports: Vec<(u32, OpReport)> = Vec::new();
        for tokens in [1, self.prompt_tokens.min(model.max_dims()["tokens"] as u32)] {
            let max = model.max_dims();
            let sizes: Vec<(&str, u64)> = max
                .iter()
                .map(|(name, most)| {
                    (
                        *name,
                        match *name {
                            "tokens" => tokens.into(),
                            "logit_rows" => 1,
                            _ => *most,
                        },
                    )
                })
                .collect();
            let dims = model.dims(&sizes)?;
            for (index, call) in program.calls.iter().enumerate() {
                let Some(kernel) = model.kernel_of(index, &dims) else {
                    continue;
                };
                let op = call.label.replace(|c: char| c.is_ascii_digit(), "N");
                if let Some((_, known)) = reports
                    .iter_mut()
                    .find(|(at, known)| *at == tokens && known.op == op && known.kernel == kernel)
                {
                    known.calls += 1;
                    continue;
                }
                let seconds = self.time_call(model, index, &dims)?;
                let product = call.is_product();
                let rows = call.grid[1]
                    .dims
                    .iter()
                    .any(|dim| program.dims[*dim as usize] == "tokens");
                let rows = if rows { f64::from(tokens) } else { 1.0 };
                reports.push((
                    tokens,
                    OpReport {
                        op,
                        kernel,
                        calls: 1,
                        microseconds: seconds * 1e6,
                        gigabytes_per_second: product
                            .then(|| program.matrix_bytes(call) as f64 / seconds / 1e9),
                        gigaflops: product.then(|| {
                            2.0 * rows * program.matrix_weights(call) as f64 / seconds / 1e9
                        }),
                    },
                ));
            }
        }
        if self.json {
            let ops: Vec<_> = reports
                .iter()
                .map(|(tokens, op)| serde_json::json!({ "tokens": tokens, "op": op }))
                .collect();
            return print_json(&serde_json::json!({ "ops": ops, "ceilings": ceilings }));
        }
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "tokens",
            "op",
            "kernel",
            "calls",
            "µs a call",
            "GB/s",
            "GFLOP/s",
        ]);
        let number =
            |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        for (tokens, op) in &reports {
            table.add_row([
                tokens.to_string(),
                op.op.clone(),
                op.kernel.into(),
                op.calls.to_string(),
                format!("{:.1}", op.microseconds),
                number(op.gigabytes_per_second),
                number(op.gigaflops),
            ]);
        }
        println!("{table}");
        println!(
            "ceilings: {:.2} GB/s, {:.1} GFLOP/s",
            ceilings.read_bytes_per_second / 1e9,
            ceilings.f32_operations_per_second / 1e9
        );
        Ok(())
    }

    /// Seconds of one call: the median over submissions of several.
    fn time_call(
        &self,
        model: &wisp_engine::session::Model,
        index: usize,
        dims: &wisp_engine::session::Dims,
    ) -> Result<f64> {
        let time = |times: usize| -> Result<f64> {
            let start = Instant::now();
            model.run_call(index, dims, times)?;
            pollster::block_on(model.device().finish())?;
            Ok(start.elapsed().as_secs_f64())
        };
        // Enough in one submission that its own cost is small beside them.
        let times = (0.02 / time(1)?.max(1e-6)).clamp(1.0, 256.0) as usize;
        let mut seconds = (0..self.runs)
            .map(|_| Ok(time(times)? / times as f64))
            .collect::<Result<Vec<f64>>>()?;
        seconds.sort_by(f64::total_cmp);
        Ok(seconds[seconds.len() / 2])
    }
}

impl Report {
    fn print(&self) {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "",
            "tokens",
            "tokens/s",
            "least",
            "most",
            "of the ceiling",
        ]);
        let rows = [
            (
                "prefill",
                &self.prefill,
                self.prefill_fraction_of_fma_ceiling,
                "FMA",
            ),
            (
                "decode",
                &self.decode,
                self.decode_fraction_of_read_ceiling,
                "read",
            ),
        ];
        for (name, rate, fraction, ceiling) in rows {
            table.add_row([
                name.to_string(),
                rate.tokens.to_string(),
                format!("{:.2}", rate.median),
                format!("{:.2}", rate.least),
                format!("{:.2}", rate.most),
                format!("{:.0}% ({ceiling})", fraction * 100.0),
            ]);
        }
        let mebibytes = |bytes: u64| bytes as f64 / 1048576.0;
        println!("{} on {}, {} runs", self.model, self.device, self.runs);
        println!("{table}");
        println!(
            "ceilings       {:.2} GB/s read, {:.1} GFLOP/s f32",
            self.ceilings.read_bytes_per_second / 1e9,
            self.ceilings.f32_operations_per_second / 1e9
        );
        println!(
            "first token    {:.3} s after the prompt; loading took {:.2} s",
            self.first_token_seconds, self.load_seconds
        );
        let start = |times: &StartTimes| {
            let milliseconds = (times.compile_seconds + times.pipeline_seconds) * 1e3;
            let (made, found) = (times.programs_compiled, times.programs_cached);
            format!("{milliseconds:.1} ms ({made} programs compiled, {found} found)")
        };
        println!(
            "start          {} with an empty cache, then {}; {} pipelines",
            start(&self.starts.first),
            start(&self.starts.second),
            self.starts.second.pipelines
        );
        println!(
            "a token        {} dispatches, {:.1} MiB of weights",
            self.dispatches_per_token,
            mebibytes(self.weight_bytes_per_token)
        );
        let host = self.host_peak_bytes.map_or("unknown".into(), |bytes| {
            format!("{:.0} MiB", mebibytes(bytes))
        });
        println!(
            "memory peaks   {:.0} MiB on the device, {host} in this process",
            mebibytes(self.device_peak_bytes)
        );
    }
}

/// The decoder's program on its device.
fn decoder(generator: &TextGenerator) -> Result<&wisp_engine::session::Model> {
    let decoder = generator.decoder();
    Ok(decoder
        .context("only built-in decoders can be measured")?
        .decoder())
}

/// The most memory that this process had at once, in bytes, where the system tells.
fn host_peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}
