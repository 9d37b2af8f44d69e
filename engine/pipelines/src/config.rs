//! How a model is loaded and run: [`PipelineConfig`], after MAX's class of that name.
//!
//! A configuration comes from [layers](layers::Layer) (flags, environment, a TOML file) over its
//! defaults. What each field is called, may be and does stands in one table, [`fields::FIELDS`].

pub mod choices;
#[cfg(not(target_arch = "wasm32"))]
mod choose;
#[cfg(not(target_arch = "wasm32"))]
mod compiled;
mod error;
pub mod fields;
pub mod layers;
#[cfg(not(target_arch = "wasm32"))]
mod model_name;
#[cfg(not(target_arch = "wasm32"))]
mod weights;

use serde::{Deserialize, Serialize};

use super::{
    DecoderSpec, ModelLimits, PipelineError, SamplingParams, architectures,
    model_files::ModelFiles, rope::RopeScaling,
};
use wisp_device::{Device, DeviceError, DeviceSpec, FeatureLevel};

pub use choices::{CacheStrategy, KvCacheFormat, PipelineEngine, RopeType};
pub use error::ConfigError;
pub use fields::{FIELDS, Field};
pub use layers::Layer;
#[cfg(not(target_arch = "wasm32"))]
pub use model_name::ModelName;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use weights::COMPANIONS;
#[cfg(not(target_arch = "wasm32"))]
pub use wisp_hub::RepoType;
pub use wisp_types::UnknownChoice;
pub use wisp_weights::{SupportedEncoding, WeightDType, WeightsFormat};

/// How a model is loaded and run. The fields are those of MAX's `PipelineConfig`, with its defaults;
/// [`Self::help`] says what each does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the table of fields has the words")]
pub struct PipelineConfig {
    pub huggingface_repo_id: Option<String>,
    pub huggingface_revision: String,
    pub weight_path: Vec<String>,
    pub quantization_encoding: Option<SupportedEncoding>,
    pub engine: PipelineEngine,
    pub architecture: Option<String>,
    pub rope_type: Option<RopeType>,
    pub trust_remote_code: bool,
    pub force_download: bool,
    pub device_specs: Vec<DeviceSpec>,
    pub profile: FeatureLevel,
    pub threads: usize,
    pub gpu_memory_utilization: f64,
    pub max_length: u64,
    pub max_cache_batch_size: u64,
    pub max_ce_batch_size: u64,
    pub prefill_chunk_size: u64,
    pub pad_to_multiple_of: u64,
    pub max_num_steps: u64,
    pub cache_strategy: CacheStrategy,
    pub kv_cache_format: KvCacheFormat,
    pub kv_cache_page_size: u32,
    pub enable_prefix_caching: bool,
    pub serialized_model_path: Option<String>,
    pub save_to_serialized_model_path: Option<String>,
    pub enable_lora: bool,
    pub lora_paths: Vec<String>,
    pub max_lora_rank: u64,
    pub max_num_loras: u64,
    pub max_new_tokens: i64,
    pub top_k: u32,
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
            threads: 0,
            gpu_memory_utilization: 0.9,
            max_length: 512,
            max_cache_batch_size: 1,
            max_ce_batch_size: 32,
            prefill_chunk_size: 512,
            pad_to_multiple_of: 2,
            max_num_steps: 1,
            cache_strategy: CacheStrategy::Continuous,
            kv_cache_format: KvCacheFormat::Float32,
            kv_cache_page_size: 512,
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

/// A field's name, when its value asks for what is not built, and why that is refused.
type NotBuilt = (&'static str, fn(&PipelineConfig) -> bool, &'static str);

/// What the engine `huggingface` does not do in this build.
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
const HUGGING_FACE: &str =
    "candle only generates (wisp generate, wisp chat): use max for everything else";
#[cfg(not(all(feature = "candle", not(target_arch = "wasm32"))))]
const HUGGING_FACE: &str = "Hugging Face's candle is not part of this build: build it with \
    `cargo build --features candle`, or use max";

/// What fields promise and this version does not do. A row goes when its machinery comes.
const NOT_BUILT: &[NotBuilt] = &[
    (
        "engine",
        |config| config.engine == PipelineEngine::HuggingFace,
        HUGGING_FACE,
    ),
    (
        "device_specs",
        |config| config.device_specs.len() > 1,
        "a model runs on one device: name one",
    ),
];

impl PipelineConfig {
    /// What every field does: the words of the command line's help.
    pub fn help() -> impl Iterator<Item = (&'static str, &'static str)> {
        FIELDS.iter().map(|field| (field.name, field.help))
    }

