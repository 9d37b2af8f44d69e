//! Access to the tensors of files.

use std::{borrow::Cow, ops::Range};

use wisp_types::BoxFuture;

use crate::{error::WeightError, tensor::TensorInfo};

/// The tensors of files as they are stored there.
pub(crate) trait StoredTensors: Sync {
    /// Returns the descriptions of all tensors.
    fn tensors(&self) -> &[TensorInfo];

    /// Returns the description of a tensor.
    fn find(&self, name: &str) -> Option<&TensorInfo>;

    /// Reads the bytes `range` of a tensor without waiting.
    fn stored_bytes(
        &self,
        tensor: &TensorInfo,
        range: &Range<u64>,
    ) -> Result<Cow<'_, [u8]>, WeightError>;

    /// Reads the bytes `range` of a tensor.
    fn read_stored<'a>(
        &'a self,
        tensor: &'a TensorInfo,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Cow<'a, [u8]>, WeightError>>;

    /// Tells a file that the bytes `range` of a tensor were used.
    fn release_stored(&self, tensor: &TensorInfo, range: Range<u64>);
}
