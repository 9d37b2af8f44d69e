//! The settings that a model is loaded with.

use std::sync::Arc;
#[cfg(not(target_arch = "wasm32"))]
use std::{ops::ControlFlow, path::PathBuf};

use wisp_compiler::Footprint;
use wisp_device::{Device, FeatureLevel};
use wisp_pipelines::{
    CacheStrategy, CheckpointModel, DecoderModel, KvCacheFormat, ModelFiles, ModelLimits,
    PipelineConfig, PipelineError, SupportedEncoding, TextEncoder, TextGenerator, TextProcessor,
};
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
use wisp_pipelines::{
    PipelineEngine,
    candle::{CandleFiles, CandleModel},
};
use wisp_session::{InferenceSession, SessionError};

use crate::{Canceller, Error, Model, model::ModelInfo};

/// The longest context that a model is loaded with unless a longer one is asked for, in tokens.
pub const DEFAULT_CONTEXT_LENGTH: u64 = 4096;

/// Requests that run at the same time by default.
const DEFAULT_PARALLEL: u64 = 4;

/// Positions in a page of the KV cache.
const PAGE_SIZE: u32 = 32;

/// By default the KV cache holds one whole context, and this many tokens of each further request.
const FURTHER_TOKENS: u64 = 512;

/// Texts that an encoder takes at the same time.
const ENCODER_TEXTS: u64 = 32;

/// Tokens that an encoder takes at the same time, if the model's longest text is not longer.
const ENCODER_TOKENS: u64 = 4096;

/// How numbers are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precision {
    /// Activations stay in f32: the same tokens on every device.
    #[default]
    Exact,
}

