//! `wisp warm-cache`.

use std::{path::PathBuf, result, time::Instant};

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
#[cfg(feature = "cuda")]
use wisp_engine::device::OfflineCompiler;
use wisp_engine::{
    compiler::{Program, Target},
    device::Device,
    pipelines::{ModelFiles, ModelLimits, format_bytes, prepare},
    session::{CompiledModule, InferenceSession, StartTimes},
};

use crate::{
    destination::{self, Contents, Inputs},
    escape,
    open::{self, cache, check_cache, describe, keeps_files},
    output::{print_json, print_line},
    settings::{DEVICE, LIMITS, LORA, MODEL, Resolved, Settings},
};

/// Compile a model in advance, for this device or another target.
#[derive(Args)]
pub struct WarmCache {
    /// Compile for this target instead of the device: browser, baseline, vulkan, metal, dx12, gl, host, or in a build
    /// with CUDA sm_75, sm_80, sm_90 or sm_120; needs --out. All kernels are translated to the shader language of the target
    /// as a check
    #[arg(long, value_name = "TARGET", requires = "out", conflicts_with_all = ["device_specs", "profile", "device_class", "precision"])]
    target: Option<String>,
    /// Write the compiled model to this file, for --serialized-model-path on the target machine
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA }>,
}

impl WarmCache {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        if settings.config.has_compiled_file() {
            bail!(
                "the compiled model is written to --out FILE: remove --serialized-model-path and --save-to-serialized-model-path"
            );
        }
        if self.out.is_none() {
            check_cache()?;
        }
        let target = self.target.as_deref().map(Target::named).transpose()?;
        let open = settings.open()?;
        if let Some(out) = &self.out {
            let inputs = Inputs::of(&settings.config, &open);
            destination::check(out, Contents::Compiled, &inputs)?;
        }
        let files = open::files(&open)?;
        let start = Instant::now();
        let (name, limits, compiled, times) = match &target {
            Some(target) => {
                let limits = open.limits(&target.capabilities)?;
                let graphs = prepare::graphs(files, &target.capabilities, limits)?;
                let compiled = CompiledModule::compile(&graphs, target)?;
                (target.name.clone(), limits, compiled, None)
            }
            None => {
                let device = settings.device()?;
                let limits = open.limits(&device.info().capabilities)?;
                let session = warm(&settings, device, files, limits, self.out.is_some())?;
                let (name, times) = (describe(session.device().info()), session.start_times());
                (name, limits, session.compiled()?, Some(times))
            }
        };
        let compiled =
            compiled.with_metadata(prepare::facts(files, &limits, settings.config.precision));
        let machine_code = match &target {
            Some(target) => machine_code(&compiled, target)?,
            None => None,
        };
        if let Some(out) = &self.out {
            compiled.save(out)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let is_filled = times.is_some() || matches!(machine_code, Some(Ok(_)));
        let folder = cache().filter(|cache| is_filled && keeps_files(cache));
        let report = Report {
            model: settings.name(),
            target: name,
            bytes: compiled.to_bytes()?.len() as u64,
            compiled,
            seconds,
            times,
            out: self.out.map(|out| out.display().to_string()),
            folder: folder.map(|cache| cache.folder().display().to_string()),
            machine_code,
        };
        match self.json {
            true => print_json(&report.json()),
            false => report.print(),
        }
    }
}

/// What was compiled, and where it was written.
struct Report {
    model: String,
    target: String,
    compiled: CompiledModule,
    /// The size of the compiled model in its file.
    bytes: u64,
    seconds: f64,
    /// What the device's session spent; `None` for another target.
    times: Option<StartTimes>,
    /// The file of `--out`.
    out: Option<String>,
    /// The cache's folder, if something was written to it.
    folder: Option<String>,
    /// `None` for targets other than NVIDIA's GPUs.
    machine_code: Option<MachineCode>,
}

