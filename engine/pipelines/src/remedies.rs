//! What may resolve each of the errors.

use wisp_device::DeviceError;
#[cfg(not(target_arch = "wasm32"))]
use wisp_hub::RepoError;
use wisp_weights::SupportedEncoding;

use crate::{
    PipelineError, architectures::ArchitectureError, config::ConfigError,
    decoder_graph::DecoderError, lora::LoraError, remedy::Remedy, request::RequestError,
    text_encoder::EncodeError,
};

impl PipelineError {
    /// Returns what may resolve the error, the most promising first. Empty if Wisp knows nothing that helps.
    pub fn remedies(&self) -> Vec<Remedy> {
        if let Some(error) = self.device_error() {
            return of_device(error);
        }
        match self {
            PipelineError::DoesNotFit { remedies, .. }
            | PipelineError::CacheTooLarge { remedies, .. } => remedies.clone(),
            PipelineError::OnlyInCandle { .. } => vec![set("engine", "huggingface")],
            PipelineError::Architecture(error) => of_architecture(error),
            PipelineError::Request(error) => of_request(error),
            PipelineError::Encode(EncodeError::TooLong { most, .. }) => {
                let max_tokens = usize::try_from(*most).unwrap_or(usize::MAX);
                vec![Remedy::ShortenPrompt { max_tokens }]
            }
            PipelineError::Config(error) => of_config(error),
            PipelineError::Decoder(DecoderError::LoraBuffers { .. }) => {
                vec![decrease("max_num_loras"), decrease("max_lora_rank")]
            }
            PipelineError::Lora(error) => of_lora(error),
            PipelineError::Adapter { source, .. } => of_lora(source),
            #[cfg(not(target_arch = "wasm32"))]
            PipelineError::Repository(error) => of_repository(error),
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            PipelineError::Candle(crate::candle::error::CandleError::Gguf { .. }) => {
                vec![set("engine", "max")]
            }
            _ => Vec::new(),
        }
    }
}

fn set(field: &'static str, value: impl ToString) -> Remedy {
    let value = value.to_string();
    Remedy::Set { field, value }
}

fn at_most(field: &'static str, limit: u64) -> Remedy {
    Remedy::AtMost { field, limit }
}

fn decrease(field: &'static str) -> Remedy {
    Remedy::Decrease { field }
}

fn of_architecture(error: &ArchitectureError) -> Vec<Remedy> {
    match error {
        ArchitectureError::NotADecoder { .. } | ArchitectureError::NotAnEncoder { .. } => {
            vec![Remedy::AnotherKindOfModel]
        }
        _ => Vec::new(),
    }
}

fn of_request(error: &RequestError) -> Vec<Remedy> {
    match error {
        RequestError::TooLong { max_length, .. } => vec![
            Remedy::ShortenPrompt {
                max_tokens: *max_length,
            },
            Remedy::Increase {
                field: "max_length",
            },
        ],
        RequestError::Empty | RequestError::TooLargeForCache { .. } => Vec::new(),
    }
}

fn of_config(error: &ConfigError) -> Vec<Remedy> {
    match error {
        ConfigError::Origin { source, .. } => of_config(source),
        ConfigError::TooLong { max, .. } => vec![at_most("max_length", *max)],
        // Weights may be stored in no encoding that has a name.
        ConfigError::Encoding { stored, .. } if stored.parse::<SupportedEncoding>().is_ok() => {
            vec![set("quantization_encoding", stored)]
        }
        ConfigError::Architecture { found, .. } => vec![set("architecture", found)],
        ConfigError::Compiled { path, .. } => vec![set("save_to_serialized_model_path", path)],
        ConfigError::NoModel => ["huggingface_repo_id", "weight_path"]
            .map(|field| Remedy::Choose { field })
            .into(),
        _ => Vec::new(),
    }
}

fn of_lora(error: &LoraError) -> Vec<Remedy> {
    match error {
        LoraError::Disabled => vec![Remedy::Choose {
            field: "max_num_loras",
        }],
        LoraError::NameExists { .. } => vec![Remedy::UnloadAdapter],
        LoraError::Full { .. } => vec![
            Remedy::UnloadAdapter,
            Remedy::Increase {
                field: "max_num_loras",
            },
        ],
        _ => Vec::new(),
    }
}

