//! What can go wrong with a model that candle runs.

use super::architectures::names;

/// What can go wrong with a model that candle runs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CandleError {
    /// Occurs when the model is in GGUF.
    #[error(
        "{name} is in GGUF, but candle's models are read from Hugging Face's layout (config.json beside safetensors): use --engine max"
    )]
    Gguf {
        /// What the user calls the model.
        name: String,
    },
    /// Occurs when there is no row for an architecture.
    #[error(
        "the architecture {name} is not among those that run through candle: {}",
        names().collect::<Vec<_>>().join(", ")
    )]
    UnknownArchitecture {
        /// The checkpoint's architecture.
        name: String,
    },
    /// Occurs when a field of `config.json` is not what candle's code takes for granted.
    #[error("config.json: `{key}` is {value}, but candle's {architecture} {expected}")]
    Field {
        /// The architecture.
        architecture: &'static str,
        /// The field.
        key: String,
        /// Its value.
        value: String,
        /// What candle's code does, after the architecture's name.
        expected: String,
    },
    /// Occurs when candle would leave part of a checkpoint out.
    #[error(
        "candle's {architecture} has no place for the checkpoint's {}: the model is not what candle takes it for",
        .tensors.join(", ")
    )]
    Unused {
        /// The architecture.
        architecture: &'static str,
        /// The first of the tensors.
        tensors: Vec<String>,
    },
    /// Occurs when the logits are not one a word.
    #[error("candle computed {logits} logits for a vocabulary of {vocab_size}")]
    Logits {
        /// How many there are.
        logits: usize,
        /// Words in the vocabulary.
        vocab_size: u64,
    },
    /// Occurs when candle fails, by an error or by a panic.
    #[error("candle: {0}")]
    Candle(String),
}
