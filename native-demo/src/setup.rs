//! What the commands share: opening a model, loading it, its limits.

use std::{ops::ControlFlow, path::Path, time::Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
#[cfg(feature = "candle")]
use wisp_engine::pipelines::candle::CandleFiles;
use wisp_engine::{
    device::{Device, DeviceInfo},
    files::DiskCache,
    pipelines::{
        CheckpointModel, ModelFiles, ModelLimits, PipelineConfig, PipelineError, SamplingParams,
        TextEncoder,
        huggingface_repo::{OnTransfer, Transfer},
        model_files,
        text_generation::TextGenerator,
        tokenizer::{Tokenizer, TokenizerError},
    },
    session::{InferenceSession, StartTimes},
    weights::Checkpoint,
};

use crate::{adapter, interrupt, settings::Resolved};

/// The model that ships inside the program.
const INSIDE: &[u8] = include_bytes!("../model/wisp-tiny.gguf");

/// What the model inside is called.
pub const INSIDE_NAME: &str = "wisp-tiny";

/// The longest context that is made unless a longer one is asked for.
const LONGEST_BY_DEFAULT: u64 = 4096;

/// How tokens are drawn.
#[derive(Args, Clone)]
pub struct SamplingArgs {
    /// 0 is greedy: always the likeliest token
    #[arg(long, default_value_t = 0.0, value_name = "T")]
    pub temperature: f32,
    /// Draw from the likeliest tokens that together have probability P
    #[arg(long, default_value_t = 1.0, value_name = "P")]
    pub top_p: f32,
    /// Leave out tokens less than P times as likely as the likeliest
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    pub min_p: f32,
    /// Above 1: tokens that were seen become less likely
    #[arg(long, default_value_t = 1.0, value_name = "R")]
    pub repetition_penalty: f32,
    /// Taken off the logits of tokens that the answer already has
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "P",
        allow_negative_numbers = true
    )]
    pub presence_penalty: f32,
    /// Taken off the logits of tokens for each time that the answer has them
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "P",
        allow_negative_numbers = true
    )]
    pub frequency_penalty: f32,
    /// Add VALUE to the logit of token ID; may be given several times
    #[arg(long, value_name = "ID=VALUE", value_parser = logit_bias)]
    pub logit_bias: Vec<(u32, f32)>,
    /// The same seed draws the same tokens
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub seed: u32,
}

/// Reads ID=VALUE.
fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let parsed = text.split_once('=').and_then(|(token, value)| {
        let value: f32 = value.trim().parse().ok()?;
        Some((token.trim().parse().ok()?, value)).filter(|_| value.is_finite())
    });
    parsed.ok_or_else(|| "give a token's id and a number, such as 42=-1.5".into())
}

impl SamplingArgs {
    /// The parameters over those of the configuration, checked.
    pub fn params(&self, config: &PipelineConfig) -> Result<SamplingParams> {
        let params = SamplingParams {
            temperature: self.temperature,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            seed: self.seed,
            ..config.sampling()
        };
        params.check()?;
        Ok(params)
    }
}

impl Resolved {
    /// What the model is called.
    pub fn name(&self) -> String {
        match self.config.short_name() {
            "" => INSIDE_NAME.into(),
            name => name.into(),
        }
    }

    /// True if no model is named, so that the one inside the program is meant.
    fn is_inside(&self) -> bool {
        self.config.huggingface_repo_id.is_none() && self.config.weight_path.is_empty()
    }

    /// Opens the model's files, after downloading what is missing.
    pub fn open(&self) -> Result<ModelFiles> {
        if self.is_inside() {
            let files = ModelFiles::from_bytes(INSIDE_NAME, INSIDE)?;
            return Ok(self.config.apply_overrides(files)?);
        }
        with_transfers(|on_transfer| Ok(self.config.open(on_transfer)?))
    }

    /// Opens the files of a model for candle, after downloading what is missing.
    #[cfg(feature = "candle")]
    pub fn open_candle(&self) -> Result<CandleFiles> {
        if self.is_inside() {
            bail!(
                "the model inside the program is in GGUF, which candle does not read: give --model"
            );
        }
        with_transfers(|on_transfer| Ok(self.config.open_candle(on_transfer)?))
    }

    /// Opens only the tokenizer: a GGUF file with nothing but a vocabulary will do.
    pub fn open_tokenizer(&self) -> Result<Tokenizer> {
        if self.is_inside() {
            let files = ModelFiles::from_bytes(INSIDE_NAME, INSIDE)?;
            return files.tokenizer.context("the model inside");
        }
        let path = Path::new(self.config.short_name());
        if path.is_dir() && path.join("tokenizer.json").exists() {
            return Tokenizer::from_dir(path).with_context(|| self.name());
        }
        if path.exists() {
            let checkpoint = Checkpoint::open(path)?;
            return model_files::tokenizer(&checkpoint).with_context(|| self.name());
        }
        with_transfers(|on_transfer| Ok(self.config.open_tokenizer(on_transfer)?))
    }

    /// Opens the device.
    pub fn device(&self) -> Result<Device> {
        self.config.require_built()?;
        Ok(pollster::block_on(self.config.device())?)
    }

