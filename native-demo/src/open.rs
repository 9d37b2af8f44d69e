//! Opening and loading the model that the settings name, with progress bars.

use std::path::Path;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use wisp_engine::{
    Error, LoadProgress, Model, ModelBuilder, OpenModel,
    device::{Device, DeviceInfo},
    files::DiskCache,
    pipelines::{
        ModelFiles, PipelineEngine, PipelineError, TextProcessor, huggingface_repo::OnTransfer,
        model_files, tokenizer::Tokenizer,
    },
    weights::Checkpoint,
};

use crate::{interrupt, settings::Resolved};

/// The model that ships inside the program.
const INSIDE: &[u8] = include_bytes!("../model/wisp-tiny.gguf");

/// What the model inside is called.
const INSIDE_NAME: &str = "wisp-tiny";

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
    pub fn open(&self) -> Result<OpenModel> {
        self.open_with(|builder| builder)
    }

    /// [`Self::open`] with settings that have no flag.
    pub fn open_with(&self, set: impl FnOnce(ModelBuilder) -> ModelBuilder) -> Result<OpenModel> {
        let download = progress_bar("{msg} {bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        let weights = progress_bar("loading {bar:32} {bytes}/{total_bytes}");
        let bars = (download.clone(), weights);
        let builder = ModelBuilder::from_config(self.config.clone())
            .canceller(&interrupt::canceller())
            .on_progress(move |progress| show(&bars.0, &bars.1, progress));
        let builder = match self.length_is_set {
            true => builder,
            false => builder.default_context_length(),
        };
        let builder = match cache() {
            Some(cache) => builder.compile_cache(cache),
            None => builder,
        };
        let builder = set(builder);
        if self.is_inside() {
            if self.config.engine == PipelineEngine::HuggingFace {
                bail!(
                    "the model inside the program is in GGUF, which candle does not read: give --model"
                );
            }
            let files = ModelFiles::from_bytes(INSIDE_NAME, INSIDE)?;
            return Ok(builder.with_files(files)?);
        }
        let opened = builder.open();
        download.finish_and_clear();
        Ok(opened?)
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
        let bar = progress_bar("{msg} {bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        let (canceller, shown) = (interrupt::canceller(), bar.clone());
        let on_transfer: OnTransfer<'_> = &|transfer| {
            show_download(&shown, transfer.file, transfer.done, transfer.total);
            match canceller.is_cancelled() {
                true => std::ops::ControlFlow::Break(()),
                false => std::ops::ControlFlow::Continue(()),
            }
        };
        let opened = self.config.open_tokenizer(on_transfer);
        bar.finish_and_clear();
        Ok(opened?)
    }

    /// Opens the device.
    pub fn device(&self) -> Result<Device> {
        self.config.check_supported()?;
        Ok(pollster::block_on(self.config.device())?)
    }
}

/// The files of a model that Wisp's own engine runs.
pub fn files(open: &OpenModel) -> Result<&ModelFiles> {
    open.files().context(
        "--engine huggingface runs models, but neither describes, converts nor measures them",
    )
}

/// Loads a model that generates, with a progress bar. An encoder is refused before anything is loaded.
pub fn load(open: OpenModel) -> Result<Model> {
    if let Some(files) = open.files() {
        files.model_spec.decoder()?;
    }
    Ok(open.load()?)
}

/// The tokenizer of a model, or why text cannot be used with it.
pub fn tokenizer(text: &TextProcessor) -> Result<&Tokenizer> {
    text.tokenizer().map_err(|error| match error {
        PipelineError::NoTokenizer { model, problem } => {
            anyhow::anyhow!("{model}: {problem} (--tokens works without a tokenizer)")
        }
        error => Error::from(error).into(),
    })
}

/// Shows progress in one of two bars.
fn show(download: &ProgressBar, weights: &ProgressBar, progress: LoadProgress) {
    match progress {
        LoadProgress::Download { file, done, total } => {
            show_download(download, &file, done, total);
        }
        LoadProgress::Weights { done, total } => {
            weights.set_length(total);
            weights.set_position(done);
            if done >= total {
                weights.finish_and_clear();
            }
        }
        _ => {}
    }
}

fn show_download(bar: &ProgressBar, file: &str, done: u64, total: u64) {
    // From here on an interrupt leaves a partial file behind that can be continued.
    interrupt::catch();
    bar.set_message(file.to_string());
    bar.set_length(total);
    bar.set_position(done);
}

/// A progress bar; without a terminal it stays unseen.
pub fn progress_bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
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