    /// Checks every field's range.
    ///
    /// # Errors
    ///
    /// The first that is outside it.
    pub fn check(&self) -> Result<(), ConfigError> {
        let problem = |error: serde_json::Error| ConfigError::Value {
            field: "configuration",
            problem: error.to_string(),
        };
        let values = serde_json::to_value(self).map_err(problem)?;
        for field in FIELDS {
            match values.get(field.name) {
                None | Some(serde_json::Value::Null) => {}
                Some(value) => field.check(value)?,
            }
        }
        Ok(())
    }

    /// Refuses what this version does not do.
    ///
    /// # Errors
    ///
    /// The first field that asks for such.
    pub fn require_built(&self) -> Result<(), ConfigError> {
        match NOT_BUILT.iter().find(|(_, asks, _)| asks(self)) {
            Some((field, _, reason)) => Err(ConfigError::NotBuilt { field, reason }),
            None => Ok(()),
        }
    }

    /// Opens the devices, in the order of `device_specs`.
    ///
    /// # Errors
    ///
    /// If there is none of a name.
    pub async fn devices(&self) -> Result<Vec<Device>, DeviceError> {
        let mut devices = Vec::with_capacity(self.device_specs.len());
        for spec in &self.device_specs {
            devices.push(Device::open(spec, self.profile, self.threads).await?);
        }
        Ok(devices)
    }

    /// Opens the first device; without any in `device_specs`, the one that `auto` means.
    ///
    /// # Errors
    ///
    /// If there is none of its name.
    pub async fn device(&self) -> Result<Device, DeviceError> {
        let first = self.device_specs.first().copied().unwrap_or_default();
        Device::open(&first, self.profile, self.threads).await
    }

    /// [`Self::device`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::device`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn device_blocking(&self) -> Result<Device, DeviceError> {
        pollster::block_on(self.device())
    }

    /// The numbers that the weights are made of, if `quantization_encoding` says: bytes, where they
    /// are quantised.
    pub fn dtype(&self) -> Option<WeightDType> {
        Some(self.quantization_encoding?.dtype())
    }

    /// What the model is called.
    pub fn short_name(&self) -> &str {
        let first = self.weight_path.first();
        let name = self.huggingface_repo_id.as_ref().or(first);
        name.map_or("", String::as_str)
    }

    /// How tokens are drawn, as far as the configuration says.
    pub fn sampling(&self) -> SamplingParams {
        SamplingParams {
            top_k: self.top_k,
            ..SamplingParams::default()
        }
    }

    /// Most tokens to generate; `None`: until the context is full.
    pub fn new_tokens(&self) -> Option<usize> {
        usize::try_from(self.max_new_tokens).ok()
    }

    /// The sizes that a model is made for.
    ///
    /// # Errors
    ///
    /// If the context is longer than the model's.
    pub fn limits(&self, spec: &DecoderSpec) -> Result<ModelLimits, ConfigError> {
        let (max_length, most) = (self.max_length.max(1), spec.max_positions.max(1));
        if max_length > most {
            return Err(ConfigError::TooLong { max_length, most });
        }
        let (max_batch, page_size) = match self.cache_strategy {
            CacheStrategy::Naive => (1, max_length),
            // Only pages can be shared.
            CacheStrategy::Continuous if !self.enable_prefix_caching => {
                (self.max_cache_batch_size, max_length)
            }
            CacheStrategy::Continuous | CacheStrategy::Paged => {
                (self.max_cache_batch_size, self.kv_cache_page_size.into())
            }
        };
        let max_batch = max_batch.max(1);
        let max_step_tokens = self
            .prefill_chunk_size
            .min(max_length)
            .next_multiple_of(self.pad_to_multiple_of.max(1));
        let echoed = if self.enable_echo { max_step_tokens } else { 1 };
        Ok(ModelLimits {
            max_length,
            max_batch,
            max_prefill: self.max_ce_batch_size.clamp(1, max_batch),
            max_step_tokens,
            max_logit_rows: echoed.max(max_batch),
            page_size: u32::try_from(page_size).unwrap_or(u32::MAX),
            max_steps: self.max_num_steps,
            prefix_caching: self.enable_prefix_caching,
            max_num_loras: self.loras(),
            max_lora_rank: self.max_lora_rank,
            cache_format: self.kv_cache_format.into(),
            ..ModelLimits::default()
        })
    }

    /// Adapters that there is room for; 0 if none are wanted.
    fn loras(&self) -> u64 {
        match (self.enable_lora, self.lora_paths.len() as u64) {
            (false, 0) => 0,
            (_, named) => named.max(self.max_num_loras),
        }
    }

    /// The adapters of `lora_paths`: names and paths. One without a name is called as its path.
    pub fn adapters(&self) -> impl Iterator<Item = (&str, &str)> {
        let pair = |text| str::split_once(text, '=').unwrap_or((text, text));
        self.lora_paths.iter().map(move |text| pair(text))
    }

