//! Reading parts of tensors from one file without waiting.

use std::{borrow::Cow, ops::Range};

use super::big_endian;
use crate::{error::WeightError, files::File, tensor::TensorInfo};

impl File {
    /// Checks that a mapped file still has the bytes that were mapped.
    ///
    /// # Errors
    ///
    /// If the file was cut since.
    pub fn check_length(&self) -> Result<(), WeightError> {
        self.bytes.check_length().map_err(|source| WeightError::Io {
            doing: "read",
            path: self.name.clone(),
            source,
        })
    }

    /// Reads the bytes `range` of a tensor of this file, little-endian.
    ///
    /// # Errors
    ///
    /// If the range is not inside the tensor's data, or the file is remote and the tensor was not read ahead.
    pub fn part(
        &self,
        tensor: &TensorInfo,
        range: &Range<u64>,
    ) -> Result<Cow<'_, [u8]>, WeightError> {
        let blocks = big_endian::whole_blocks(tensor, range)?;
        let stored = self.stored(tensor, &blocks);
        let stored = stored.ok_or_else(|| tensor.out_of_range(range))?;
        let bytes = Cow::Borrowed(stored);
        Ok(big_endian::to_little_endian(
            tensor,
            bytes,
            blocks.start,
            range,
        ))
    }

    /// A tensor's bytes as they stand in the file; `None` if they are not inside the file, which the
    /// parsers rule out, or not in memory.
    fn stored(&self, tensor: &TensorInfo, range: &Range<u64>) -> Option<&[u8]> {
        if let Some(remote) = self.bytes.as_remote() {
            let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
            return remote.prefetched(tensor, range);
        }
        let start = usize::try_from(tensor.offset.checked_add(range.start)?).ok()?;
        let end = usize::try_from(tensor.offset.checked_add(range.end)?).ok()?;
        self.bytes.as_slice().get(start..end)
    }
}
