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
    #[error("{} already exists and is not empty, and `force` does not replace directories: name another directory", path.display())]
    NotEmpty {
        /// The path of the output directory.
        path: PathBuf,
    },
    /// Occurs when safetensors files are to be written in a block encoding.
    #[error(
        "safetensors cannot hold {encoding}, only f32, f16 and bf16: name a .gguf file for other \
         encodings"
    )]
    Quantized {
        /// The encoding that safetensors cannot hold.
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
    /// Occurs when GGUF cannot express a property of the model.
    #[error("GGUF cannot express this model's {what}")]
    Inexpressible {
        /// The property that GGUF cannot express.
        what: &'static str,
    },
    /// Occurs when the columns of a weight are in an order of their own, which the new file cannot tell.
    #[error(
        "tensor `{}` is quantised in act-order (desc_act), which cannot be converted: convert the \
         model that it was quantised from",
        tensor.escape_debug()
    )]
    ColumnOrder {
        /// The tensor's name in the source.
        tensor: String,
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
    /// Occurs when the progress callback cancels the conversion.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// Occurs when the new files do not describe the same model, which is a bug in the conversion.
    #[error("internal error: {} does not describe the same model", path.display())]
    Mismatch {
        /// The path of the new directory.
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

/// Returns a function that makes the error of a file that cannot be written.
pub(super) fn write_error(
    path: &std::path::Path,
) -> impl Fn(std::io::Error) -> ConvertError + use<> {
    let path = path.to_path_buf();
    move |source| ConvertError::Write {
        path: path.clone(),
        source,
    }
}
