//! Settings for loading a model.

use std::sync::Arc;

use wisp_device::{Device, DeviceClassChoice, FeatureLevel};
use wisp_pipelines::{
    CacheStrategy, KvCacheFormat, LayerEmbeddingsPlacement, PipelineConfig, SupportedEncoding,
};
use wisp_session::{Precision, SessionError, Tuning};

use crate::{error::Error, events::Canceller};

/// The largest default context length in tokens. [`ModelBuilder::context_length`] can ask for a longer
/// one.
pub const DEFAULT_CONTEXT_LENGTH: u64 = 4096;

/// The default number of requests that run at the same time.
const DEFAULT_PARALLEL: u64 = 4;

/// Positions per page of the KV cache.
const PAGE_SIZE: u32 = 32;

/// Progress of loading a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadProgress {
    /// A file is being downloaded.
    Download {
        /// The file's path in the repository.
        file: String,
        /// Bytes downloaded so far.
        done: u64,
        /// Total bytes.
        total: u64,
    },
    /// Weights are being uploaded to the device.
    Weights {
        /// Bytes uploaded so far.
        done: u64,
        /// Total bytes.
        total: u64,
    },
    /// A setting has no effect, or another one than asked for. Reported at most once for each setting.
    Note {
        /// What the note is about.
        kind: NoteKind,
        /// What the user may want to know, as a sentence without a full stop.
        text: String,
    },
}

/// What a [`LoadProgress::Note`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteKind {
    /// The device has no kernels of the wanted precision, and computes exactly.
    PrecisionUnavailable,
    /// No product of the model is computed in the wanted precision.
    PrecisionUnused,
    /// The embeddings by layer are on the host, so every decode step is submitted alone.
    LayerEmbeddings,
}

/// A callback for progress.
type OnProgress = Arc<dyn Fn(LoadProgress) + Send + Sync>;

/// The settings for loading a model, from [`Model::builder`](crate::Model::builder). All have
/// defaults.
#[derive(Clone)]
#[must_use = "a model is loaded by `load`"]
pub struct ModelBuilder {
    pub(crate) config: PipelineConfig,
    /// Whether the context length was set explicitly.
    pub(crate) length_is_set: bool,
    pub(crate) device: Option<Device>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) fills_memory: bool,
    pub(crate) logit_rows: u64,
    pub(crate) tuning: Option<Tuning>,
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) compile_cache: Option<wisp_files::DiskCache>,
    progress: Option<OnProgress>,
    pub(crate) canceller: Canceller,
    /// Cancelled when nobody waits for the model any more.
    pub(crate) abandoned: Canceller,
}

impl ModelBuilder {
    /// Creates the default settings for a model of this name; see [`Model::load`](crate::Model::load).
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn new(name: impl Into<String>) -> ModelBuilder {
        let mut builder = ModelBuilder::default();
        builder.config.huggingface_repo_id = Some(name.into());
        builder
    }

    /// Creates settings from a configuration, all fields of which apply.
    pub fn from_config(config: PipelineConfig) -> ModelBuilder {
        ModelBuilder {
            config,
            length_is_set: true,
            device: None,
            memory_limit: None,
            fills_memory: false,
            logit_rows: 0,
            tuning: None,
            #[cfg(not(target_arch = "wasm32"))]
            compile_cache: None,
            progress: None,
            canceller: Canceller::new(),
            abandoned: Canceller::new(),
        }
    }

