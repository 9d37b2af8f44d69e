//! Errors of opening checkpoints and reading tensors.

use super::{format::FormatError, message::supported_encodings};

/// What a path to a checkpoint may be.
const EXPECTED: &str = "a .gguf, .safetensors, .bin, .pt or .pth file, or a folder with \
                        model.safetensors, pytorch_model.bin, the index of either or one .gguf file";

/// Why a checkpoint cannot be opened or a tensor cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightError {
    /// Occurs when the operating system, or the source of a remote file, reports an error.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The operation that failed: "open", "map", "list" or "read".
        doing: &'static str,
        /// The file or folder.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Occurs when the contents of a file are unsound.
    #[error("{file}: {source}")]
    Format {
        /// The name of the file.
        file: String,
        /// What is wrong with it.
        source: FormatError,
    },
    /// Occurs when a path is not a checkpoint.
    #[error("{path}: {found}; expected {}", EXPECTED)]
    NoCheckpoint {
        /// The file or folder.
        path: String,
        /// What it is instead.
        found: String,
    },
    /// Occurs when a folder holds several checkpoints.
    #[error("{path} holds several models; name one of them: {}", files.join(", "))]
    Ambiguous {
        /// The path of the folder.
        path: String,
        /// The names of the candidates.
        files: Vec<String>,
    },
    /// Occurs when an index, such as `model.safetensors.index.json`, is unusable.
    #[error("{file}: {reason}")]
    Index {
        /// The index file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Occurs when the parts of a checkpoint in several files do not belong together.
    #[error("{file}: {reason}")]
    Parts {
        /// The name of the part's file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Occurs when the checkpoint does not have a tensor of this name.
    #[error("tensor `{}` is missing from the checkpoint", name.escape_debug())]
    MissingTensor {
        /// The name of the tensor.
        name: String,
    },
    /// Occurs when a tensor is used whose encoding Wisp does not compute with.
    #[error(
        "tensor `{}` is stored as {stored}; supported are {}",
        tensor.escape_debug(), supported_encodings()
    )]
    Unsupported {
        /// The name of the tensor.
        tensor: String,
        /// How the file stores it.
        stored: String,
    },
    /// Occurs when a tensor of this shape does not exist in this encoding: its rows are not whole blocks,
    /// or its size overflows.
    #[error(
        "tensor `{}` of shape {shape:?} cannot be {encoding}: its rows must be a multiple of {} weights \
         and its size in bytes must fit in 64 bits",
        tensor.escape_debug(), encoding.file_block_weights()
    )]
    Shape {
        /// The name of the tensor.
        tensor: String,
        /// Its shape, outermost dimension first.
        shape: Vec<u64>,
        /// The encoding that the tensor was to have.
        encoding: wisp_types::Encoding,
    },
    /// Occurs when a tensor is created from another number of bytes than its shape takes.
    #[error("tensor `{}` takes {expected} bytes, but {actual} were given", tensor.escape_debug())]
    Length {
        /// The name of the tensor.
        tensor: String,
        /// The number of bytes that its shape takes in its encoding.
        expected: u64,
        /// The number of bytes that were given.
        actual: u64,
    },
    /// Occurs when a view cannot be built from the tensors of its source.
    #[error("{view} cannot be built from tensor `{}`: {problem}", tensor.escape_debug())]
    View {
        /// The name of the view.
        view: String,
        /// The tensor of the source.
        tensor: String,
        /// Why not.
        problem: String,
    },
    /// Occurs when a checkpoint is quantised by a method, or with a setting, that is not supported.
    #[error("quantization_config of config.json: {problem}")]
    QuantizationConfig {
        /// What is not supported.
        problem: String,
    },
    /// Occurs when the tensors of a quantised matrix do not fit together, or are in a format that is not supported.
    #[error("quantised weight `{}`: {problem}", weight.escape_debug())]
    Quantized {
        /// The name of the weight that the tensors make up.
        weight: String,
        /// What does not fit.
        problem: String,
    },
    /// Occurs when a tensor is to stay in its file, but that is read in pieces over a network or by a browser.
    #[error(
        "tensor `{}` cannot stay in its file, which is read in pieces",
        tensor.escape_debug()
    )]
    Remote {
        /// The name of the tensor.
        tensor: String,
    },
    /// Occurs when a range of bytes is not inside its tensor.
    #[error(
        "bytes {start}..{end} of tensor `{}` were requested, but it has {len} bytes",
        tensor.escape_debug()
    )]
    Range {
        /// The name of the tensor.
        tensor: String,
        /// The first byte requested.
        start: u64,
        /// The byte after the last one requested.
        end: u64,
        /// The length of the tensor in bytes.
        len: u64,
    },
}

impl FormatError {
    /// Adds the name of the file that the error is about.
    pub fn in_file(self, file: impl Into<String>) -> WeightError {
        WeightError::Format {
            file: file.into(),
            source: self,
        }
    }
}
