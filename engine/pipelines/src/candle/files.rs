//! The files of a model that candle runs.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;

use super::CandleError;
use crate::{
    ConfigError, KvCacheFormat, PipelineConfig, PipelineEngine, PipelineError, TextProcessor,
    model_files,
};
use wisp_device::DeviceSpec;
use wisp_hub::OnTransfer;
use wisp_text::tokenizer::{Tokenizer, TokenizerError};
use wisp_types::Api;
use wisp_weights::Checkpoint;

/// What the files of a model that candle runs say.
#[derive(Debug)]
pub struct CandleFiles {
    /// What the user calls the model.
    pub name: String,
    /// The weights.
    pub checkpoint: Checkpoint,
    /// The checkpoint's `config.json`.
    pub config: Value,
    /// The tokenizer, or why there is none; token ids work without.
    pub tokenizer: Result<Tokenizer, TokenizerError>,
    /// Tokens that end a text.
    pub stop_tokens: BTreeSet<u32>,
}

impl CandleFiles {
    /// Opens a directory in Hugging Face's layout.
    ///
    /// # Errors
    ///
    /// If the files cannot be read, or are in GGUF.
    pub fn open(path: &Path) -> Result<CandleFiles, PipelineError> {
        let name = path.display().to_string();
        CandleFiles::from_checkpoint(name, Checkpoint::open(path)?, None)
    }

    /// The model of a checkpoint; what describes it stands in `directory`, or else beside the weights.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn from_checkpoint(
        name: String,
        checkpoint: Checkpoint,
        directory: Option<&Path>,
    ) -> Result<CandleFiles, PipelineError> {
        if checkpoint.gguf().is_some() {
            return Err(CandleError::Gguf { name }.into());
        }
        let beside = checkpoint.directory().unwrap_or(Path::new("."));
        let directory = directory.unwrap_or(beside);
        let text = model_files::read(&directory.join("config.json"))?;
        let config = serde_json::from_str(&text).map_err(|error| PipelineError::Config {
            file: "config.json".into(),
            problem: error.to_string(),
        })?;
        let tokenizer = Tokenizer::from_dir(directory);
        let generation = std::fs::read_to_string(directory.join("generation_config.json")).ok();
        let stop_tokens = model_files::stop_tokens(&tokenizer, &text, generation.as_deref());
        Ok(CandleFiles {
            name,
            checkpoint,
            config,
            tokenizer,
            stop_tokens,
        })
    }

    /// The text side of the model.
    pub fn text(&self) -> TextProcessor {
        let stop_tokens = self.stop_tokens.iter().copied();
        match &self.tokenizer {
            Ok(tokenizer) => TextProcessor::new(&self.name, tokenizer.clone(), stop_tokens),
            Err(error) => TextProcessor::unusable(&self.name, &error.to_string(), stop_tokens),
        }
    }
}

/// A field's name, when its value asks for what candle does not do, and what that is.
type Refused = (&'static str, fn(&PipelineConfig) -> bool, &'static str);

const LORA: (&str, &str) = ("lora_paths", "candle knows no adapters: use --engine max");

/// Occurs when an adapter is asked for.
pub(super) const NO_ADAPTERS: ConfigError = ConfigError::NotBuilt {
    field: LORA.0,
    reason: LORA.1,
};

fn on_cpu(spec: &DeviceSpec) -> bool {
    match spec {
        DeviceSpec::Auto => true,
        DeviceSpec::Adapter { api, .. } => *api == Api::Host,
    }
}

const REFUSED: &[Refused] = &[
    (
        "device_specs",
        |config| config.device_specs.iter().any(|spec| !on_cpu(spec)),
        "candle runs on the CPU: use --device auto or host",
    ),
    (
        "quantization_encoding",
        |config| config.quantization_encoding.is_some(),
        "candle computes with the checkpoint's weights in f32: use --engine max",
    ),
    (
        "kv_cache_format",
        |config| config.kv_cache_format != KvCacheFormat::Float32,
        "candle keeps f32: use --engine max",
    ),
    (
        "enable_prefix_caching",
        |config| config.enable_prefix_caching,
        "candle keeps one sequence: use --engine max",
    ),
    (
        LORA.0,
        |config| config.enable_lora || !config.lora_paths.is_empty(),
        LORA.1,
    ),
    (
        "rope_type",
        |config| config.rope_type.is_some(),
        "candle rotates as the checkpoint says: use --engine max",
    ),
    (
        "architecture",
        |config| config.architecture.is_some(),
        "candle runs the checkpoint's own: use --engine max",
    ),
    (
        "serialized_model_path",
        |config| {
            config.serialized_model_path.is_some() || config.save_to_serialized_model_path.is_some()
        },
        "candle compiles nothing: use --engine max",
    ),
];

impl PipelineConfig {
    /// Opens the files of a model for candle, after downloading what is missing.
    ///
    /// # Errors
    ///
    /// If they cannot be had, or the configuration asks for what candle does not do.
    pub fn open_candle(&self, on_transfer: OnTransfer<'_>) -> Result<CandleFiles, PipelineError> {
        if let Some((field, _, reason)) = REFUSED.iter().find(|(_, asks, _)| asks(self)) {
            return Err(ConfigError::NotBuilt { field, reason }.into());
        }
        let config = PipelineConfig {
            engine: PipelineEngine::Max,
            ..self.clone()
        };
        let (name, checkpoint, folder) = config.checkpoint(on_transfer)?;
        CandleFiles::from_checkpoint(name, checkpoint, folder.as_deref())
    }
}
