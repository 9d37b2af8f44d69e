//! Why candle cannot run a model.

use super::architectures::CANDLE_ARCHITECTURES;

/// Why candle cannot run a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CandleError {
    /// Occurs when the model is in GGUF.
    #[error(
        "{name} is in GGUF, but candle's models are read from Hugging Face's layout (config.json \
         beside safetensors): use `engine = max`"
    )]
    Gguf {
        /// What the user calls the model.
        name: String,
    },
    /// Occurs when candle lacks the checkpoint's architecture.
    #[error(
        "the architecture {} is not among those that run through candle: {}",
        .names.join(", "),
        .supported.join(", ")
    )]
    UnknownArchitecture {
        /// The checkpoint's names for its architecture.
        names: Vec<String>,
        /// Those that run through candle.
        supported: Vec<&'static str>,
    },
    /// Occurs when a field of `config.json` has a value that candle's code does not support.
    #[error("config.json: `{key}` is {value}, but candle's {architecture} {expected}")]
    Field {
        /// The architecture's class, such as `LlamaForCausalLM`.
        architecture: &'static str,
        /// The field's key in `config.json`, such as `rope_scaling`.
        key: String,
        /// The field's value in `config.json`, as JSON.
        value: String,
        /// What candle's code does, after the architecture's name.
        expected: String,
    },
    /// Occurs when candle would ignore part of a checkpoint.
    #[error(
        "candle's {architecture} does not use the checkpoint's {}: it is not the model that candle \
         takes it for",
        .tensors.join(", ")
    )]
    Unused {
        /// The architecture's class, such as `LlamaForCausalLM`.
        architecture: &'static str,
        /// The first of the tensors.
        tensors: Vec<String>,
    },
    /// Occurs when the number of logits is not the size of the vocabulary.
    #[error("candle computed {logits} logits for a vocabulary of {vocab_size}")]
    Logits {
        /// The number of logits.
        logits: usize,
        /// The number of tokens in the vocabulary.
        vocab_size: u64,
    },
    /// Occurs when candle fails, by an error or by a panic.
    #[error("candle: {0}")]
    Candle(String),
}

impl CandleError {
    /// Makes the error of a checkpoint whose architecture candle lacks.
    pub(super) fn unknown_architecture(names: &[String]) -> CandleError {
        CandleError::UnknownArchitecture {
            names: names.to_vec(),
            supported: CANDLE_ARCHITECTURES.iter().map(|row| row.name).collect(),
        }
    }
}
