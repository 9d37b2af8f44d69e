//! Opening and loading the model that the settings name, with progress bars.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use wisp_engine::{
    Canceller, Error, LoadProgress, Model, ModelBuilder, OpenModel,
    device::{Device, DeviceInfo},
    files::{CacheEntry, DiskCache},
    pipelines::{
        ModelFiles, PipelineEngine, PipelineError, TextProcessor, huggingface_repo::OnTransfer,
        model_files, tokenizer::Tokenizer,
    },
    weights::Checkpoint,
};

use crate::{
    destination::{self, Contents, Inputs},
    escape, interrupt,
    output::message,
    progress::{Downloads, progress_bar},
    settings::Resolved,
};

/// The GGUF file that is built into the program.
const BUILT_IN: &[u8] = include_bytes!("../model/wisp-tiny.gguf");

/// The name of the built-in model.
const BUILT_IN_NAME: &str = "wisp-tiny";

impl Resolved {
    /// Returns the device that runs the model, for messages.
    pub fn device_of(&self, model: &Model) -> String {
        match self.config.engine {
            PipelineEngine::HuggingFace => "the CPU (candle)".into(),
            _ => describe(model.device()),
        }
    }

    /// Returns the name of the model.
    pub fn name(&self) -> String {
        match self.config.short_name() {
            "" => BUILT_IN_NAME.into(),
            name => name.into(),
        }
    }

    /// Returns whether no model is named, which means the built-in one.
    fn is_built_in(&self) -> bool {
        self.config.huggingface_repo_id.is_none() && self.config.weight_path.is_empty()
    }

    /// Opens the model's files, and downloads those that are missing.
    pub fn open(&self) -> Result<OpenModel> {
        self.open_with(|builder| builder)
    }

    /// Opens the model as [`Self::open`] does, with settings that have no flag.
    pub fn open_with(&self, set: impl FnOnce(ModelBuilder) -> ModelBuilder) -> Result<OpenModel> {
        let downloads = Arc::new(Downloads::new());
        let weights = progress_bar("loading {bar:32} {bytes}/{total_bytes}");
        let shown = downloads.clone();
        let canceller = Canceller::new();
        let builder = ModelBuilder::from_config(self.config.clone())
            .canceller(&canceller)
            .on_progress(move |progress| show(&shown, &weights, &canceller, progress));
        let builder = match self.length_is_set {
            true => builder,
            false => builder.default_context_length(),
        };
        let builder = match cache() {
            Some(cache) => builder.compile_cache(cache),
            None => builder,
        };
        let builder = set(builder);
        if self.is_built_in() {
            if self.config.engine == PipelineEngine::HuggingFace {
                bail!(
                    "the built-in model is a GGUF file, which candle does not read: give --model"
                );
            }
            let files = ModelFiles::from_bytes(BUILT_IN_NAME, BUILT_IN)?;
            return self.check_destination(builder.with_files(files)?);
        }
        let opened = builder.open();
        interrupt::end();
        downloads.finish();
        self.check_destination(opened?)
    }

    /// Checks that the file to which the compiled model is saved may be written.
    fn check_destination(&self, open: OpenModel) -> Result<OpenModel> {
        if let Some(path) = &self.config.save_to_serialized_model_path {
            let inputs = Inputs::of(&self.config, &open);
            destination::check(path.as_ref(), Contents::Compiled, &inputs)?;
        }
        Ok(open)
    }

