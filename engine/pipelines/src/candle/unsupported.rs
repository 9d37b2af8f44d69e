//! What a configuration may ask for and candle does not do.

use wisp_device::DeviceSpec;
use wisp_hub::OnTransfer;
use wisp_types::Api;

use super::files::CandleFiles;
use crate::{
    config::{
        ConfigError, KvCacheFormat, LayerEmbeddingsPlacement, PipelineConfig, PipelineEngine,
    },
    error::PipelineError,
};

/// A field, whether a configuration asks for what candle does not do, and the reason.
type Unsupported = (&'static str, fn(&PipelineConfig) -> bool, &'static str);

fn is_cpu(spec: &DeviceSpec) -> bool {
    match spec {
        DeviceSpec::Auto => true,
        DeviceSpec::Adapter { api, .. } => *api == Api::Host,
    }
}

const UNSUPPORTED: &[Unsupported] = &[
    (
        "device_specs",
        |config| !config.device_specs.iter().all(is_cpu),
        "candle runs on the CPU: use auto or host",
    ),
    (
        "quantization_encoding",
        |config| config.quantization_encoding.is_some(),
        "candle computes with the checkpoint's weights in f32: use `engine = max`",
    ),
    (
        "kv_cache_format",
        |config| {
            let format = config.kv_cache_format;
            format.is_some_and(|format| format != KvCacheFormat::Float32)
        },
        "candle caches f32: use `engine = max`",
    ),
    (
        "layer_embeddings",
        |config| config.layer_embeddings == LayerEmbeddingsPlacement::Host,
        "candle keeps all weights in memory: use `engine = max`",
    ),
    (
        "lora_paths",
        |config| config.enable_lora || !config.lora_paths.is_empty(),
        "candle has no adapters: use `engine = max`",
    ),
    (
        "rope_type",
        |config| config.rope_type.is_some(),
        "candle rotates as the checkpoint says: use `engine = max`",
    ),
    (
        "architecture",
        |config| config.architecture.is_some(),
        "candle runs the checkpoint's own: use `engine = max`",
    ),
    (
        "serialized_model_path",
        |config| config.has_compiled_file(),
        "candle compiles nothing: use `engine = max`",
    ),
];

impl PipelineConfig {
    /// Opens the files of a model for candle, after downloading those that are missing.
    ///
    /// # Errors
    ///
    /// If the files cannot be found, downloaded or read, or the configuration asks for what candle
    /// does not do.
    pub fn open_candle(&self, on_transfer: OnTransfer<'_>) -> Result<CandleFiles, PipelineError> {
        if let Some((field, _, reason)) = UNSUPPORTED.iter().find(|(_, asks, _)| asks(self)) {
            return Err(ConfigError::Unsupported { field, reason }.into());
        }
        let config = PipelineConfig {
            engine: PipelineEngine::Max,
            ..self.clone()
        };
        let (name, checkpoint, folder) = config.checkpoint(on_transfer)?;
        CandleFiles::from_checkpoint(name, checkpoint, folder.as_deref())
    }
}