    /// Changes fields of the configuration that have no method here. (The context length is set by
    /// [`Self::context_length`].)
    ///
    /// ```no_run
    /// # use wisp_engine::Model;
    /// # fn main() -> Result<(), wisp_engine::Error> {
    /// let builder = Model::builder("HuggingFaceTB/SmolLM2-135M-Instruct");
    /// let model = builder.configure(|config| config.threads = 2).load()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut PipelineConfig)) -> ModelBuilder {
        change(&mut self.config);
        self
    }

    /// Selects the device by name: `auto` (the default: a real GPU if there is one, else the host
    /// CPU), `host`, `vulkan`, `metal`, `dx12`, `gl` or `cuda` (with that feature), with `:INDEX` to select one of several.
    ///
    /// # Errors
    ///
    /// If the name is not one of these. Whether such a device exists is checked when the model is
    /// loaded.
    pub fn device(mut self, name: &str) -> Result<ModelBuilder, Error> {
        let spec = name.parse().map_err(SessionError::Device)?;
        self.config.device_specs = vec![spec];
        Ok(self)
    }

    /// Uses a device that is already open; several models can share one.
    pub fn opened_device(mut self, device: Device) -> ModelBuilder {
        self.device = Some(device);
        self
    }

    /// Sets which of the device's features may be used.
    pub fn feature_level(mut self, level: FeatureLevel) -> ModelBuilder {
        self.config.profile = level;
        self
    }

    /// Sets the class of kernels that the model runs: by default, that of the adapter. The host device
    /// ignores it.
    pub fn device_class(mut self, class: DeviceClassChoice) -> ModelBuilder {
        self.config.device_class = class;
        self
    }

    /// Sets the precision of products: exact by default. A device without kernels of this precision computes
    /// exactly, which [`LoadProgress::Note`] says.
    pub fn precision(mut self, precision: Precision) -> ModelBuilder {
        self.config.precision = precision;
        self
    }

    /// Sets the encoding of the weights: selects among the files of a repository and rejects files in
    /// other encodings.
    pub fn encoding(mut self, encoding: SupportedEncoding) -> ModelBuilder {
        self.config.quantization_encoding = Some(encoding);
        self
    }

    /// Sets the context length: the number of tokens of prompt and answer together. The default is the
    /// length the model was trained for, up to [`DEFAULT_CONTEXT_LENGTH`].
    pub fn context_length(mut self, tokens: u64) -> ModelBuilder {
        self.config.max_length = tokens;
        self.length_is_set = true;
        self
    }

    /// Resets the context length to its default, even if a configuration sets one.
    pub fn default_context_length(mut self) -> ModelBuilder {
        self.length_is_set = false;
        self
    }

    /// Sets the number of requests that run at the same time, 4 by default; further requests wait.
    pub fn parallel_sequences(mut self, sequences: u64) -> ModelBuilder {
        self.config.max_cache_batch_size = sequences.max(1);
        self
    }

    /// Sets the capacity of the KV cache in tokens, for all requests together. The default is one
    /// whole context plus 512 tokens for each further request. When the cache is full, younger
    /// requests wait.
    pub fn cache_tokens(mut self, tokens: u64) -> ModelBuilder {
        self.config.cache_tokens = Some(tokens);
        self
    }

    /// Sets whether the KV cache takes what the model leaves of its device memory, until it holds a whole context for each
    /// request. The default is no. It has an effect only on devices with memory of their own that tell how much of it is
    /// free, and unless [`Self::cache_tokens`] is set: on other devices, other programs need the memory too.
    pub fn fill_memory(mut self, fill: bool) -> ModelBuilder {
        self.fills_memory = fill;
        self
    }

    /// Sets the element format of the KV cache. The default is single precision on the host and half precision on other
    /// devices; with [`KvCacheFormat::Float32`] every device gives the same tokens.
    pub fn cache_format(mut self, format: KvCacheFormat) -> ModelBuilder {
        self.config.kv_cache_format = Some(format);
        self
    }

    /// Sets where a model keeps its embeddings by layer, if it has any. The default is the device if the model fits its
    /// memory then, else the host.
    pub fn layer_embeddings(mut self, placement: LayerEmbeddingsPlacement) -> ModelBuilder {
        self.config.layer_embeddings = placement;
        self
    }

    /// Limits the device memory of the model, in bytes. The default is 90 % of the free memory.
    pub fn memory_limit(mut self, bytes: u64) -> ModelBuilder {
        self.memory_limit = Some(bytes);
        self
    }

    /// Sets whether requests with a common prefix share its keys and values, as those of a chat do. The default is yes.
    /// Without it, layers with a sliding window need memory for the window only.
    pub fn prefix_caching(mut self, enable: bool) -> ModelBuilder {
        self.config.enable_prefix_caching = enable;
        self
    }

    /// Reserves memory for `count` low-rank adapters of rank up to `max_rank`.
    pub fn adapters(mut self, count: u64, max_rank: u64) -> ModelBuilder {
        self.config.enable_lora = count > 0;
        self.config.max_num_loras = count.max(1);
        self.config.max_lora_rank = max_rank;
        self
    }

    /// Sets the number of prompt positions whose logits are computed at the same time, 1 by default. A
    /// larger number makes [`Model::logits`](crate::Model::logits) and prompt log-probabilities
    /// faster, and takes memory for one row of vocabulary-size logits per position: fewer positions if
    /// that would be more than 1/64 of the memory, as far as it is known.
    pub fn logit_rows(mut self, rows: u64) -> ModelBuilder {
        self.logit_rows = rows;
        self
    }

    /// Prefers the kernels of a tuning, as [`TextGenerator::tune`](wisp_pipelines::TextGenerator::tune) found
    /// them to be the fastest on the device, to those of the cache.
    pub fn tuning(mut self, tuning: Tuning) -> ModelBuilder {
        self.tuning = Some(tuning);
        self
    }

    /// Keeps compiled programs in a folder, so that later loads skip compilation. The kernels that `wisp tune`
    /// found to be the fastest on the device are there too.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn compile_cache(mut self, cache: wisp_files::DiskCache) -> ModelBuilder {
        self.compile_cache = Some(cache);
        self
    }

    /// Calls a function with the progress of downloads and of loading, on the loading thread.
    pub fn on_progress(mut self, progress: impl Fn(LoadProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Lets a canceller stop the loading from any thread. Downloaded bytes are kept, and the next
    /// attempt continues from there.
    pub fn canceller(mut self, canceller: &Canceller) -> ModelBuilder {
        self.canceller = canceller.clone();
        self
    }

    /// Returns whether loading is to end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.canceller.is_cancelled() || self.abandoned.is_cancelled()
    }

    pub(crate) fn report(&self, progress: LoadProgress) {
        if let Some(on_progress) = &self.progress {
            on_progress(progress);
        }
    }
}

/// Settings for an application's model: a paged cache whose prefixes are shared, and a few requests at the same time.
impl Default for ModelBuilder {
    fn default() -> ModelBuilder {
        let mut config = PipelineConfig::default();
        config.max_cache_batch_size = DEFAULT_PARALLEL;
        config.cache_strategy = CacheStrategy::Paged;
        config.kv_cache_page_size = PAGE_SIZE;
        config.enable_prefix_caching = true;
        ModelBuilder {
            length_is_set: false,
            ..ModelBuilder::from_config(config)
        }
    }
}
