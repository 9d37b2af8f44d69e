//! The interface through which sessions read weights.

use std::{borrow::Cow, ops::Range, sync::Arc};

use wisp_types::BoxFuture;

use crate::{error::WeightError, tensor::TensorInfo};

/// A source of named tensors: files, memory, a network, or a program that computes them.
pub trait WeightSource: Send + Sync {
    /// Returns the descriptions of all tensors.
    fn tensors(&self) -> &[TensorInfo];

    /// Returns the description of the tensor with this name.
    fn find(&self, name: &str) -> Option<&TensorInfo>;

    /// Reads the bytes `range` of a tensor's data: its blocks as its encoding lays them out in a file,
    /// little-endian.
    ///
    /// # Errors
    ///
    /// If the source has no such tensor, the range is not inside its data, or reading fails.
    fn read<'a>(
        &'a self,
        name: &'a str,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Cow<'a, [u8]>, WeightError>>;

    /// Returns the order of a matrix's columns, where its data has another than the model: the column of the model at
    /// each position of a row (GPTQ's act-order). `None` if it is the model's.
    fn column_order(&self, _name: &str) -> Option<Arc<[u32]>> {
        None
    }

    /// Tells the source that the bytes `range` of a tensor were used and will hardly be needed again, so
    /// that it may free the memory that they take. They can still be read.
    fn release(&self, _name: &str, _range: Range<u64>) {}
}

/// Returns the description of a source's tensor.
///
/// # Errors
///
/// If the source does not have it.
pub(crate) fn require<'s>(
    source: &'s dyn WeightSource,
    name: &str,
) -> Result<&'s TensorInfo, WeightError> {
    source
        .find(name)
        .ok_or_else(|| WeightError::MissingTensor { name: name.into() })
}
