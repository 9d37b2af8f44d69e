//! Loads models from names or files.

#[cfg(not(target_arch = "wasm32"))]
use std::ops::ControlFlow;

use wisp_pipelines::ModelFiles;
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
use wisp_pipelines::PipelineEngine;
#[cfg(not(target_arch = "wasm32"))]
use wisp_pipelines::PipelineError;

#[cfg(not(target_arch = "wasm32"))]
use crate::{builder::LoadProgress, worker};
use crate::{
    builder::ModelBuilder,
    error::Error,
    model::Model,
    open_model::{Files, OpenModel},
};

impl Model {
    /// Loads a model with default settings, blocking the thread. `name` is a `.gguf` file, a directory
    /// in Hugging Face's layout, or a hub repository (`org/name`, `org/name:q4_k` or
    /// `org/name:file.gguf`), which is downloaded unless it is cached. [`Self::builder`] has all
    /// settings.
    ///
    /// # Errors
    ///
    /// If there is no such model, its files are damaged, or the device has not enough memory.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load(name: impl Into<String>) -> Result<Model, Error> {
        Model::builder(name).load()
    }

    /// Like [`Self::load`], but does not block the task: a separate thread does the work.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub async fn load_async(name: impl Into<String>) -> Result<Model, Error> {
        Model::builder(name).load_async().await
    }

    /// Returns the settings for loading a model; the name is as in [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn builder(name: impl Into<String>) -> ModelBuilder {
        ModelBuilder::new(name)
    }

    /// Returns the bytes of device memory that a model would take with default settings. Downloads the
    /// model if necessary, but does not load it.
    ///
    /// # Errors
    ///
    /// If there is no such model, or its files are damaged.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn estimate(name: impl Into<String>) -> Result<wisp_compiler::Footprint, Error> {
        Model::builder(name).estimate()
    }

    /// Takes a model whose files are already open, in memory or streamed by a browser. It uses the
    /// default settings; [`ModelBuilder::with_files`] takes others.
    ///
    /// # Errors
    ///
    /// If Wisp cannot run the files.
    pub fn from_files(files: ModelFiles) -> Result<OpenModel, Error> {
        ModelBuilder::default().with_files(files)
    }
}

impl ModelBuilder {
    /// Opens the model's files without loading the model; downloads missing files first.
    ///
    /// # Errors
    ///
    /// If there is no such model, its files are damaged, or the download was cancelled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(self) -> Result<OpenModel, Error> {
        let on_transfer = |transfer: wisp_hub::Transfer<'_>| {
            self.report(LoadProgress::Download {
                file: transfer.file.into(),
                done: transfer.done,
                total: transfer.total,
            });
            match self.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let opened = self.open_files(&on_transfer);
        let files = opened.map_err(|error| match self.is_cancelled() {
            true => Error::Cancelled,
            false => error.into(),
        })?;
        Ok(OpenModel::new(self, files))
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn open_files(&self, on_transfer: wisp_hub::OnTransfer<'_>) -> Result<Files, PipelineError> {
        #[cfg(feature = "candle")]
        if self.config.engine == PipelineEngine::HuggingFace {
            return Ok(Files::Candle(Box::new(
                self.config.open_candle(on_transfer)?,
            )));
        }
        Ok(Files::Max(Box::new(self.config.open(on_transfer)?)))
    }

    /// Takes files that are already open: a model in memory, or one that a browser streams.
    ///
    /// # Errors
    ///
    /// If the files do not match the settings.
    pub fn with_files(self, files: ModelFiles) -> Result<OpenModel, Error> {
        let files = self.config.apply_overrides(files)?;
        Ok(OpenModel::new(self, Files::Max(Box::new(files))))
    }

    /// Loads the model, blocking the thread.
    ///
    /// # Errors
    ///
    /// If there is no such model, its files are damaged, there is no such device or it has not enough
    /// memory, or loading was cancelled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load(self) -> Result<Model, Error> {
        self.open()?.load()
    }

    /// Like [`Self::load`], but does not block the task: a separate thread does the work. If the future is dropped, it
    /// ends at the next piece of a download or of the weights.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub async fn load_async(mut self) -> Result<Model, Error> {
        let load = |abandoned| {
            self.abandoned = abandoned;
            async move { self.load() }
        };
        worker::run_on_thread(load).await
    }

    /// Returns the bytes of device memory that the model would take. Downloads the model if necessary,
    /// but does not load it.
    ///
    /// # Errors
    ///
    /// As [`Self::load`], except for those that depend on the device's memory.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn estimate(self) -> Result<wisp_compiler::Footprint, Error> {
        self.open()?.estimate()
    }
}
