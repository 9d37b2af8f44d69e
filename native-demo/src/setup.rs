//! What the commands share: which model, which device, which limits.

use std::{path::PathBuf, time::Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use wisp_engine::{
    device::{Device, DeviceInfo, DeviceSpec, Profile},
    pipelines::{
        ModelLimits, SamplingParams, checkpoint::ModelFiles, text_generation::TextGenerator,
        tokenizer::Tokenizer,
    },
    session::InferenceSession,
};

/// The model that ships inside the program.
const INSIDE: &[u8] = include_bytes!("../model/wisp-tiny.gguf");

/// What the model inside is called.
pub const INSIDE_NAME: &str = "wisp-tiny";

/// Which model.
#[derive(Args)]
pub struct ModelArgs {
    /// A .gguf file, or a directory in Hugging Face's layout. Default: the model inside the program
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<PathBuf>,
}

/// Where it runs.
#[derive(Args)]
pub struct DeviceArgs {
    /// auto, host, vulkan, metal, dx12 or gl; with :INDEX, one of several
    #[arg(
        long,
        env = "WISP_DEVICE",
        default_value = "auto",
        value_name = "DEVICE"
    )]
    pub device: DeviceSpec,
    /// full, or baseline: only what every browser guarantees
    #[arg(long, default_value = "full", value_name = "PROFILE")]
    pub profile: Profile,
    /// Threads of the host device; 0 is one a core
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub threads: usize,
}

/// How much memory and work at a time.
#[derive(Args)]
pub struct LimitArgs {
    /// Tokens that the context holds, prompt and answer together [default: the model's, at most 4096]
    #[arg(long, value_name = "N")]
    pub max_length: Option<u64>,
    /// Tokens of a prompt that go through the model at a time
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub prefill_chunk: u64,
    /// Positions in a page of the KV cache
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub page_size: u32,
    /// Decode steps in one submission to the device
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub max_num_steps: u64,
}

/// How tokens are drawn.
#[derive(Args, Clone)]
pub struct SamplingArgs {
    /// 0 is greedy: always the likeliest token
    #[arg(long, default_value_t = 0.0, value_name = "T")]
    pub temperature: f32,
    /// Draw from the K likeliest tokens; 0 is all
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub top_k: u32,
    /// Draw from the likeliest tokens that together have probability P
    #[arg(long, default_value_t = 1.0, value_name = "P")]
    pub top_p: f32,
    /// Leave out tokens less than P times as likely as the likeliest
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    pub min_p: f32,
    /// Above 1: tokens that were seen become less likely
    #[arg(long, default_value_t = 1.0, value_name = "R")]
    pub repetition_penalty: f32,
    /// The same seed draws the same tokens
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub seed: u32,
}

impl SamplingArgs {
    /// The parameters, checked.
    pub fn params(&self) -> Result<SamplingParams> {
        let params = SamplingParams {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
        };
        params.check()?;
        Ok(params)
    }
}

impl ModelArgs {
    /// What the model is called.
    pub fn name(&self) -> String {
        self.model
            .as_ref()
            .map_or(INSIDE_NAME.into(), |path| path.display().to_string())
    }

    /// Opens the model's files.
    pub fn open(&self) -> Result<ModelFiles> {
        let Some(path) = &self.model else {
            return Ok(ModelFiles::from_bytes(INSIDE_NAME, INSIDE)?);
        };
        self.must_exist()?;
        Ok(ModelFiles::open(path)?)
    }

    /// Opens only the tokenizer: a GGUF file with nothing but a vocabulary will do.
    pub fn open_tokenizer(&self) -> Result<Tokenizer> {
        let Some(path) = &self.model else {
            return ModelFiles::from_bytes(INSIDE_NAME, INSIDE)?
                .tokenizer
                .context("the model inside");
        };
        self.must_exist()?;
        if path.is_dir() && path.join("tokenizer.json").exists() {
            return Tokenizer::from_dir(path).with_context(|| path.display().to_string());
        }
        let checkpoint = wisp_engine::weights::Checkpoint::open(path)?;
        wisp_engine::pipelines::checkpoint::tokenizer(&checkpoint)
            .with_context(|| path.display().to_string())
    }

    fn must_exist(&self) -> Result<()> {
        if let Some(path) = self.model.as_ref().filter(|path| !path.exists()) {
            bail!(
                "{}: there is no such file or directory (a hub repository must be downloaded first)",
                path.display()
            );
        }
        Ok(())
    }
}

/// The tokenizer of a model, or why text cannot be used with it.
pub fn tokenizer(files: &ModelFiles) -> Result<&Tokenizer> {
    match &files.tokenizer {
        Ok(tokenizer) => Ok(tokenizer),
        Err(error) => bail!(
            "{}: {error} (--tokens works without a tokenizer)",
            files.name
        ),
    }
}

/// A loaded model and what it took.
pub struct Loaded {
    /// The model.
    pub generator: TextGenerator,
    /// Where it runs.
    pub device: Device,
    /// Seconds from opening the device to the last weight.
    pub load_seconds: f64,
}

/// A device in a few words.
pub fn describe(info: &DeviceInfo) -> String {
    format!("{} ({})", info.name, info.api)
}

impl DeviceArgs {
    /// Opens the device.
    pub fn open(&self) -> Result<Device> {
        Ok(pollster::block_on(Device::open(
            &self.device,
            self.profile,
            self.threads,
        ))?)
    }

    /// Opens the device and loads a model to it, with a progress bar.
    pub fn load(&self, files: &ModelFiles, limits: ModelLimits) -> Result<Loaded> {
        let start = Instant::now();
        let device = self.open()?;
        let session = InferenceSession::new(device.clone());
        let style = ProgressStyle::with_template("loading {bar:32} {bytes}/{total_bytes}")
            .unwrap_or(ProgressStyle::default_bar());
        let bar = ProgressBar::new(0).with_style(style);
        let progress = |done: u64, total: u64| {
            bar.set_length(total);
            bar.set_position(done);
        };
        let generator = pollster::block_on(TextGenerator::load(
            &session,
            files,
            limits,
            Some(&progress),
        ));
        bar.finish_and_clear();
        Ok(Loaded {
            generator: generator?,
            device,
            load_seconds: start.elapsed().as_secs_f64(),
        })
    }
}

impl LimitArgs {
    /// The limits for one conversation.
    pub fn limits(&self, files: &ModelFiles) -> Result<ModelLimits> {
        let most = files.recognised.spec.max_positions.max(1);
        let max_length = match self.max_length {
            Some(0) => bail!("--max-length must be at least 1"),
            Some(length) if length > most => bail!(
                "--max-length {length} is more than the {most} positions that the model was made for"
            ),
            Some(length) => length,
            None => most.min(4096),
        };
        Ok(ModelLimits {
            max_length,
            max_step_tokens: self.prefill_chunk.min(max_length),
            page_size: self.page_size,
            max_steps: self.max_num_steps,
            ..ModelLimits::default()
        })
    }

    /// The limits for one text of known length: memory for no more than it takes.
    pub fn limits_for(
        &self,
        files: &ModelFiles,
        prompt: usize,
        new: Option<usize>,
    ) -> Result<ModelLimits> {
        let mut limits = self.limits(files)?;
        if let (Some(new), None) = (new, self.max_length) {
            limits.max_length = limits
                .max_length
                .min((prompt as u64).saturating_add(new as u64).max(1));
        }
        limits.max_step_tokens = limits.max_step_tokens.min(prompt.max(1) as u64);
        Ok(limits)
    }
}

/// The most memory that this process had at once, in bytes, where the system tells.
pub fn host_peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}