fn of_device(error: &DeviceError) -> Vec<Remedy> {
    match error {
        DeviceError::OutOfMemory { .. } | DeviceError::BufferTooLarge { .. } => vec![
            Remedy::SmallerModel,
            decrease("max_length"),
            Remedy::FewerSequences,
            Remedy::AnotherDevice,
        ],
        DeviceError::NoAdapter { .. } => vec![set("device_specs", "host")],
        DeviceError::Lost { .. } => vec![Remedy::LoadAgain],
        _ => Vec::new(),
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn of_repository(error: &RepoError) -> Vec<Remedy> {
    let after_seconds = match error {
        RepoError::RateLimited { after_seconds, .. } => *after_seconds,
        RepoError::Stalled { .. }
        | RepoError::WrongSize { .. }
        | RepoError::Unreachable { .. }
        | RepoError::Broken { .. } => None,
        _ => return Vec::new(),
    };
    vec![Remedy::TryAgain { after_seconds }]
}

#[cfg(test)]
mod tests {
    use wisp_session::SessionError;

    use super::*;

    #[test]
    fn only_encodings_with_a_name_are_suggested() {
        let remedies = |stored: &str| {
            let error = ConfigError::Encoding {
                file: "model.gguf".into(),
                stored: stored.into(),
                wanted: SupportedEncoding::q4_k,
            };
            PipelineError::from(error).remedies()
        };
        assert_eq!(remedies("q6_k"), [set("quantization_encoding", "q6_k")]);
        assert_eq!(remedies("in an unknown encoding"), []);
    }

    #[test]
    fn lost_device_has_a_remedy_whatever_was_being_loaded() {
        let lost = || {
            SessionError::from(DeviceError::Lost {
                device: "a GPU".into(),
                message: "reset".into(),
            })
        };
        let in_op = SessionError::InOp {
            op: "matmul".into(),
            kernel: "matmul.f32",
            source: Box::new(DeviceError::Lost {
                device: "a GPU".into(),
                message: "reset".into(),
            }),
        };
        let errors: [PipelineError; 4] = [
            lost().into(),
            in_op.into(),
            LoraError::from(lost()).into(),
            PipelineError::Adapter {
                name: "poet".into(),
                source: Box::new(lost().into()),
            },
        ];
        for error in errors {
            assert_eq!(error.remedies(), [Remedy::LoadAgain], "{error}");
        }
    }

    #[test]
    fn field_of_every_remedy_exists() {
        let fields: Vec<_> = crate::config::FIELDS
            .iter()
            .map(|field| field.name)
            .collect();
        let errors: [PipelineError; 9] = [
            RequestError::TooLong {
                tokens: 9,
                max_length: 8,
            }
            .into(),
            ConfigError::NoModel.into(),
            ConfigError::TooLong {
                max_length: 9,
                max: 8,
            }
            .with_origin("wisp.toml")
            .into(),
            LoraError::Disabled.into(),
            ConfigError::Architecture {
                found: "llama".into(),
                wanted: "gemma".into(),
            }
            .into(),
            ConfigError::Compiled {
                path: "m.wisp".into(),
                differences: Vec::new(),
            }
            .into(),
            DecoderError::LoraBuffers {
                slots: 2,
                rank: 8,
                bytes: 9,
                max: 8,
            }
            .into(),
            PipelineError::OnlyInCandle { names: Vec::new() },
            PipelineError::CacheTooLarge {
                max_length: 9,
                max_batch: 2,
                remedies: vec![at_most("max_length", 8)],
            },
        ];
        for error in errors {
            let remedies = error.remedies();
            assert!(!remedies.is_empty(), "{error}");
            for remedy in remedies {
                let (Remedy::Set { field, .. }
                | Remedy::Choose { field }
                | Remedy::AtMost { field, .. }
                | Remedy::Increase { field }
                | Remedy::Decrease { field }) = remedy
                else {
                    continue;
                };
                assert!(fields.contains(&field), "{field}");
            }
        }
    }
}
