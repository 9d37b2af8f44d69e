//! The header of a GGUF file.

use std::collections::BTreeMap;

use super::{convert::FromValue, value::Value};
use crate::{error::FormatError, tensor::TensorInfo};

/// The header of a GGUF file: its metadata and the descriptions of its tensors.
#[derive(Clone, Debug)]
pub struct Gguf {
    /// The version of the format, 1 to 3.
    pub version: u32,
    /// True if the numbers in the file, including the weights, are big-endian.
    pub big_endian: bool,
    /// The metadata values by key.
    pub metadata: BTreeMap<String, Value>,
    /// The tensors, in the order of the file.
    pub tensors: Vec<TensorInfo>,
    /// The alignment of tensors in bytes, relative to `data_offset`.
    pub alignment: u64,
    /// The offset of the tensors' data in the file, in bytes.
    pub data_offset: u64,
}

impl Gguf {
    /// Returns the value of an optional key, converted where that loses nothing: `get::<u64>("…")`.
    ///
    /// # Errors
    ///
    /// If the file has the key, but its value does not convert.
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

    /// Returns the value of a required key, converted as [`Self::get`] does.
    ///
    /// # Errors
    ///
    /// If the file does not have the key, or its value does not convert.
    pub fn require<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T, FormatError> {
        self.get(key)?.ok_or_else(|| FormatError::MissingKey {
            key: key.into(),
            expected: T::EXPECTED,
        })
    }
}
