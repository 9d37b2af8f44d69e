//! The configuration of a pipeline.

use serde::{Deserialize, Serialize};
use wisp_device::{
    Device, DeviceClassChoice, DeviceError, DeviceOptions, DeviceSpec, FeatureLevel,
};
use wisp_session::Precision;
use wisp_weights::{SupportedEncoding, WeightDType};

use super::{
    choices::{CacheStrategy, KvCacheFormat, LayerEmbeddingsPlacement, PipelineEngine, RopeType},
    hub_address::without_address,
    tuning::TuningSource,
};
use crate::sampling::SamplingParams;

/// How a model is loaded and run. The fields are those of MAX's `PipelineConfig`, with its defaults;
/// [`FIELDS`](super::FIELDS) has their ranges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PipelineConfig {
    /// The model: a `.gguf` file, a directory in Hugging Face's layout, or a repository of a hub
    /// (`org/name`, with `:encoding` or `:file`).
    pub huggingface_repo_id: Option<String>,
    /// The branch, tag or commit of a hub repository.
    pub huggingface_revision: String,
    /// Weights to use instead of the model's own: local files, or files of its repository.
    pub weight_path: Vec<String>,
    /// The encoding that the weights must have; chooses among a repository's files.
    pub quantization_encoding: Option<SupportedEncoding>,
    /// The engine that runs the model.
    pub engine: PipelineEngine,
    /// The architecture that the checkpoint must have, by Wisp's name or Hugging Face's.
    pub architecture: Option<String>,
    /// Overrides the checkpoint's kind of rotary position embedding.
    pub rope_type: Option<RopeType>,
    /// Accepted for compatibility: Wisp never runs code from a repository.
    pub trust_remote_code: bool,
    /// True to download files even if the cache has them.
    pub force_download: bool,
    /// The devices to open. A model runs on one.
    pub device_specs: Vec<DeviceSpec>,
    /// The feature level: which features of a device kernels may use.
    pub profile: FeatureLevel,
    /// The class of kernels that run on an adapter. The host device ignores it.
    pub device_class: DeviceClassChoice,
    /// The precision of products. Devices without kernels of this precision compute exactly.
    pub precision: Precision,
    /// The number of threads of the host device; 0 for one per core.
    pub threads: usize,
    /// The fraction of the device's free memory that the model may take, above 0 and at most 1.
    pub gpu_memory_utilization: f64,
    /// Where the kernels come from that were measured to be the fastest on the device.
    pub tuning: TuningSource,
    /// The length of the context in tokens, prompt and answer together.
    pub max_length: u64,
    /// The number of sequences that the KV cache can hold at the same time.
    pub max_cache_batch_size: u64,
    /// The largest number of prompts in one prefill step ("context encoding").
    pub max_ce_batch_size: u64,
    /// The number of prompt tokens that a step has room for, besides one token of each other sequence.
    pub prefill_chunk_size: u64,
    /// The number of tokens that a step can process is rounded up to a multiple of this.
    pub pad_to_multiple_of: u64,
    /// The largest number of decode steps in one submission to the device. By default, as many as suit the
    /// device: see [`ModelLimits::max_steps`](crate::ModelLimits::max_steps).
    pub max_num_steps: Option<u64>,
    /// How the KV cache allocates pages.
    pub cache_strategy: CacheStrategy,
    /// The format in which the KV cache stores keys and values; `None` for
    /// [that of the device](KvCacheFormat::default_on).
    pub kv_cache_format: Option<KvCacheFormat>,
    /// The number of positions in a page of the paged KV cache.
    pub kv_cache_page_size: u32,
    /// The number of tokens that the paged KV cache holds for all sequences together: at least those of one context, and at
    /// most those of a context for each sequence. By default the latter, as far as the memory suffices;
    /// `ModelBuilder` of `wisp-engine` has another default.
    pub cache_tokens: Option<u64>,
    /// Where the model keeps its embeddings by layer, if it has any.
    pub layer_embeddings: LayerEmbeddingsPlacement,
    /// True if sequences that begin with the same tokens share KV pages.
    pub enable_prefix_caching: bool,
    /// The file of a compiled model, which is loaded instead of compiling the model.
    pub serialized_model_path: Option<String>,
    /// The file to which the compiled model is saved.
    pub save_to_serialized_model_path: Option<String>,
    /// True if memory is reserved for adapters even if [`Self::lora_paths`] is empty.
    pub enable_lora: bool,
    /// Adapters to load at the start: folders as PEFT writes them, with a name in front (`NAME=PATH`)
    /// or under their path.
    pub lora_paths: Vec<String>,
    /// The largest rank that an adapter may have.
    pub max_lora_rank: u64,
    /// The number of adapters that can be loaded at the same time, at least as many as
    /// [`Self::lora_paths`] has.
    pub max_num_loras: u64,
    /// The largest number of tokens to generate; -1 to generate until the context is full.
    pub max_new_tokens: i64,
    /// The number of most probable tokens to sample from; 0 for all.
    pub top_k: u32,
    /// True if the prompt is returned in front of the generated text.
    pub enable_echo: bool,
}

