//! A model whose files are open, before it is loaded.

use std::ops::ControlFlow;
#[cfg(not(target_arch = "wasm32"))]
use std::path::PathBuf;

use wisp_compiler::Footprint;
use wisp_device::Device;
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
use wisp_pipelines::candle::{CandleFiles, CandleModel};
use wisp_pipelines::{
    CheckpointModel, DecoderModel, ModelFiles, ModelLimits, PipelineError, TextEncoder,
    TextGenerator, TextProcessor,
};
use wisp_session::{InferenceSession, SessionError, Tuning};
use wisp_types::DeviceInfo;
use wisp_weights::Checkpoint;

#[cfg(not(target_arch = "wasm32"))]
use crate::worker;
use crate::{
    builder::{LoadProgress, ModelBuilder},
    error::Error,
    model::{Model, ModelInfo},
    notes,
};

/// The files of a model.
pub(crate) enum Files {
    /// Files for Wisp's own engine.
    Max(Box<ModelFiles>),
    /// Files for Hugging Face's candle.
    #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
    Candle(Box<CandleFiles>),
}

impl Files {
    /// Returns the files for Wisp's own engine, if they are for it.
    pub(crate) fn max_mut(&mut self) -> Option<&mut ModelFiles> {
        match self {
            Files::Max(files) => Some(files),
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            Files::Candle(_) => None,
        }
    }
}

/// A model whose files are open, but which is not loaded yet. It gives access to the contents of the
/// files and to the model's memory requirements, and it can be loaded.
#[must_use = "a model is loaded by `load`"]
pub struct OpenModel {
    pub(crate) builder: ModelBuilder,
    pub(crate) files: Files,
    text: TextProcessor,
    /// Tokens of the only prompt that the model is loaded for.
    pub(crate) prompt_tokens: Option<u64>,
    /// Lengths in tokens of the only texts that the model is loaded for.
    pub(crate) texts: Option<Vec<u64>>,
}

impl OpenModel {
    pub(crate) fn new(builder: ModelBuilder, files: Files) -> OpenModel {
        let text = match &files {
            Files::Max(files) => TextProcessor::of(files),
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            Files::Candle(files) => files.text(),
        };
        OpenModel {
            builder,
            files,
            text,
            prompt_tokens: None,
            texts: None,
        }
    }

    /// Returns the tokenizer, chat template and stop tokens.
    pub fn text(&self) -> &TextProcessor {
        &self.text
    }

    /// Returns the model's files; `None` if candle runs the model.
    pub fn files(&self) -> Option<&ModelFiles> {
        match &self.files {
            Files::Max(files) => Some(files),
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            Files::Candle(_) => None,
        }
    }

    /// Returns the tensors of the model's files, and where these are.
    pub fn checkpoint(&self) -> &Checkpoint {
        match &self.files {
            Files::Max(files) => &files.checkpoint,
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            Files::Candle(files) => &files.checkpoint,
        }
    }

    /// Sizes the model for one prompt of `prompt_tokens` tokens and at most `max_tokens` new ones,
    /// with memory for no more. Has no effect on a model that is compiled to a file or loaded from
    /// one, because that must fit any prompt.
    pub fn for_prompt(mut self, prompt_tokens: usize, max_tokens: Option<usize>) -> OpenModel {
        if self.is_compiled() {
            return self;
        }
        if let (Some(new), false) = (max_tokens, self.builder.length_is_set) {
            let needed = (prompt_tokens as u64).saturating_add(new as u64).max(1);
            let length = self.context_length().min(needed);
            self = self.with_context_length(length);
        }
        self.builder.config.max_cache_batch_size = 1;
        self.builder.config.enable_prefix_caching = false;
        if !self.builder.config.enable_echo {
            self.prompt_tokens = Some(prompt_tokens.max(1) as u64);
        }
        self
    }

    /// Sets another context length, chosen after reading the files. Has no effect on a model that is
    /// compiled to a file or loaded from one.
    pub fn with_context_length(mut self, tokens: u64) -> OpenModel {
        if !self.is_compiled() {
            self.builder = self.builder.context_length(tokens);
        }
        self
    }

    /// Sizes an encoder for texts of these lengths, with memory for no more.
    pub fn for_texts(mut self, lengths: impl IntoIterator<Item = usize>) -> OpenModel {
        self.texts = Some(lengths.into_iter().map(|len| len as u64).collect());
        self
    }

    /// Returns whether the model's programs are loaded from a file or saved to one; then their sizes
    /// must not depend on a prompt.
    fn is_compiled(&self) -> bool {
        #[cfg(not(target_arch = "wasm32"))]
        return self.builder.config.has_compiled_file();
        #[cfg(target_arch = "wasm32")]
        return false;
    }

