//! GGUF, ggml's checkpoint format: one header reader for files, memory and streams.
//!
//! Follows the specification in ggml's `docs/gguf.md`, versions 1 to 3, in both byte orders. The
//! byte order is the one in which the version is a small number. Keys and tensor names must be
//! UTF-8. String *values* need not be, because vocabularies hold what they hold: bytes that are
//! not UTF-8 become U+FFFD.

mod bytes;
mod ggml_type;
mod read_tensors;
mod read_values;
mod reader;
mod value;
mod writer;

use std::collections::BTreeMap;

pub use reader::{GgufReader, Limits, Progress};
pub use value::{Array, FromValue, Strings, Value};
pub use writer::GgufHeaderBuilder;

use super::error::FormatError;
use super::tensor::TensorInfo;

/// The header of a GGUF file.
#[derive(Clone, Debug)]
pub struct Gguf {
    /// The format's version, 1 to 3.
    pub version: u32,
    /// True if the numbers in the file, its weights too, are big-endian.
    pub big_endian: bool,
    /// The values by key.
    pub metadata: BTreeMap<String, Value>,
    /// The tensors in the file's order.
    pub tensors: Vec<TensorInfo>,
    /// Tensors start at multiples of this many bytes after `data_offset`.
    pub alignment: u64,
    /// Where the tensors' data starts, in bytes from the file's start.
    pub data_offset: u64,
}

impl Gguf {
    /// Reads the header of a file that is whole in memory, and checks that its tensors are in it.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the file.
    pub fn parse(file: &[u8]) -> Result<Gguf, FormatError> {
        let mut reader = GgufReader::new(Limits {
            file_len: Some(file.len() as u64),
            ..Limits::default()
        });
        match reader.push(file)? {
            Progress::Done(gguf) => Ok(*gguf),
            Progress::Need(_) => Err(reader.truncated()),
        }
    }

    /// The value of an optional key, converted where that loses nothing: `get::<u64>("…")`.
    ///
    /// # Errors
    ///
    /// If the key is there with a value that does not convert.
    pub fn get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>, FormatError> {
        let Some(value) = self.metadata.get(key) else {
            return Ok(None);
        };
        match T::from_value(value) {
            Some(value) => Ok(Some(value)),
            None => Err(FormatError::KeyType {
                key: key.into(),
                expected: T::EXPECTED,
                found: value.summary().into_owned(),
            }),
        }
    }

    /// The value of a key that must be there.
    ///
    /// # Errors
    ///
    /// If the key is missing or its value does not convert.
    pub fn require<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T, FormatError> {
        self.get(key)?.ok_or_else(|| FormatError::MissingKey {
            key: key.into(),
            expected: T::EXPECTED,
        })
    }
}
