//! Errors in the contents of a single file.

use super::{
    message::{DAMAGED, INCOMPLETE, grouped, supported_encodings},
    pytorch::PytorchError,
};

/// Why the bytes of one file are not a sound GGUF, safetensors or PyTorch file.
///
/// The parsers do not know the file's name; [`WeightError::Format`](crate::WeightError::Format) adds it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Occurs when a PyTorch file is unsound, or holds more than tensors.
    #[error(transparent)]
    Pytorch(#[from] PytorchError),
    /// Occurs when the first bytes are those of another format.
    #[error("not a {expected} file: {found}")]
    NotThisFormat {
        /// The expected format.
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
    /// Occurs when a file ends inside its header.
    #[error("the file ends after {} bytes, inside {inside}. {}", grouped(*len), INCOMPLETE)]
    Truncated {
        /// The length of the file in bytes.
        len: u64,
        /// The part of the file that is cut off.
        inside: String,
    },
    /// Occurs when a tensor's data reaches beyond the end of the file.
    #[error(
        "tensor `{}` ends at byte {}, but the file has {} bytes. {}",
        tensor.escape_debug(), grouped(*end), grouped(*len), INCOMPLETE
    )]
    TensorTruncated {
        /// The tensor's name.
        tensor: String,
        /// The byte of the file after the tensor's last one.
        end: u64,
        /// The length of the file in bytes.
        len: u64,
    },
    /// Occurs when bytes follow the last tensor of a safetensors file.
    #[error("{} bytes follow the last tensor. {}", grouped(*extra), DAMAGED)]
    TrailingBytes {
        /// The number of bytes that do not belong to any tensor.
        extra: u64,
    },
    /// Occurs when a count or a length is more than a file of this size can hold.
    #[error("{what} is {claimed}, but at most {most} fit. {}", DAMAGED)]
    TooMany {
        /// What is counted, and where.
        what: String,
        /// The count in the file.
        claimed: u64,
        /// The most that fit in the rest of the file, or in the longest header accepted.
        most: u64,
    },
    /// Occurs when a key or the name of a tensor is not UTF-8.
    #[error("{what} is not UTF-8 text. {}", DAMAGED)]
    NotUtf8 {
        /// Which text.
        what: &'static str,
    },
    /// Occurs when two keys or two tensors have the same name.
    #[error("{what} `{}` appears twice; the file was not written correctly", name.escape_debug())]
    Duplicate {
        /// "key" or "tensor".
        what: &'static str,
        /// The name that appears twice.
        name: String,
    },
    /// Occurs when a metadata value has none of GGUF's thirteen types.
    #[error("key `{}` has value type {found}; GGUF has types 0 to 12", key.escape_debug())]
    ValueType {
        /// The metadata key, such as `general.name`.
        key: String,
        /// The type in the file.
        found: u32,
    },
    /// Occurs when a boolean is stored as something other than 0 or 1.
    #[error("key `{}` holds a boolean of value {found}; expected 0 or 1", key.escape_debug())]
    Bool {
        /// The metadata key of the boolean or of the array that holds it.
        key: String,
        /// The byte in the file.
        found: u8,
    },
    /// Occurs when arrays are nested too deep.
    #[error("key `{}` nests arrays more than {limit} deep", key.escape_debug())]
    Depth {
        /// The metadata key of the outermost array.
        key: String,
        /// The deepest nesting accepted.
        limit: usize,
    },
    /// Occurs when the value of `general.alignment` is unusable.
    #[error("key `general.alignment` is {found}; expected a power of two from 1 to {max}")]
    Alignment {
        /// The value in the file, shortened.
        found: String,
        /// The largest alignment accepted.
        max: u64,
    },
    /// Occurs when a tensor has more dimensions than GGUF allows.
    #[error("tensor `{}` has {found} dimensions; at most {max} are allowed", tensor.escape_debug())]
    Dimensions {
        /// The tensor's name.
        tensor: String,
        /// The number of dimensions in the file.
        found: u32,
        /// The most dimensions allowed.
        max: u32,
    },
    /// Occurs when a dimension is zero or the size of a tensor overflows.
    #[error("tensor `{}` has the impossible shape {shape:?}", tensor.escape_debug())]
    Shape {
        /// The tensor's name.
        tensor: String,
        /// Its shape, outermost dimension first.
        shape: Vec<u64>,
    },
    /// Occurs when the type of a tensor is unknown, so that its size is unknown too.
    #[error(
        "tensor `{}` has the unknown type {found}; supported are {}",
        tensor.escape_debug(), supported_encodings()
    )]
    UnknownType {
        /// The tensor's name.
        tensor: String,
        /// The type's number in the file, and its name if it once had one.
        found: String,
    },
    /// Occurs when the rows of a tensor are not a whole number of its encoding's blocks.
    #[error(
        "tensor `{}` has rows of {cols} weights; {stored} needs a multiple of {block}",
        tensor.escape_debug()
    )]
    Row {
        /// The tensor's name.
        tensor: String,
        /// The tensor's encoding in the file, by its name in ggml.
        stored: String,
        /// The number of weights in a row.
        cols: u64,
        /// The number of weights in a block.
        block: u64,
    },
    /// Occurs when the data of a tensor is not aligned as the file's alignment requires.
    #[error(
        "tensor `{}` starts at byte {offset} of the data, which is not a multiple of {alignment}",
        tensor.escape_debug()
    )]
    Misaligned {
        /// The tensor's name.
        tensor: String,
        /// Its offset in bytes from the start of the data.
        offset: u64,
        /// The file's alignment in bytes.
        alignment: u64,
    },
    /// Occurs when the offset of a tensor plus its size overflows.
    #[error("tensor `{}` starts at the impossible offset {offset}", tensor.escape_debug())]
    Offset {
        /// The tensor's name.
        tensor: String,
        /// Its offset in bytes from the start of the data.
        offset: u64,
    },
    /// Occurs when a required key is absent.
    #[error("key `{}` is missing; expected {expected}", key.escape_debug())]
    MissingKey {
        /// The metadata key that the file lacks.
        key: String,
        /// The required type.
        expected: &'static str,
    },
    /// Occurs when the value of a key has another type than required.
    #[error("key `{}` is {found}; expected {expected}", key.escape_debug())]
    KeyType {
        /// The metadata key, such as `general.architecture`.
        key: String,
        /// The required type.
        expected: &'static str,
        /// The value in the file, shortened.
        found: String,
    },
    /// Occurs when the header of a safetensors file is not valid JSON of the right structure, or its
    /// shapes, sizes and offsets contradict each other.
    #[error("the safetensors header is damaged ({reason}); delete the file and download it again")]
    SafetensorsHeader {
        /// The parser's reason.
        reason: String,
    },
    /// Occurs when bytes are pushed to a reader that has finished or failed.
    #[error("the GGUF reader has already finished; create a new one for each file")]
    Finished,
}
