//! Where a tensor stands and how it is stored.

use std::fmt;

use super::{Encoding, WeightError};

/// How a file stores a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredEncoding {
    /// In an encoding that Wisp computes with.
    Supported(Encoding),
    /// In another one, by its name. Such tensors may stand in a checkpoint; using one is an error.
    Unsupported(&'static str),
}

impl fmt::Display for StoredEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoredEncoding::Supported(encoding) => encoding.fmt(f),
            StoredEncoding::Unsupported(name) => f.write_str(name),
        }
    }
}

/// A tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name in the file.
    pub name: String,
    /// How it is stored.
    pub stored: StoredEncoding,
    /// Its shape, row-major, outermost dimension first: `[rows, cols]`.
    pub shape: Vec<u64>,
    /// Which of the checkpoint's files it is in.
    pub file: usize,
    /// Where it starts, in bytes from that file's start.
    pub offset: u64,
    /// Its length in bytes, as its shape and encoding say.
    pub len: u64,
    /// True if its numbers are big-endian in the file. [`super::WeightSource::read`] yields
    /// little-endian ones all the same.
    pub big_endian: bool,
}

impl TensorInfo {
    /// The tensor's encoding.
    ///
    /// # Errors
    ///
    /// If it is none that Wisp computes with.
    pub fn encoding(&self) -> Result<Encoding, WeightError> {
        match self.stored {
            StoredEncoding::Supported(encoding) => Ok(encoding),
            StoredEncoding::Unsupported(name) => Err(WeightError::Unsupported {
                tensor: self.name.clone(),
                stored: name.into(),
            }),
        }
    }
}
