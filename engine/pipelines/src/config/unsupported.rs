//! Values of fields that this build does not support.

use super::{choices::PipelineEngine, error::ConfigError, pipeline_config::PipelineConfig};

/// A field, a test for unsupported values of it, and the reason.
type Unsupported = (&'static str, fn(&PipelineConfig) -> bool, &'static str);

#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
const HUGGING_FACE: &str = "candle only generates text: use `engine = max` for everything else";
#[cfg(not(all(feature = "candle", not(target_arch = "wasm32"))))]
const HUGGING_FACE: &str = "Hugging Face's candle is not part of this build: build it with \
    `cargo build --features candle`, or use `engine = max`";

const UNSUPPORTED: &[Unsupported] = &[
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
    /// Checks that this build supports everything that the configuration requests.
    ///
    /// # Errors
    ///
    /// If a field has an unsupported value.
    pub fn check_supported(&self) -> Result<(), ConfigError> {
        match UNSUPPORTED.iter().find(|(_, asks, _)| asks(self)) {
            Some((field, _, reason)) => Err(ConfigError::Unsupported { field, reason }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_values_are_refused() {
        for json in [
            r#"{"engine": "huggingface"}"#,
            r#"{"device_specs": ["host", "vulkan"]}"#,
        ] {
            let config: PipelineConfig = serde_json::from_str(json).unwrap();
            let error = config.check_supported().unwrap_err();
            assert!(matches!(error, ConfigError::Unsupported { .. }), "{error}");
        }
    }
}