/// How far loading is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadProgress {
    /// A file is being downloaded.
    Download {
        /// Its path in the repository.
        file: String,
        /// Bytes that are here.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// Weights are brought to the device.
    Weights {
        /// Bytes that are there.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
}

/// What hears of progress.
type OnProgress = Arc<dyn Fn(LoadProgress) + Send + Sync>;

/// The settings that a model is loaded with: [`Model::builder`]. Everything has a default.
#[derive(Clone)]
#[must_use = "a model is loaded by `load`"]
pub struct ModelBuilder {
    config: PipelineConfig,
    /// A context length was asked for.
    length_is_set: bool,
    device: Option<Device>,
    memory_limit: Option<u64>,
    cache_tokens: Option<u64>,
    #[cfg(not(target_arch = "wasm32"))]
    compile_cache: Option<wisp_files::DiskCache>,
    progress: Option<OnProgress>,
    canceller: Canceller,
}

impl ModelBuilder {
    /// Settings for a model of this name; see [`Model::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn new(name: impl Into<String>) -> ModelBuilder {
        let mut builder = ModelBuilder::default();
        builder.config.huggingface_repo_id = Some(name.into());
        builder
    }

    /// Settings from a configuration, which is followed in every field.
    pub fn from_config(config: PipelineConfig) -> ModelBuilder {
        ModelBuilder {
            config,
            length_is_set: true,
            device: None,
            memory_limit: None,
            cache_tokens: None,
            #[cfg(not(target_arch = "wasm32"))]
            compile_cache: None,
            progress: None,
            canceller: Canceller::new(),
        }
    }

    /// The device, by its name: `auto` (the default: a real GPU if there is one, else the host CPU),
    /// `host`, `vulkan`, `metal`, `dx12` or `gl`, with `:INDEX` one of several.
    ///
    /// # Errors
    ///
    /// If it is no such name. Whether there is such a device is known when the model is loaded.
    pub fn device(mut self, name: &str) -> Result<ModelBuilder, Error> {
        let spec = name.parse().map_err(SessionError::Device)?;
        self.config.device_specs = vec![spec];
        Ok(self)
    }

    /// A device that is open already: several models can share one.
    pub fn opened_device(mut self, device: Device) -> ModelBuilder {
        self.device = Some(device);
        self
    }

    /// How much of the device's features to use.
    pub fn feature_level(mut self, level: FeatureLevel) -> ModelBuilder {
        self.config.profile = level;
        self
    }

    /// How numbers are computed.
    pub fn precision(self, precision: Precision) -> ModelBuilder {
        match precision {
            Precision::Exact => self,
        }
    }

    /// The encoding of the weights: chooses among the files of a repository, and refuses others.
    pub fn encoding(mut self, encoding: SupportedEncoding) -> ModelBuilder {
        self.config.quantization_encoding = Some(encoding);
        self
    }

    /// Tokens that the model can see at once, prompt and answer together. By default as many as it was
    /// trained for, up to [`DEFAULT_CONTEXT_LENGTH`].
    pub fn context_length(mut self, tokens: u64) -> ModelBuilder {
        self.config.max_length = tokens;
        self.length_is_set = true;
        self
    }

    /// Requests that run at the same time, 4 by default; others wait.
    pub fn parallel_sequences(mut self, sequences: u64) -> ModelBuilder {
        self.config.max_cache_batch_size = sequences.max(1);
        self
    }

    /// Tokens that the KV cache has room for, of all requests together. By default one whole context and
    /// 512 tokens of each further request; where it is full, younger requests wait.
    pub fn cache_tokens(mut self, tokens: u64) -> ModelBuilder {
        self.cache_tokens = Some(tokens);
        self
    }

    /// How the KV cache stores keys and values.
    pub fn cache_format(mut self, format: KvCacheFormat) -> ModelBuilder {
        self.config.kv_cache_format = format;
        self
    }

    /// Bytes of device memory that the model may take. By default 90 % of what is free.
    pub fn memory_limit(mut self, bytes: u64) -> ModelBuilder {
        self.memory_limit = Some(bytes);
        self
    }

    /// Requests whose tokens begin alike share what was computed for them.
    pub fn prefix_caching(mut self, enable: bool) -> ModelBuilder {
        self.config.enable_prefix_caching = enable;
        self
    }

    /// Room for this many low-rank adapters of up to this rank.
    pub fn adapters(mut self, count: u64, max_rank: u64) -> ModelBuilder {
        self.config.enable_lora = count > 0;
        self.config.max_num_loras = count.max(1);
        self.config.max_lora_rank = max_rank;
        self
    }

    /// Room for the logits of whole chunks of prompts, so that their log-probabilities are computed fast.
    pub fn prompt_log_probabilities(mut self) -> ModelBuilder {
        self.config.enable_echo = true;
        self
    }

    /// Keeps compiled programs in a folder, so that the next load compiles nothing.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn compile_cache(mut self, cache: wisp_files::DiskCache) -> ModelBuilder {
        self.compile_cache = Some(cache);
        self
    }

    /// Calls a function as downloads and loading go on, from the thread that loads.
    pub fn on_progress(mut self, progress: impl Fn(LoadProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Cancels the loading from elsewhere. What was downloaded is kept and continued next time.
    pub fn canceller(mut self, canceller: &Canceller) -> ModelBuilder {
        self.canceller = canceller.clone();
        self
    }

    /// Opens the model's files, after downloading what is missing, without loading the model.
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
            match self.canceller.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let opened = self.open_files(&on_transfer);
        let files = opened.map_err(|error| match self.canceller.is_cancelled() {
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

    /// Takes files that are open already: a model in memory, or one that a browser streams.
    ///
    /// # Errors
    ///
    /// If they are not what the settings ask for.
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

    /// [`Self::load`] without blocking the task: a thread of its own does the work.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub async fn load_async(self) -> Result<Model, Error> {
        let (sender, receiver) = futures_channel::oneshot::channel();
        crate::worker::spawn(async move {
            let _ = sender.send(self.load());
        });
        crate::embed::reply(receiver).await
    }

    /// Bytes of device memory that the model would take, without loading it (but downloading it, if need
    /// be).
    ///
    /// # Errors
    ///
    /// As [`Self::load`], as far as that does not depend on the device's memory.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn estimate(self) -> Result<Footprint, Error> {
        self.open()?.estimate()
    }

    fn report(&self, progress: LoadProgress) {
        if let Some(on_progress) = &self.progress {
            on_progress(progress);
        }
    }
}

/// The settings of a model that serves an application: a paged cache, a few requests at once.
impl Default for ModelBuilder {
    fn default() -> ModelBuilder {
        let config = PipelineConfig {
            max_cache_batch_size: DEFAULT_PARALLEL,
            max_num_steps: 4,
            cache_strategy: CacheStrategy::Paged,
            kv_cache_page_size: PAGE_SIZE,
            ..PipelineConfig::default()
        };
        ModelBuilder {
            length_is_set: false,
            ..ModelBuilder::from_config(config)
        }
    }
}

/// The files of a model.
enum Files {
    /// For Wisp's own engine.
    Max(Box<ModelFiles>),
    /// For Hugging Face's candle.
    #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
    Candle(Box<CandleFiles>),
}

/// A model whose files are open, but which is not loaded: what its files say, what it would take, and
/// the way to load it.
#[must_use = "a model is loaded by `load`"]
pub struct OpenModel {
    builder: ModelBuilder,
    files: Files,
    text: TextProcessor,
    /// Tokens of the only prompt that it is loaded for.
    prompt_tokens: Option<u64>,
    /// Lengths of the only texts that it is loaded for.
    texts: Option<Vec<u64>>,
}

impl OpenModel {
    fn new(builder: ModelBuilder, files: Files) -> OpenModel {
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

    /// The tokenizer, chat template and stop tokens.
    pub fn text(&self) -> &TextProcessor {
        &self.text
    }

    /// The model's files; `None` if candle runs it.
    pub fn files(&self) -> Option<&ModelFiles> {
        match &self.files {
            Files::Max(files) => Some(files),
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            Files::Candle(_) => None,
        }
    }

    /// Loads the model for one prompt of so many tokens and at most so many new ones, with memory for no
    /// more than that.
    pub fn for_prompt(mut self, prompt_tokens: usize, max_tokens: Option<usize>) -> OpenModel {
        let fixed = self.builder.length_is_set || self.is_compiled();
        if let (Some(new), false) = (max_tokens, fixed) {
            let needed = (prompt_tokens as u64).saturating_add(new as u64).max(1);
            self.builder.config.max_length = self.context_length().min(needed);
            self.builder.length_is_set = true;
        }
        self.builder.config.max_cache_batch_size = 1;
        if !self.builder.config.enable_echo && !self.is_compiled() {
            self.prompt_tokens = Some(prompt_tokens.max(1) as u64);
        }
        self
    }

    /// Loads an encoder for texts of these lengths, with memory for no more than that.
    pub fn for_texts(mut self, lengths: impl IntoIterator<Item = usize>) -> OpenModel {
        self.texts = Some(lengths.into_iter().map(|len| len as u64).collect());
        self
    }

    /// True if the model's programs come from a file or go to one: what they are made for must not
    /// depend on a prompt then.
    fn is_compiled(&self) -> bool {
        #[cfg(not(target_arch = "wasm32"))]
        return self.builder.config.has_compiled_file();
        #[cfg(target_arch = "wasm32")]
        return false;
    }

    /// Tokens that the loaded model will see at once.
    fn context_length(&self) -> u64 {
        let most = self
            .files()
            .map_or(u64::MAX, |files| files.model_spec.spec.max_positions);
        match self.builder.length_is_set {
            true => self.builder.config.max_length,
            false => most.clamp(1, DEFAULT_CONTEXT_LENGTH),
        }
    }

    /// The sizes that the model will be made for, before the device's own limits.
    ///
    /// # Errors
    ///
    /// If the context is longer than the model was trained for.
    pub fn limits(&self) -> Result<ModelLimits, Error> {
        let Some(files) = self.files() else {
            return Ok(ModelLimits::default());
        };
        if files.model_spec.spec.encoder.is_some() {
            return Ok(self.encoder_limits(files));
        }
        let config = PipelineConfig {
            max_length: self.context_length(),
            ..self.builder.config.clone()
        };
        let mut limits = config
            .limits(&files.model_spec.spec)
            .map_err(PipelineError::from)?;
        if let Some(tokens) = self.prompt_tokens {
            limits.max_step_tokens = limits.max_step_tokens.min(tokens);
        }
        if limits.is_paged() {
            let page = u64::from(limits.page_size);
            let further = (limits.max_batch - 1) * FURTHER_TOKENS.div_ceil(page);
            let tokens = self
                .builder
                .cache_tokens
                .map(|tokens| tokens.div_ceil(page));
            let whole = limits.pages_per_sequence();
            let pages = tokens.unwrap_or(whole.saturating_add(further)).max(whole);
            limits.pages = pages.min(limits.total_pages());
        }
        Ok(limits)
    }

    fn encoder_limits(&self, files: &ModelFiles) -> ModelLimits {
        let limits = match &self.texts {
            Some(lengths) => ModelLimits {
                max_length: lengths.iter().copied().max().unwrap_or(1),
                max_batch: (lengths.len() as u64).min(256),
                max_step_tokens: lengths.iter().sum::<u64>().min(ENCODER_TOKENS),
                ..ModelLimits::default()
            },
            None => ModelLimits {
                max_length: match self.builder.length_is_set {
                    true => self.builder.config.max_length,
                    false => files.model_spec.spec.max_positions.min(ENCODER_TOKENS),
                },
                max_batch: ENCODER_TEXTS,
                max_step_tokens: ENCODER_TOKENS,
                ..ModelLimits::default()
            },
        };
        ModelLimits {
            max_length: limits.max_length.max(1),
            ..limits
        }
    }

    /// Bytes of device memory that the model would take.
    ///
    /// # Errors
    ///
    /// If the files do not fit together, or the device lacks what they need.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn estimate(&self) -> Result<Footprint, Error> {
        let Some(files) = self.files() else {
            return Ok(Footprint::default());
        };
        let device = pollster::block_on(self.open_device())?;
        let (target, limits) = (&device.info().capabilities, self.limits()?);
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
            .require_built()
            .map_err(PipelineError::from)?;
        let device = self.builder.config.device().await;
        Ok(device.map_err(SessionError::Device)?)
    }

    /// Loads the model, blocking the thread.
    ///
    /// # Errors
    ///
    /// If there is no such device or it has not enough memory, the files do not fit together, or loading
    /// was cancelled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load(self) -> Result<Model, Error> {
        pollster::block_on(self.load_here())
    }

    /// [`Self::load`] without blocking the task: natively a thread of its own does the work.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub async fn load_async(self) -> Result<Model, Error> {
        #[cfg(not(target_arch = "wasm32"))]
        {
            let (sender, receiver) = futures_channel::oneshot::channel();
            crate::worker::spawn(async move {
                let _ = sender.send(self.load_here().await);
            });
            crate::embed::reply(receiver).await
        }
        #[cfg(target_arch = "wasm32")]
        self.load_here().await
    }

    async fn load_here(self) -> Result<Model, Error> {
        #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
        if let Files::Candle(files) = &self.files {
            return self.load_candle(files).await;
        }
        let Some(files) = self.files() else {
            return Err(Error::WorkerEnded);
        };
        let device = self.open_device().await?;
        let mut limits = self.limits()?;
        let memory = self
            .builder
            .memory_limit
            .or(self.builder.config.memory(&device));
        // None left is not the 0 that stands for no limit.
        limits.memory = memory.map_or(0, |bytes| bytes.max(1));
        let session = self.session(device, files, &limits)?;
        let builder = self.builder.clone();
        let report = move |done, total| builder.report(LoadProgress::Weights { done, total });
        let loaded = self.load_files(&session, files, limits, &report).await;
        match self.builder.canceller.is_cancelled() {
            true => Err(Error::Cancelled),
            false => loaded,
        }
    }

    async fn load_files(
        &self,
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        report: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Model, Error> {
        if files.model_spec.spec.encoder.is_some() {
            let encoder = TextEncoder::load(session, files, limits, Some(report)).await?;
            self.save(session, files, &limits)?;
            let info = self.info(files, encoder.limits(), true);
            let text = self.text.clone();
            return Ok(Model::of_encoder(info, session.clone(), text, encoder));
        }
        let generator = TextGenerator::load(session, files, limits, Some(report)).await?;
        self.save(session, files, &limits)?;
        #[cfg(not(target_arch = "wasm32"))]
        let generator = self.with_adapters(generator)?;
        let info = self.info(files, generator.limits(), false);
        Ok(Model::of_generator(info, session.clone(), generator))
    }

    /// A session on a device, with the caches and compiled programs of the settings.
    fn session(
        &self,
        device: Device,
        files: &ModelFiles,
        limits: &ModelLimits,
    ) -> Result<InferenceSession, Error> {
        let session = InferenceSession::new(device);
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

    /// Saves the compiled programs where the settings ask for it.
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

    /// Loads the adapters of the settings.
    #[cfg(not(target_arch = "wasm32"))]
    fn with_adapters(&self, mut generator: TextGenerator) -> Result<TextGenerator, Error> {
        for (name, path) in self.builder.config.adapters() {
            let files = wisp_pipelines::AdapterFiles::open(&PathBuf::from(path));
            let loaded = files.and_then(|files| generator.load_adapter(name, &files));
            loaded.map_err(|source| PipelineError::Adapter {
                name: name.into(),
                source,
            })?;
        }
        Ok(generator)
    }

    /// What is known of the model, loaded with these limits.
    fn info(&self, files: &ModelFiles, limits: &ModelLimits, is_encoder: bool) -> ModelInfo {
        ModelInfo {
            name: self.text.name().into(),
            architecture: files.model_spec.architecture.to_string(),
            is_encoder,
            has_chat_template: self.text.has_chat_template(),
            vocab_size: files.model_spec.spec.vocab_size,
            context_length: limits.max_length,
            weight_bytes: files.checkpoint.byte_len(),
        }
    }

    /// Loads the model through candle, on the CPU.
    #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
    async fn load_candle(&self, files: &CandleFiles) -> Result<Model, Error> {
        let config = &self.builder.config;
        let length = self.builder.length_is_set.then_some(config.max_length);
        let model = CandleModel::load(files, length)?;
        let architecture = model.architecture().name.to_string();
        let device = Device::host(config.threads).map_err(SessionError::Device)?;
        let session = InferenceSession::new(device);
        let generator = TextGenerator::new(&session, model, self.text.clone()).await?;
        let info = ModelInfo {
            name: self.text.name().into(),
            architecture,
            is_encoder: false,
            has_chat_template: self.text.has_chat_template(),
            vocab_size: generator.model().vocab_size(),
            context_length: generator.limits().max_length,
            weight_bytes: files.checkpoint.byte_len(),
        };
        Ok(Model::of_generator(info, session, generator))
    }
}
