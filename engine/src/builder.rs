//! The settings that a model is loaded with.

use std::sync::Arc;

use wisp_device::{Device, FeatureLevel};
use wisp_pipelines::{CacheStrategy, KvCacheFormat, PipelineConfig, SupportedEncoding};
use wisp_session::SessionError;

use crate::{error::Error, events::Canceller};

/// The longest context that a model is loaded with unless a longer one is asked for, in tokens.
pub const DEFAULT_CONTEXT_LENGTH: u64 = 4096;

/// Requests that run at the same time by default.
const DEFAULT_PARALLEL: u64 = 4;

/// Positions in a page of the KV cache.
const PAGE_SIZE: u32 = 32;

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

/// The settings that a model is loaded with: [`Model::builder`](crate::Model::builder). Everything has a default.
#[derive(Clone)]
#[must_use = "a model is loaded by `load`"]
pub struct ModelBuilder {
    pub(crate) config: PipelineConfig,
    /// A context length was asked for.
    pub(crate) length_is_set: bool,
    pub(crate) device: Option<Device>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) cache_tokens: Option<u64>,
    pub(crate) logit_rows: u64,
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) compile_cache: Option<wisp_files::DiskCache>,
    progress: Option<OnProgress>,
    pub(crate) canceller: Canceller,
}

impl ModelBuilder {
    /// Settings for a model of this name; see [`Model::load`](crate::Model::load).
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
            logit_rows: 0,
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

    /// The default context length, also where a configuration has one.
    pub fn default_context_length(mut self) -> ModelBuilder {
        self.length_is_set = false;
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

    /// Positions of a prompt whose logits are computed at the same time, 1 by default. More make
    /// [`Model::logits`](crate::Model::logits) and the log-probabilities of prompts faster, and take memory: each has as many
    /// logits as the vocabulary has tokens.
    pub fn logit_rows(mut self, rows: u64) -> ModelBuilder {
        self.logit_rows = rows;
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

    pub(crate) fn report(&self, progress: LoadProgress) {
        if let Some(on_progress) = &self.progress {
            on_progress(progress);
        }
    }
}

/// The settings of a model that serves an application: a paged cache, a few requests at once.
impl Default for ModelBuilder {
    fn default() -> ModelBuilder {
        let mut config = PipelineConfig::default();
        config.max_cache_batch_size = DEFAULT_PARALLEL;
        config.max_num_steps = 4;
        config.cache_strategy = CacheStrategy::Paged;
        config.kv_cache_page_size = PAGE_SIZE;
        ModelBuilder {
            length_is_set: false,
            ..ModelBuilder::from_config(config)
        }
    }
}
