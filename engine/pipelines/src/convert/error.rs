//! Why a conversion fails.

use std::path::PathBuf;

use crate::PipelineError;
use wisp_weights::{WeightError, encodings::EncodingError};

/// Why a model cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// Occurs when something of the name is there already.
    #[error("{} exists already; --force replaces it", path.display())]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// Occurs when a directory that is to be written has something in it.
    #[error("{} is there already and not empty; name another directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Occurs when an encoding of blocks is asked for in safetensors.
    #[error(
        "safetensors cannot hold {encoding}; it has f32, f16 and bf16 (name a .gguf file for other encodings)"
    )]
    Quantised {
        /// The encoding.
        encoding: wisp_types::Encoding,
    },
    /// Occurs when a GGUF file is to become a directory in Hugging Face's layout.
    #[error(
        "{model} is in GGUF, which says too little for a directory in Hugging Face's layout; name a .gguf file"
    )]
    FromGguf {
        /// The model.
        model: String,
    },
    /// Occurs when there is no rule for an architecture.
    #[error("models of the architecture {architecture} cannot be converted to GGUF; supported are {}", supported.join(", "))]
    Architecture {
        /// The model's.
        architecture: String,
        /// Those with rules.
        supported: Vec<&'static str>,
    },
    /// Occurs when GGUF has no way to say how a model computes.
    #[error("GGUF cannot express this model's {what}")]
    Inexpressible {
        /// What it cannot express.
        what: &'static str,
    },
    /// Occurs when a weight is NaN or infinite, in the source or once it is encoded.
    #[error("tensor `{tensor}` holds {value}, which {encoding} cannot hold", tensor = tensor.escape_debug())]
    NotFinite {
        /// The tensor.
        tensor: String,
        /// The weight.
        value: f32,
        /// The encoding.
        encoding: wisp_types::Encoding,
    },
    /// Occurs when a file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Occurs when the conversion was asked to end.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// Occurs when a tensor cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when a tensor cannot be encoded.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// Occurs when what was written is no model.
    #[error(transparent)]
    Model(#[from] PipelineError),
}
