//! Weights that a program has in memory.

use std::{borrow::Cow, collections::HashMap, ops::Range};

use super::{Encoding, StoredEncoding, TensorInfo, WeightError, WeightSource};
use wisp_types::BoxFuture;

/// Named tensors in memory; none at first, which is what a graph without weights needs.
///
/// ```
/// use wisp_weights::{MemoryWeights, WeightSource};
///
/// let mut weights = MemoryWeights::default();
/// weights.insert("bias", &[3], &[0.5, 1.0, -2.0])?;
/// assert_eq!(weights.find("bias").map(|tensor| tensor.len), Some(12));
/// assert!(weights.insert("other", &[2, 2], &[1.0]).is_err());
/// # Ok::<(), wisp_weights::WeightError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryWeights {
    tensors: Vec<TensorInfo>,
    bytes: Vec<Vec<u8>>,
    by_name: HashMap<String, usize>,
}

impl MemoryWeights {
    /// Adds a tensor of floats, outermost dimension first, in place of any of its name.
    ///
    /// # Errors
    ///
    /// If they are not as many as the shape has.
    pub fn insert(&mut self, name: &str, shape: &[u64], values: &[f32]) -> Result<(), WeightError> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.insert_encoded(name, Encoding::F32, shape, bytes.collect())
    }

    /// Adds a tensor as a file would have it, little-endian, in place of any of its name.
    ///
    /// # Errors
    ///
    /// If there are not as many bytes as the shape takes in the encoding.
    pub fn insert_encoded(
        &mut self,
        name: &str,
        encoding: Encoding,
        shape: &[u64],
        bytes: Vec<u8>,
    ) -> Result<(), WeightError> {
        let row = encoding.file_row_bytes(shape.last().copied().unwrap_or(1));
        let outer = shape.get(..shape.len().saturating_sub(1)).unwrap_or(&[]);
        let rows = outer
            .iter()
            .try_fold(1u64, |rows, size| rows.checked_mul(*size));
        let expected = row.zip(rows).and_then(|(row, rows)| row.checked_mul(rows));
        let len = bytes.len() as u64;
        if expected != Some(len) {
            return Err(WeightError::Range {
                tensor: name.into(),
                start: 0,
                end: expected.unwrap_or(u64::MAX),
                len,
            });
        }
        let place = match self.by_name.get(name) {
            Some(place) => *place,
            None => self.tensors.len(),
        };
        let info = TensorInfo {
            name: name.into(),
            stored: StoredEncoding::Supported(encoding),
            shape: shape.to_vec(),
            file: 0,
            offset: 0,
            len,
            big_endian: false,
        };
        if place < self.tensors.len() {
            (self.tensors[place], self.bytes[place]) = (info, bytes);
        } else {
            self.by_name.insert(name.into(), place);
            self.tensors.push(info);
            self.bytes.push(bytes);
        }
        Ok(())
    }
}

impl WeightSource for MemoryWeights {
    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(*self.by_name.get(name)?)
    }

    fn read<'a>(
        &'a self,
        name: &'a str,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Cow<'a, [u8]>, WeightError>> {
        let read = || {
            let place = *self.by_name.get(name)?;
            let bytes = self.bytes.get(place)?;
            let start = usize::try_from(range.start).ok()?;
            bytes.get(start..usize::try_from(range.end).ok()?)
        };
        let bytes = read().map(Cow::Borrowed).ok_or_else(|| WeightError::Range {
            tensor: name.into(),
            start: range.start,
            end: range.end,
            len: self.find(name).map_or(0, |tensor| tensor.len),
        });
        Box::pin(std::future::ready(bytes))
    }
}