    /// Opens only the tokenizer. A GGUF file without tensors is enough.
    pub fn open_tokenizer(&self) -> Result<Tokenizer> {
        if self.is_built_in() {
            let files = ModelFiles::from_bytes(BUILT_IN_NAME, BUILT_IN)?;
            return files.tokenizer.context("the built-in model");
        }
        let path = Path::new(self.config.short_name());
        if path.is_dir() && path.join("tokenizer.json").exists() {
            return Tokenizer::from_dir(path).with_context(|| self.name());
        }
        if path.exists() {
            let checkpoint = Checkpoint::open(path)?;
            return model_files::tokenizer(&checkpoint).with_context(|| self.name());
        }
        let (canceller, downloads) = (Canceller::new(), Downloads::new());
        let on_transfer: OnTransfer<'_> = &|transfer| {
            interrupt::begin(canceller.clone());
            downloads.show(transfer.file, transfer.done, transfer.total);
            match canceller.is_cancelled() {
                true => std::ops::ControlFlow::Break(()),
                false => std::ops::ControlFlow::Continue(()),
            }
        };
        let opened = self.config.open_tokenizer(on_transfer);
        interrupt::end();
        downloads.finish();
        Ok(opened?)
    }

    /// Opens the device.
    pub fn device(&self) -> Result<Device> {
        self.config.check_supported()?;
        Ok(pollster::block_on(self.config.device())?)
    }
}

/// Returns the files of a model that Wisp's own engine runs.
///
/// # Errors
///
/// If candle runs the model.
pub fn files(open: &OpenModel) -> Result<&ModelFiles> {
    open.files().context(
        "--engine huggingface only runs models; it cannot describe, convert or measure them",
    )
}

/// Loads a decoder, with a progress bar. An encoder is refused before its weights are loaded.
pub fn load(open: OpenModel) -> Result<Model> {
    if let Some(files) = open.files() {
        files.model_spec.decoder()?;
    }
    Ok(open.load()?)
}

/// Returns the tokenizer of a model.
///
/// # Errors
///
/// If the model has no usable tokenizer, so that only token ids work.
pub fn tokenizer(text: &TextProcessor) -> Result<&Tokenizer> {
    text.tokenizer().map_err(|error| match error {
        PipelineError::NoTokenizer { model, problem } => {
            anyhow::anyhow!("{model}: {problem} (--tokens works without a tokenizer)")
        }
        error => Error::from(error).into(),
    })
}

/// Shows the progress of a download or of loading weights in its bar.
fn show(
    downloads: &Downloads,
    weights: &ProgressBar,
    canceller: &Canceller,
    progress: LoadProgress,
) {
    match progress {
        LoadProgress::Download { file, done, total } => {
            // What has arrived stays, and the next download continues from it.
            interrupt::begin(canceller.clone());
            downloads.show(&file, done, total);
        }
        LoadProgress::Weights { done, total } => {
            weights.set_length(total);
            weights.set_position(done);
            if done >= total {
                weights.finish_and_clear();
            }
        }
        LoadProgress::Note { text, .. } => message!("note: {}", escape::line(&text)),
        _ => {}
    }
}

/// Returns the cache of compiled programs and pipelines: in `WISP_CACHE_DIR` (empty for no cache), or in
/// the user's cache directory.
pub fn cache() -> Option<DiskCache> {
    let folder = match std::env::var_os("WISP_CACHE_DIR") {
        Some(folder) if folder.is_empty() => return None,
        Some(folder) => folder.into(),
        None => dirs::cache_dir()?.join("wisp"),
    };
    Some(DiskCache::new(folder))
}

/// Checks, before anything is computed for it, that the cache keeps files, if there is one.
///
/// # Errors
///
/// If it does not.
pub fn check_cache() -> Result<()> {
    if let Some(cache) = cache().filter(|cache| !keeps_files(cache)) {
        bail!(
            "the cache folder {} cannot be written, or others can write it too: set WISP_CACHE_DIR, or name a file \
             with --out",
            cache.folder().display()
        );
    }
    Ok(())
}

/// Returns whether a cache reads what it has written.
pub fn keeps_files(cache: &DiskCache) -> bool {
    let name = CacheEntry::Program.file_name(&format!("check-{}", std::process::id()));
    cache.write(&name, b"check");
    let is_kept = cache.read(&name).is_some();
    // There may be none.
    let _ = std::fs::remove_file(cache.folder().join(name));
    is_kept
}

/// Returns the name and the API of a device, and its class of kernels if that is not the adapter's own.
pub fn describe(info: &DeviceInfo) -> String {
    match info.device_class().filter(|_| info.poses()) {
        Some(class) => format!("{} ({}, class {class})", info.name, info.api),
        None => format!("{} ({})", info.name, info.api),
    }
}
