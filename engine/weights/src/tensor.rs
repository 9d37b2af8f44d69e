//! The description of a tensor: its name, shape, encoding and location.

use std::fmt;

use wisp_types::Encoding;

use crate::error::WeightError;

/// How a file stores a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredEncoding {
    /// In an encoding that Wisp computes with.
    Supported(Encoding),
    /// In another encoding, given by its name. A checkpoint may have such tensors, but using one is an
    /// error.
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

/// The description of a tensor of a [`WeightSource`](crate::WeightSource).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// The name, unique in its source.
    pub name: String,
    /// How the tensor is stored.
    pub stored: StoredEncoding,
    /// The shape, row-major, outermost dimension first: `[rows, cols]`.
    pub shape: Vec<u64>,
    /// The index of the file that has the tensor, among those of its checkpoint.
    pub file: usize,
    /// The offset of the tensor's data in that file, in bytes.
    pub offset: u64,
    /// The length of the tensor's data in bytes, which follows from its shape and encoding.
    pub len: u64,
    /// True if the numbers in the file are big-endian. [`WeightSource::read`](crate::WeightSource::read)
    /// returns little-endian ones nevertheless.
    pub big_endian: bool,
}

impl TensorInfo {
    /// Describes a little-endian tensor that is at the start of its source's only file, as sources do that
    /// have no files.
    ///
    /// # Errors
    ///
    /// If the rows are not a whole number of the encoding's blocks, or the size overflows.
    pub fn new(
        name: impl Into<String>,
        encoding: Encoding,
        shape: &[u64],
    ) -> Result<TensorInfo, WeightError> {
        let name = name.into();
        let (cols, outer) = match shape.split_last() {
            Some((cols, outer)) => (*cols, outer),
            None => (1, shape),
        };
        let row = encoding.file_row_bytes(cols);
        let len = row.and_then(|row| {
            outer
                .iter()
                .try_fold(row, |len, size| len.checked_mul(*size))
        });
        let Some(len) = len else {
            return Err(WeightError::Shape {
                tensor: name,
                shape: shape.to_vec(),
                encoding,
            });
        };
        Ok(TensorInfo {
            name,
            stored: StoredEncoding::Supported(encoding),
            shape: shape.to_vec(),
            file: 0,
            offset: 0,
            len,
            big_endian: false,
        })
    }

    /// Returns the encoding.
    ///
    /// # Errors
    ///
    /// If Wisp does not compute with the tensor's encoding.
    pub fn encoding(&self) -> Result<Encoding, WeightError> {
        match self.stored {
            StoredEncoding::Supported(encoding) => Ok(encoding),
            StoredEncoding::Unsupported(name) => Err(WeightError::Unsupported {
                tensor: self.name.clone(),
                stored: name.into(),
            }),
        }
    }

    /// The error for a range of bytes that is not inside the tensor.
    pub(crate) fn out_of_range(&self, range: &std::ops::Range<u64>) -> WeightError {
        WeightError::Range {
            tensor: self.name.clone(),
            start: range.start,
            end: range.end,
            len: self.len,
        }
    }
}

/// The number of elements of a shape; `u64::MAX` if it overflows.
pub(crate) fn saturating_elements(shape: &[u64]) -> u64 {
    let sizes = shape.iter();
    sizes.fold(1, |product, size| product.saturating_mul(*size))
}
