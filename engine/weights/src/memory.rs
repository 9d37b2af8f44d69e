//! Weights that a program has in memory.

use std::{borrow::Cow, collections::HashMap, ops::Range};

use wisp_types::{BoxFuture, Encoding};

use crate::{error::WeightError, source::WeightSource, tensor::TensorInfo};

/// Named tensors in memory. An empty one is the source for graphs without weights.
///
/// ```
/// use wisp_weights::{MemoryWeights, WeightSource};
///
/// let mut weights = MemoryWeights::default();
/// weights.insert("bias", &[3], &[0.5, 1.0, -2.0])?;
/// assert_eq!(weights.find("bias").map(|tensor| tensor.len), Some(12));
/// let error = weights.insert("other", &[2, 2], &[1.0]).unwrap_err();
/// assert_eq!(error.to_string(), "tensor `other` takes 16 bytes, but 4 were given");
/// # Ok::<(), wisp_weights::WeightError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryWeights {
    tensors: Vec<TensorInfo>,
    /// The data of each tensor.
    data: Vec<Vec<u8>>,
    /// The index of each tensor, by name.
    by_name: HashMap<String, usize>,
}

impl MemoryWeights {
    /// Adds a tensor of floats, or replaces the one with this name. The shape is row-major, outermost
    /// dimension first.
    ///
    /// # Errors
    ///
    /// If the number of values is not that of the shape.
    pub fn insert(&mut self, name: &str, shape: &[u64], values: &[f32]) -> Result<(), WeightError> {
        let data = values.iter().flat_map(|value| value.to_le_bytes());
        self.insert_encoded(name, Encoding::F32, shape, data.collect())
    }

    /// Adds a tensor of encoded weights, or replaces the one with this name. `data` has the encoding's
    /// blocks as they stand in a file, little-endian.
    ///
    /// # Errors
    ///
    /// If the shape is not one that the encoding can have, or `data` does not have its length.
    pub fn insert_encoded(
        &mut self,
        name: &str,
        encoding: Encoding,
        shape: &[u64],
        data: Vec<u8>,
    ) -> Result<(), WeightError> {
        let info = TensorInfo::new(name, encoding, shape)?;
        if info.len != data.len() as u64 {
            return Err(WeightError::Length {
                tensor: info.name,
                expected: info.len,
                actual: data.len() as u64,
            });
        }
        match self.by_name.get(name) {
            Some(&index) => (self.tensors[index], self.data[index]) = (info, data),
            None => {
                self.by_name.insert(name.into(), self.tensors.len());
                self.tensors.push(info);
                self.data.push(data);
            }
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
            let missing = || WeightError::MissingTensor { name: name.into() };
            let index = *self.by_name.get(name).ok_or_else(missing)?;
            let start = usize::try_from(range.start).unwrap_or(usize::MAX);
            let end = usize::try_from(range.end).unwrap_or(usize::MAX);
            let bytes = self.data[index].get(start..end);
            let out_of_range = || self.tensors[index].out_of_range(&range);
            Ok(Cow::Borrowed(bytes.ok_or_else(out_of_range)?))
        };
        Box::pin(std::future::ready(read()))
    }
}