    /// Returns the bytes of device memory that the model would take.
    ///
    /// # Errors
    ///
    /// If the files are inconsistent, or the device lacks a capability that the model needs.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn estimate(&self) -> Result<Footprint, Error> {
        pollster::block_on(self.estimate_async())
    }

    /// Like [`Self::estimate`], but does not block the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::estimate`].
    pub async fn estimate_async(&self) -> Result<Footprint, Error> {
        let Some(files) = self.files() else {
            return Ok(Footprint::default());
        };
        let device = self.open_device().await?;
        let target = &device.info().capabilities;
        let limits = self.limits_on(&device)?;
        Ok(match files.model_spec.spec.encoder {
            Some(_) => TextEncoder::estimate_memory(target, files, limits)?,
            None => DecoderModel::estimate_memory(target, files, limits)?,
        })
    }

    async fn open_device(&self) -> Result<Device, Error> {
        if let Some(device) = &self.builder.device {
            return Ok(device.clone());
        }
        self.builder
            .config
            .check_supported()
            .map_err(PipelineError::from)?;
        let device = self.builder.config.device().await;
        Ok(device.map_err(SessionError::Device)?)
    }

    /// Loads the model, blocking the thread.
    ///
    /// # Errors
    ///
    /// If the device does not exist or has too little memory, the files are inconsistent, an encoder is to
    /// have adapters, or loading was cancelled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load(self) -> Result<Model, Error> {
        pollster::block_on(self.load_here())
    }

    /// Like [`Self::load`], but does not block the task: native builds use a separate thread. If the future is dropped,
    /// it ends at the next piece of the weights.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub async fn load_async(self) -> Result<Model, Error> {
        #[cfg(not(target_arch = "wasm32"))]
        {
            let mut model = self;
            let load = |abandoned| {
                model.builder.abandoned = abandoned;
                model.load_here()
            };
            worker::run_on_thread(load).await
        }
        #[cfg(target_arch = "wasm32")]
        self.load_here().await
    }

    async fn load_here(self) -> Result<Model, Error> {
        let (session, loaded) = self.load_to_device().await?;
        Ok(match loaded {
            Loaded::Generator(generator) => {
                let info = self.info(&generator);
                Model::of_generator(info, session, *generator)?
            }
            Loaded::Encoder(encoder) => {
                let info = ModelInfo {
                    is_encoder: true,
                    embedding_width: Some(encoder.embedding_width()),
                    ..self.described(encoder.limits())
                };
                Model::of_encoder(info, session, self.text.clone(), *encoder)?
            }
        })
    }

    /// Like [`Self::load_generator`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load_generator`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_generator_blocking(&self) -> Result<(InferenceSession, TextGenerator), Error> {
        pollster::block_on(self.load_generator())
    }

    /// Loads the generator itself, which the caller then runs step by step, and its device's session.
    /// Use it for measurements and custom loops.
    ///
    /// # Errors
    ///
    /// As [`Self::load`], and if the model is an encoder.
    pub async fn load_generator(&self) -> Result<(InferenceSession, TextGenerator), Error> {
        match self.load_to_device().await? {
            (session, Loaded::Generator(generator)) => Ok((session, *generator)),
            (_, Loaded::Encoder(_)) => {
                let model = self.text.name().into();
                Err(Error::NotAGenerator { model })
            }
        }
    }

    async fn load_to_device(&self) -> Result<(InferenceSession, Loaded), Error> {
        let loaded = match &self.files {
            Files::Max(files) => self.load_files(files).await,
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            Files::Candle(files) => self.load_candle(files).await,
        };
        match self.builder.is_cancelled() {
            true => Err(Error::Cancelled),
            false => loaded,
        }
    }

    async fn load_files(&self, files: &ModelFiles) -> Result<(InferenceSession, Loaded), Error> {
        self.check_adapters(files)?;
        let device = self.open_device().await?;
        let limits = self.limits_on(&device)?;
        let session = self.session(device, files, &limits)?;
        let builder = self.builder.clone();
        let report = move |done, total| {
            builder.report(LoadProgress::Weights { done, total });
            match builder.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let loaded = match files.model_spec.spec.encoder {
            Some(_) => {
                let encoder = TextEncoder::load(&session, files, limits, Some(&report)).await?;
                self.note(notes::precision_of_model(&session, encoder.model()));
                self.note(notes::layer_embeddings(&limits, encoder.limits()));
                Loaded::Encoder(Box::new(encoder))
            }
            None => {
                let generator = TextGenerator::load(&session, files, limits, Some(&report)).await?;
                #[cfg(not(target_arch = "wasm32"))]
                let generator = self.with_adapters(generator)?;
                let decoder = generator.decoder().map(DecoderModel::decoder);
                self.note(decoder.and_then(|model| notes::precision_of_model(&session, model)));
                self.note(notes::layer_embeddings(&limits, generator.limits()));
                Loaded::Generator(Box::new(generator))
            }
        };
        self.save(&session, files, &limits)?;
        Ok((session, loaded))
    }

    /// Creates a session on a device with the caches and compiled programs of the settings.
    fn session(
        &self,
        device: Device,
        files: &ModelFiles,
        limits: &ModelLimits,
    ) -> Result<InferenceSession, Error> {
        let tuning = self.tuning(device.info())?;
        let session = InferenceSession::new(device).with_tuning(tuning);
        session.set_precision(self.builder.config.precision);
        self.note(notes::precision_of_device(
            self.builder.config.precision,
            &session,
        ));
        #[cfg(not(target_arch = "wasm32"))]
        let session = match &self.builder.compile_cache {
            Some(cache) => session.with_cache(cache.clone()),
            None => session,
        };
        #[cfg(not(target_arch = "wasm32"))]
        let session = self.builder.config.session(session, files, limits)?;
        #[cfg(target_arch = "wasm32")]
        let _ = (files, limits);
        Ok(session)
    }

    /// Reports a note, if there is one.
    fn note(&self, note: Option<LoadProgress>) {
        if let Some(note) = note {
            self.builder.report(note);
        }
    }

    /// Returns the kernels to prefer on a device.
    fn tuning(&self, device: &DeviceInfo) -> Result<Tuning, Error> {
        if let Some(tuning) = &self.builder.tuning {
            return Ok(tuning.clone().followed_by(Tuning::of_adapter(device)));
        }
        #[cfg(not(target_arch = "wasm32"))]
        {
            let (config, cache) = (&self.builder.config, self.builder.compile_cache.as_ref());
            Ok(config.tuning_for(device, cache)?)
        }
        #[cfg(target_arch = "wasm32")]
        Ok(Tuning::of_adapter(device))
    }

    /// Saves the compiled programs if the settings ask for it.
    fn save(
        &self,
        session: &InferenceSession,
        files: &ModelFiles,
        limits: &ModelLimits,
    ) -> Result<(), Error> {
        #[cfg(not(target_arch = "wasm32"))]
        self.builder.config.save_compiled(session, files, limits)?;
        #[cfg(target_arch = "wasm32")]
        let _ = (session, files, limits);
        Ok(())
    }

    /// Refuses adapters of an encoder, before its weights are read.
    fn check_adapters(&self, files: &ModelFiles) -> Result<(), Error> {
        let is_encoder = files.model_spec.spec.encoder.is_some();
        match self.builder.config.adapters().next() {
            Some((adapter, _)) if is_encoder => Err(Error::AdapterOfEncoder {
                model: self.text.name().into(),
                adapter: adapter.into(),
            }),
            _ => Ok(()),
        }
    }

    /// Loads the adapters that the settings list.
    #[cfg(not(target_arch = "wasm32"))]
    fn with_adapters(&self, mut generator: TextGenerator) -> Result<TextGenerator, Error> {
        for (name, path) in self.builder.config.adapters() {
            let files = wisp_pipelines::AdapterFiles::open(&PathBuf::from(path));
            let loaded = files.and_then(|files| generator.load_adapter(name, &files));
            loaded.map_err(|source| PipelineError::Adapter {
                name: name.into(),
                source: Box::new(source),
            })?;
        }
        Ok(generator)
    }

    /// Returns facts about a loaded generator.
    fn info(&self, generator: &TextGenerator) -> ModelInfo {
        let info = ModelInfo {
            vocab_size: generator.model().vocab_size(),
            ..self.described(generator.limits())
        };
        #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
        if let Some(model) = (generator.model() as &dyn std::any::Any).downcast_ref::<CandleModel>()
        {
            let architecture = model.architecture().name.to_string();
            return ModelInfo {
                architecture,
                ..info
            };
        }
        info
    }

    /// Returns facts from the files about a model that is loaded with these limits.
    fn described(&self, limits: &ModelLimits) -> ModelInfo {
        let (architecture, vocab_size) = match &self.files {
            Files::Max(files) => (
                files.model_spec.architecture.name().to_string(),
                files.model_spec.spec.vocab_size,
            ),
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            Files::Candle(_) => ("candle".into(), 0),
        };
        ModelInfo {
            name: self.text.name().into(),
            architecture,
            is_encoder: false,
            embedding_width: None,
            has_chat_template: self.text.has_chat_template(),
            vocab_size,
            context_length: limits.max_length,
            weight_bytes: self.checkpoint().byte_len(),
        }
    }

    /// Loads the model through candle, on the CPU.
    #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
    async fn load_candle(&self, files: &CandleFiles) -> Result<(InferenceSession, Loaded), Error> {
        let model = CandleModel::load(files, self.chosen_length())?;
        let device = Device::host(self.builder.config.threads).map_err(SessionError::Device)?;
        let session = InferenceSession::new(device);
        let generator = TextGenerator::new(&session, model, self.text.clone()).await?;
        Ok((session, Loaded::Generator(Box::new(generator))))
    }
}

/// A model on its device that no worker runs yet.
enum Loaded {
    Generator(Box<TextGenerator>),
    Encoder(Box<TextEncoder>),
}
