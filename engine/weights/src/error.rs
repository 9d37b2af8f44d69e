//! What can be wrong with a checkpoint.
//!
//! Names from a file are escaped in messages, which go to terminals.

use super::Encoding;
use super::pytorch::PytorchError;

/// Why the bytes of one file are not a sound GGUF, safetensors or PyTorch file.
///
/// The parsers know no file names; [`WeightError::Format`] adds the name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Occurs when a PyTorch file is unsound, or holds more than tensors.
    #[error(transparent)]
    Pytorch(#[from] PytorchError),
    /// Occurs when the first bytes are those of something else.
    #[error("not a {expected} file: {found}")]
    NotThisFormat {
        /// The format that was asked for.
        expected: &'static str,
        /// What the bytes look like, and what to do about it.
        found: String,
    },
    /// Occurs when a GGUF file has a version other than 1, 2 or 3.
    #[error("GGUF version {found}; versions 1 to 3 are supported")]
    Version {
        /// The version field, read as little-endian.
        found: u32,
    },
    /// Occurs when a file is shorter than its header says.
    #[error(
        "the file ends after {len} bytes, inside {inside}; it is incomplete: download it again"
    )]
    Truncated {
        /// Bytes in the file.
        len: u64,
        /// The part of the file that is cut off.
        inside: String,
    },
    /// Occurs when bytes follow the last tensor of a safetensors file.
    #[error("{extra} bytes follow the last tensor; the file is damaged: download it again")]
    TrailingBytes {
        /// How many bytes are too many.
        extra: u64,
    },
    /// Occurs when a count or a length is more than any file of this size could hold.
    #[error("{what} is {claimed}, but at most {most} fit; the file is damaged: download it again")]
    TooMany {
        /// What is counted.
        what: String,
        /// What the file says.
        claimed: u64,
        /// The most that the rest of the file, or of the header's limit, can hold.
        most: u64,
    },
    /// Occurs when a key or a tensor's name is not UTF-8.
    #[error("{what} is not UTF-8 text; the file is damaged: download it again")]
    NotText {
        /// Where the text stands.
        what: String,
    },
    /// Occurs when a key or a tensor's name comes twice.
    #[error("{what} `{name}` appears twice", name = name.escape_debug())]
    Duplicate {
        /// "key" or "tensor".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Occurs when a metadata value's type is not one of GGUF's thirteen.
    #[error("key `{key}` has value type {found}; GGUF has types 0 to 12", key = key.escape_debug())]
    ValueType {
        /// The key.
        key: String,
        /// The type in the file.
        found: u32,
    },
    /// Occurs when a boolean is stored as something else than 0 or 1.
    #[error("key `{key}` holds a boolean of value {found}; expected 0 or 1", key = key.escape_debug())]
    Bool {
        /// The key.
        key: String,
        /// The byte in the file.
        found: u8,
    },
    /// Occurs when arrays stand in arrays too deep.
    #[error("key `{key}` nests arrays more than {limit} deep", key = key.escape_debug())]
    Depth {
        /// The key.
        key: String,
        /// The deepest allowed.
        limit: usize,
    },
    /// Occurs when `general.alignment` is unusable.
    #[error("key `general.alignment` is {found}; expected a power of two from 1 to {max}")]
    Alignment {
        /// The value in the file.
        found: String,
        /// The largest accepted.
        max: u64,
    },
    /// Occurs when a tensor has more dimensions than GGUF allows.
    #[error("tensor `{tensor}` has {found} dimensions; at most {max} are allowed", tensor = tensor.escape_debug())]
    Dimensions {
        /// The tensor's name.
        tensor: String,
        /// How many it has.
        found: u32,
        /// How many it may have.
        max: u32,
    },
    /// Occurs when a tensor's shape has a zero or its size overflows.
    #[error("tensor `{tensor}` has the impossible shape {shape:?}", tensor = tensor.escape_debug())]
    Shape {
        /// The tensor's name.
        tensor: String,
        /// Its shape, outermost first.
        shape: Vec<u64>,
    },
    /// Occurs when a tensor's type is unknown, so that not even its size is.
    #[error(
        "tensor `{tensor}` has the unknown type {found}; supported are {}",
        supported(), tensor = tensor.escape_debug()
    )]
    UnknownType {
        /// The tensor's name.
        tensor: String,
        /// The type's number or name in the file.
        found: String,
    },
    /// Occurs when a tensor's rows are no whole number of its encoding's blocks.
    #[error("tensor `{tensor}` has rows of {cols} weights; {stored} needs a multiple of {block}", tensor = tensor.escape_debug())]
    Row {
        /// The tensor's name.
        tensor: String,
        /// Its encoding.
        stored: String,
        /// Weights in a row.
        cols: u64,
        /// Weights in a block.
        block: u64,
    },
    /// Occurs when a tensor's data does not start where the alignment says.
    #[error("tensor `{tensor}` starts at byte {offset} of the data, no multiple of {alignment}", tensor = tensor.escape_debug())]
    Misaligned {
        /// The tensor's name.
        tensor: String,
        /// Its offset from the start of the data.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// Occurs when a tensor's offset plus its size overflow.
    #[error("tensor `{tensor}` starts at the impossible offset {offset}", tensor = tensor.escape_debug())]
    Offset {
        /// The tensor's name.
        tensor: String,
        /// Its offset from the start of the data.
        offset: u64,
    },
    /// Occurs when a key that is needed is absent.
    #[error("key `{key}` is missing; expected {expected}", key = key.escape_debug())]
    MissingKey {
        /// The key.
        key: String,
        /// The type that is needed.
        expected: &'static str,
    },
    /// Occurs when a key's value has another type than is needed.
    #[error("key `{key}` is {found}; expected {expected}", key = key.escape_debug())]
    KeyType {
        /// The key.
        key: String,
        /// The type that is needed.
        expected: &'static str,
        /// The value in the file, shortened.
        found: String,
    },
    /// Occurs when a safetensors header is not what the format says.
    #[error("the safetensors header is damaged ({reason}): download the file again")]
    SafetensorsHeader {
        /// The parser's reason.
        reason: String,
    },
    /// Occurs when bytes are pushed to a reader that has already finished or failed.
    #[error("the reader has already finished")]
    Finished,
}