impl Default for PipelineConfig {
    fn default() -> PipelineConfig {
        PipelineConfig {
            huggingface_repo_id: None,
            huggingface_revision: "main".into(),
            weight_path: Vec::new(),
            quantization_encoding: None,
            engine: PipelineEngine::Max,
            architecture: None,
            rope_type: None,
            trust_remote_code: false,
            force_download: false,
            device_specs: vec![DeviceSpec::Auto],
            profile: FeatureLevel::Full,
            device_class: DeviceClassChoice::Auto,
            precision: Precision::Exact,
            threads: 0,
            gpu_memory_utilization: 0.9,
            tuning: TuningSource::Auto,
            max_length: 512,
            max_cache_batch_size: 1,
            max_ce_batch_size: 32,
            prefill_chunk_size: 512,
            pad_to_multiple_of: 2,
            max_num_steps: None,
            cache_strategy: CacheStrategy::Continuous,
            kv_cache_format: None,
            kv_cache_page_size: 512,
            cache_tokens: None,
            layer_embeddings: LayerEmbeddingsPlacement::Auto,
            enable_prefix_caching: false,
            serialized_model_path: None,
            save_to_serialized_model_path: None,
            enable_lora: false,
            lora_paths: Vec::new(),
            max_lora_rank: 16,
            max_num_loras: 1,
            max_new_tokens: -1,
            top_k: 0,
            enable_echo: false,
        }
    }
}

impl PipelineConfig {
    /// Returns the options with which devices are opened.
    pub fn device_options(&self) -> DeviceOptions {
        DeviceOptions {
            feature_level: self.profile,
            device_class: self.device_class,
            cooperative_matrices: self.precision == Precision::F16,
            num_threads: self.threads,
        }
    }

    /// Opens the devices, in the order of [`Self::device_specs`].
    ///
    /// # Errors
    ///
    /// If one does not exist or cannot be opened.
    pub async fn devices(&self) -> Result<Vec<Device>, DeviceError> {
        let mut devices = Vec::with_capacity(self.device_specs.len());
        for spec in &self.device_specs {
            devices.push(Device::open(spec, self.device_options()).await?);
        }
        Ok(devices)
    }

    /// Opens the devices as [`Self::devices`] does, blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::devices`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn devices_blocking(&self) -> Result<Vec<Device>, DeviceError> {
        pollster::block_on(self.devices())
    }

    /// Opens the first device, or the one that `auto` stands for if there is none in
    /// [`Self::device_specs`].
    ///
    /// # Errors
    ///
    /// If it does not exist or cannot be opened.
    pub async fn device(&self) -> Result<Device, DeviceError> {
        let first = self.device_specs.first().copied().unwrap_or_default();
        Device::open(&first, self.device_options()).await
    }

    /// Opens the device as [`Self::device`] does, blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::device`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn device_blocking(&self) -> Result<Device, DeviceError> {
        pollster::block_on(self.device())
    }

    /// Returns the bytes of a device that the model may take: its free memory times
    /// [`Self::gpu_memory_utilization`]. `None` if the device does not report its free memory.
    pub fn memory(&self, device: &Device) -> Option<u64> {
        let free = device.free_memory()? as f64;
        Some((free * self.gpu_memory_utilization) as u64)
    }

    /// Returns the element type of the weights if [`Self::quantization_encoding`] is set; bytes for
    /// block encodings.
    pub fn dtype(&self) -> Option<WeightDType> {
        Some(self.quantization_encoding?.dtype())
    }

    /// Returns what the user calls the model: [`Self::huggingface_repo_id`], without the address of Hugging Face's hub
    /// before it, or else the first [`Self::weight_path`].
    pub fn short_name(&self) -> &str {
        match (&self.huggingface_repo_id, self.weight_path.first()) {
            (Some(name), _) => without_address(name),
            (None, Some(path)) => path.as_str(),
            (None, None) => "",
        }
    }

    /// Returns the default sampling parameters with the configuration's [`Self::top_k`].
    pub fn sampling(&self) -> SamplingParams {
        SamplingParams {
            top_k: self.top_k,
            ..SamplingParams::default()
        }
    }

    /// Returns the largest number of tokens to generate; `None` to generate until the context is
    /// full.
    pub fn new_tokens(&self) -> Option<usize> {
        usize::try_from(self.max_new_tokens).ok()
    }

    /// Returns the name and path of each adapter in [`Self::lora_paths`]. The name defaults to the
    /// path.
    pub fn adapters(&self) -> impl Iterator<Item = (&str, &str)> {
        let pair = |text| str::split_once(text, '=').unwrap_or((text, text));
        self.lora_paths.iter().map(move |text| pair(text))
    }
}