    /// Opens the device and loads a model to it, with a progress bar.
    pub fn load(&self, files: &ModelFiles, limits: ModelLimits) -> Result<Loaded> {
        files.model_spec.decoder()?;
        let start = Instant::now();
        let (session, limits) = self.session(files, limits)?;
        let mut generator = with_loading(|progress| {
            let load = TextGenerator::load(&session, files, limits, Some(progress));
            pollster::block_on(load)
        })?;
        self.config.save_compiled(&session, files, &limits)?;
        adapter::load(&self.config, &mut generator)?;
        Ok(Loaded {
            generator,
            device: session.device().clone(),
            start: session.start_times(),
            load_seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Opens the device and loads an encoder to it, with a progress bar.
    pub fn load_encoder(&self, files: &ModelFiles, limits: ModelLimits) -> Result<TextEncoder> {
        let (session, limits) = self.session(files, limits)?;
        let encoder = with_loading(|progress| {
            let load = TextEncoder::load(&session, files, limits, Some(progress));
            pollster::block_on(load)
        })?;
        self.config.save_compiled(&session, files, &limits)?;
        Ok(encoder)
    }

    /// Opens the device, and limits the memory to what may be taken of it.
    fn session(
        &self,
        files: &ModelFiles,
        mut limits: ModelLimits,
    ) -> Result<(InferenceSession, ModelLimits)> {
        let device = self.device()?;
        // None left is not the 0 that stands for no limit.
        limits.memory = self.config.memory(&device).map_or(0, |bytes| bytes.max(1));
        let session = InferenceSession::new(device);
        let session = match cache() {
            Some(cache) => session.with_cache(cache),
            None => session,
        };
        Ok((self.config.session(session, files, &limits)?, limits))
    }

    /// The limits for one conversation: as long as the model sees, unless a length is asked for.
    pub fn limits(&self, files: &ModelFiles) -> Result<ModelLimits> {
        self.limits_of(files, self.length(files))
    }

    /// The length of a context for any text.
    fn length(&self, files: &ModelFiles) -> u64 {
        let most = files.model_spec.spec.max_positions.max(1);
        match self.length_is_set {
            true => self.config.max_length,
            false => most.min(LONGEST_BY_DEFAULT),
        }
    }

    /// The limits for a context of this length, unless they are a compiled model's, which is for any.
    pub fn limits_of(&self, files: &ModelFiles, max_length: u64) -> Result<ModelLimits> {
        let max_length = match self.config.has_compiled_file() {
            true => self.length(files),
            false => max_length,
        };
        let config = PipelineConfig {
            max_length,
            ..self.config.clone()
        };
        Ok(config.limits(&files.model_spec.spec)?)
    }

    /// The limits for one text of known length: memory for no more than it takes.
    pub fn limits_for(
        &self,
        files: &ModelFiles,
        prompt: usize,
        new: Option<usize>,
    ) -> Result<ModelLimits> {
        let mut limits = self.limits(files)?;
        // A compiled model is for any prompt.
        let fixed = self.length_is_set || self.config.has_compiled_file();
        if let (Some(new), false) = (new, fixed) {
            let needed = (prompt as u64).saturating_add(new as u64).max(1);
            limits = self.limits_of(files, limits.max_length.min(needed))?;
        }
        if !self.config.enable_echo && !self.config.has_compiled_file() {
            limits.max_step_tokens = limits.max_step_tokens.min(prompt.max(1) as u64);
        }
        Ok(limits)
    }
}

/// Does something that may download, with a progress bar; Ctrl-C ends it.
fn with_transfers<T>(run: impl FnOnce(OnTransfer<'_>) -> Result<T>) -> Result<T> {
    let bar = progress_bar("{msg} {bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    let on_transfer = |transfer: Transfer<'_>| {
        // From here on an interrupt leaves a partial file behind that can be continued.
        interrupt::catch();
        bar.set_message(transfer.file.to_string());
        bar.set_length(transfer.total);
        bar.set_position(transfer.done);
        match interrupt::happened() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let done = run(&on_transfer);
    bar.finish_and_clear();
    done
}

/// Loads a model, with a progress bar.
fn with_loading<T>(
    load: impl FnOnce(&(dyn Fn(u64, u64) + Send + Sync)) -> Result<T, PipelineError>,
) -> Result<T> {
    let bar = progress_bar("loading {bar:32} {bytes}/{total_bytes}");
    let loaded = load(&|done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    Ok(loaded?)
}

/// A progress bar; without a terminal it stays unseen.
pub fn progress_bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

/// The tokenizer of a model, or why text cannot be used with it.
pub fn tokenizer<'a>(
    name: &str,
    tokenizer: &'a Result<Tokenizer, TokenizerError>,
) -> Result<&'a Tokenizer> {
    match tokenizer {
        Ok(tokenizer) => Ok(tokenizer),
        Err(error) => bail!("{name}: {error} (--tokens works without a tokenizer)"),
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
    /// What of them went into compiling and loading.
    pub start: StartTimes,
}

/// Where compiled programs and pipelines are kept: `WISP_CACHE_DIR` (empty: nowhere), or a folder in the
/// user's cache.
pub fn cache() -> Option<DiskCache> {
    let folder = match std::env::var_os("WISP_CACHE_DIR") {
        Some(folder) if folder.is_empty() => return None,
        Some(folder) => folder.into(),
        None => dirs::cache_dir()?.join("wisp"),
    };
    Some(DiskCache::new(folder))
}

/// A device in a few words.
pub fn describe(info: &DeviceInfo) -> String {
    format!("{} ({})", info.name, info.api)
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