/// The encodings that Wisp computes with, for error messages.
fn supported() -> String {
    let names: Vec<_> = Encoding::file_encodings().map(|e| e.to_string()).collect();
    names.join(", ")
}

/// Why a checkpoint cannot be opened or a tensor not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightError {
    /// Occurs when the operating system refuses a file.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried: "open", "map", "list".
        doing: &'static str,
        /// The file or folder.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Occurs when a file's bytes are unsound.
    #[error("{file}: {source}")]
    Format {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: FormatError,
    },
    /// Occurs when a path holds no checkpoint.
    #[error("{path}: {found}; expected {}", EXPECTED)]
    NoCheckpoint {
        /// The file or folder.
        path: String,
        /// What is there instead.
        found: String,
    },
    /// Occurs when a folder holds several checkpoints.
    #[error("{path} holds several models; name one of them: {}", files.join(", "))]
    Ambiguous {
        /// The folder.
        path: String,
        /// The candidates.
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
    /// Occurs when the parts of a multi-file checkpoint do not belong together.
    #[error("{file}: {reason}")]
    Parts {
        /// The part.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Occurs when a tensor that is needed is absent.
    #[error("tensor `{name}` is missing from the checkpoint", name = name.escape_debug())]
    MissingTensor {
        /// The tensor's name.
        name: String,
    },
    /// Occurs when a tensor is used whose encoding Wisp does not compute with.
    #[error(
        "tensor `{tensor}` is stored as {stored}; supported are {}",
        supported(), tensor = tensor.escape_debug()
    )]
    Unsupported {
        /// The tensor's name.
        tensor: String,
        /// How the file stores it.
        stored: String,
    },
    /// Occurs when a tensor that the model needs cannot be made of those of the checkpoint.
    #[error("{view} cannot be made from tensor `{tensor}`: {problem}", tensor = tensor.escape_debug())]
    View {
        /// What is needed.
        view: String,
        /// The tensor of the checkpoint.
        tensor: String,
        /// Why not.
        problem: String,
    },
    /// Occurs when bytes are asked for that a tensor does not have.
    #[error("bytes {start}..{end} of tensor `{tensor}` were asked for; it has {len}", tensor = tensor.escape_debug())]
    Range {
        /// The tensor's name.
        tensor: String,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// Bytes of the tensor.
        len: u64,
    },
}

/// What a path to a checkpoint may be.
const EXPECTED: &str = "a .gguf, .safetensors, .bin, .pt or .pth file, or a folder with \
                        model.safetensors, pytorch_model.bin, the index of either or one .gguf file";

impl FormatError {
    /// Adds the file's name.
    pub fn in_file(self, file: impl Into<String>) -> WeightError {
        WeightError::Format {
            file: file.into(),
            source: self,
        }
    }
}
