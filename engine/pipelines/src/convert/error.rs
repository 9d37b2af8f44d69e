//! Why a model cannot be converted.

use std::path::PathBuf;

use wisp_types::Encoding;
use wisp_weights::{WeightError, encodings::EncodingError};

use crate::{architectures::ArchitectureError, model_files::ModelFilesError, spec::SpecError};

/// Why a model cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// Occurs when the file to write exists.
    #[error("{} already exists: set `force` to replace it", path.display())]
    Exists {
        /// The path of the output file.
        path: PathBuf,
    },
    /// Occurs when the directory to write exists and is not empty.
    #[error("{} already exists and is not empty: name another directory", path.display())]
    NotEmpty {
        /// The path of the output directory.
        path: PathBuf,
    },
    /// Occurs when safetensors are to be written in an encoding of blocks.
    #[error(
        "safetensors cannot hold {encoding}, only f32, f16 and bf16: name a .gguf file for other \
         encodings"
    )]
    Quantized {
        /// The requested block encoding, such as `q4_k`.
        encoding: Encoding,
    },
    /// Occurs when a GGUF file is to become a directory in Hugging Face's layout.
    #[error(
        "{model} is in GGUF, which lacks much of what a directory in Hugging Face's layout needs: \
         name a .gguf file"
    )]
    FromGguf {
        /// The user's name for the source model, such as its path.
        model: String,
    },
    /// Occurs when GGUF has no way to express how a model computes.
    #[error("GGUF cannot express this model's {what}")]
    Inexpressible {
        /// What it cannot express.
        what: &'static str,
    },
    /// Occurs when a weight is NaN or infinite, in the source or in its new encoding.
    #[error(
        "tensor `{tensor}` holds {value}, which {encoding} cannot hold",
        tensor = tensor.escape_debug()
    )]
    NotFinite {
        /// The tensor's name in the new file.
        tensor: String,
        /// The first such weight, before it was encoded.
        value: f32,
        /// The encoding that the tensor was to have in the new file.
        encoding: Encoding,
    },
    /// Occurs when a file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Occurs when the caller ends the conversion.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// Occurs when the new files do not describe the same model, which is a defect.
    #[error("internal error: {} does not describe the same model", path.display())]
    Mismatch {
        /// The new directory.
        path: PathBuf,
    },
    /// Occurs when a tensor cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// Occurs when a tensor cannot be encoded.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// Occurs when the source's configuration is inconsistent.
    #[error("the model's configuration is unusable: {0}")]
    Spec(#[from] SpecError),
    /// Occurs when the metadata of the new file cannot be read back.
    #[error(transparent)]
    Architecture(#[from] ArchitectureError),
    /// Occurs when the new directory cannot be opened.
    #[error(transparent)]
    ModelFiles(#[from] ModelFilesError),
}

/// Makes errors of a file that cannot be written.
pub(super) fn write_error(
    path: &std::path::Path,
) -> impl Fn(std::io::Error) -> ConvertError + use<> {
    let path = path.to_path_buf();
    move |source| ConvertError::Write {
        path: path.clone(),
        source,
    }
}