    /// Bytes of a device that the model may take: its free memory times `gpu_memory_utilization`.
    /// `None` where the device does not tell how much is free.
    pub fn memory(&self, device: &Device) -> Option<u64> {
        let free = device.free_memory()? as f64;
        Some((free * self.gpu_memory_utilization) as u64)
    }

    /// Holds a model's files to what the configuration says of encoding, architecture and rope.
    ///
    /// # Errors
    ///
    /// If they are not what it says, or it asks for what is not built.
    pub fn apply_overrides(&self, mut files: ModelFiles) -> Result<ModelFiles, PipelineError> {
        self.require_built()?;
        if let Some(wanted) = self.quantization_encoding {
            let mut names = files.checkpoint.file_names();
            let named = names
                .next()
                .and_then(SupportedEncoding::parse_from_file_name);
            let stored = SupportedEncoding::of(&files.checkpoint);
            if named != Some(wanted) && stored != Some(wanted) {
                return Err(PipelineError::Settings(ConfigError::Encoding {
                    file: files.name.clone(),
                    stored: stored
                        .map_or("an unknown encoding", |stored| stored.name())
                        .into(),
                    wanted,
                }));
            }
        }
        if let Some(wanted) = &self.architecture {
            architectures::require(files.model_spec.architecture, wanted)?;
        }
        self.apply_rope(&mut files.model_spec.spec)?;
        Ok(files)
    }

    /// Overrides how a decoder rotates, where `rope_type` asks for it.
    ///
    /// # Errors
    ///
    /// If the checkpoint has not the parameters.
    pub fn apply_rope(&self, spec: &mut DecoderSpec) -> Result<(), ConfigError> {
        let Some(wanted) = self.rope_type else {
            return Ok(());
        };
        let scaled = |kind: fn(&RopeScaling) -> bool| spec.ropes.iter().any(|r| kind(&r.scaling));
        match wanted {
            RopeType::None => spec.layers.iter_mut().for_each(|layer| layer.rope = None),
            RopeType::Normal => spec.rope_interleaved = true,
            RopeType::Neox => spec.rope_interleaved = false,
            RopeType::Yarn if scaled(|r| matches!(r, RopeScaling::Yarn { .. })) => {}
            RopeType::LongRope if scaled(|r| matches!(r, RopeScaling::LongRope { .. })) => {}
            _ => return Err(ConfigError::Rope { wanted }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The table and the struct have the same fields, and the table tells their defaults.
    #[test]
    fn the_table_is_the_struct() {
        let default = serde_json::to_value(PipelineConfig::default()).unwrap();
        let default = default.as_object().unwrap();
        assert_eq!(
            default.keys().collect::<Vec<_>>(),
            FIELDS.iter().map(|field| field.name).collect::<Vec<_>>()
        );
        for field in FIELDS {
            let shown = match &default[field.name] {
                Value::Null => continue,
                Value::Array(list) if list.is_empty() => continue,
                Value::Array(list) => list[0].as_str().unwrap().to_string(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(shown, field.default, "{}", field.name);
        }
        PipelineConfig::default().check().unwrap();
        PipelineConfig::default().require_built().unwrap();
    }

    #[test]
    fn flags_and_variables_are_distinct() {
        let mut seen = std::collections::HashSet::new();
        for field in FIELDS {
            assert!(seen.insert(field.flag), "{}", field.flag);
            assert!(!field.help.is_empty() && !field.help.ends_with('.'));
            assert_eq!(
                field.value_name.is_empty(),
                field.kind == fields::Kind::Switch
            );
        }
    }

    #[test]
    fn what_is_not_built_is_refused() {
        let refused: Vec<PipelineConfig> = [
            r#"{"engine": "huggingface"}"#,
            r#"{"device_specs": ["host", "vulkan"]}"#,
        ]
        .map(|json| serde_json::from_str(json).unwrap())
        .into();
        for config in refused {
            let error = config.require_built().unwrap_err();
            assert!(matches!(error, ConfigError::NotBuilt { .. }), "{error}");
        }
    }

    #[test]
    fn ranges_are_checked() {
        let wrong = PipelineConfig {
            kv_cache_page_size: 0,
            ..PipelineConfig::default()
        };
        let error = wrong.check().unwrap_err().to_string();
        assert!(error.contains("kv_cache_page_size is 0"), "{error}");
        let wrong = PipelineConfig {
            gpu_memory_utilization: f64::NAN,
            ..PipelineConfig::default()
        };
        // JSON has no NaN: it becomes null, which is no number.
        assert!(wrong.check().is_err() || wrong.memory(&Device::host(1).unwrap()) == Some(0));
    }
}