impl Report {
    fn json(&self) -> Value {
        let programs = self.compiled.models().iter().map(|model| {
            let program = model.program();
            json!({
                "name": program.name,
                "calls": program.calls.len(),
                "kernels": kernels(program),
            })
        });
        let machine_code = self.machine_code.as_ref().map(|made| match made {
            Ok((kernels, compiler)) => json!({ "kernels": kernels, "compiler": compiler }),
            Err(reason) => json!({ "left_out": reason }),
        });
        json!({
            "model": self.model, "target": self.target, "programs": programs.collect::<Vec<_>>(),
            "bytes": self.bytes, "seconds": self.seconds, "start": self.times, "out": self.out,
            "cache": self.folder, "machine_code": machine_code,
        })
    }

    fn print(&self) -> Result<()> {
        for model in self.compiled.models() {
            let program = model.program();
            let (name, calls) = (&program.name, program.calls.len());
            let kernels = kernels(program).len();
            print_line!("{name}: {calls} calls of {kernels} kernels")?;
        }
        let (model, target, seconds) = (&self.model, &self.target, self.seconds);
        let size = format_bytes(self.bytes);
        print_line!("{model} for {target}: {size} in {seconds:.2} s")?;
        match &self.machine_code {
            Some(Ok((kernels, compiler))) => print_line!(
                "machine code of {kernels} kernels by {compiler}, for the cache folder of the machine with the GPU"
            )?,
            Some(Err(reason)) => print_line!(
                "no machine code, the machine with the GPU compiles the kernels: {reason}"
            )?,
            None => {}
        }
        for path in self.out.iter().chain(&self.folder) {
            print_line!("in {}", escape::line(path))?;
        }
        Ok(())
    }
}

/// Returns the names of a program's kernels.
fn kernels(program: &Program) -> Vec<&str> {
    program.kernels().map(|kernel| kernel.name).collect()
}

/// Compiles a model's programs and pipelines for the device and writes them to the cache.
fn warm(
    settings: &Resolved,
    device: Device,
    files: &ModelFiles,
    limits: ModelLimits,
    to_file: bool,
) -> Result<InferenceSession> {
    let cache = cache();
    let tuning = settings.config.tuning_for(device.info(), cache.as_ref())?;
    let session = InferenceSession::new(device).with_tuning(tuning);
    session.set_precision(settings.config.precision);
    let session = match cache {
        Some(cache) => session.with_cache(cache),
        // The compiled model only goes to the file.
        None if to_file => session,
        None => {
            bail!("no cache directory is available: set WISP_CACHE_DIR, or name a file with --out")
        }
    };
    let target = session.device().info().capabilities.clone();
    for graph in prepare::graphs(files, &target, limits)? {
        session.prepare(&session.compile(&graph)?)?;
    }
    Ok(session)
}

/// How many kernels are machine code in the cache now, and the compiler's name; or why there are none.
type MachineCode = result::Result<(usize, String), String>;

/// Compiles the kernels for NVIDIA's GPUs into the cache, if the target is one of them.
#[cfg(feature = "cuda")]
fn machine_code(compiled: &CompiledModule, target: &Target) -> Result<Option<MachineCode>> {
    let Some(architecture) = target.cuda_architecture() else {
        return Ok(None);
    };
    let compiler = match OfflineCompiler::new(architecture) {
        Ok(compiler) => compiler,
        Err(error) => return Ok(Some(Err(error.to_string()))),
    };
    let Some(cache) = cache() else {
        let reason = "no cache directory is available: set WISP_CACHE_DIR";
        return Ok(Some(Err(reason.into())));
    };
    let made = compiled.compile_machine_code(&compiler, &cache)?;
    let made = made.ok_or_else(|| {
        let folder = cache.folder().display().to_string();
        format!(
            "the cache folder {} cannot be written",
            escape::line(&folder)
        )
    });
    Ok(Some(made.map(|kernels| (kernels, compiler.version()))))
}

/// Nothing: a build without CUDA has no such targets.
#[cfg(not(feature = "cuda"))]
fn machine_code(_: &CompiledModule, _: &Target) -> Result<Option<MachineCode>> {
    Ok(None)
}
