//! Tensors that consist of several of the files'.

use std::{
    ops::Range,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{ggml_nvfp4::GgmlNvfp4, matrix::QuantizedMatrix, stored::StoredTensors};
use crate::{error::WeightError, tensor::TensorInfo};

/// A tensor that is put together from several of the files' when it is read.
#[derive(Debug)]
pub(crate) enum JoinedTensor {
    /// A matrix of a checkpoint in Hugging Face's layout.
    Matrix(Box<QuantizedMatrix>),
    /// A tensor of a GGUF file.
    GgmlNvfp4(Box<GgmlNvfp4>),
}

impl JoinedTensor {
    /// Returns the tensor that the checkpoint shows.
    pub fn info(&self) -> &TensorInfo {
        match self {
            JoinedTensor::Matrix(matrix) => &matrix.info,
            JoinedTensor::GgmlNvfp4(tensor) => &tensor.info,
        }
    }

    /// Returns the column of the file at each position of a row, if that is another one.
    pub fn column_order(&self) -> Option<&Arc<[u32]>> {
        match self {
            JoinedTensor::Matrix(matrix) => matrix.column_order(),
            JoinedTensor::GgmlNvfp4(_) => None,
        }
    }

    /// Reads the bytes `range` of the tensor without waiting, from files that are in memory or mapped.
    pub fn bytes(
        &self,
        source: &dyn StoredTensors,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        let future = pin!(self.read(source, range.clone()));
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(bytes) => bytes,
            // As for other tensors of remote files.
            Poll::Pending => Err(self.info().out_of_range(&range)),
        }
    }

    /// Reads the bytes `range` of the tensor.
    pub async fn read(
        &self,
        source: &dyn StoredTensors,
        range: Range<u64>,
    ) -> Result<Vec<u8>, WeightError> {
        match self {
            JoinedTensor::Matrix(matrix) => matrix.read(source, range).await,
            JoinedTensor::GgmlNvfp4(tensor) => tensor.read(source, range).await,
        }
    }

    /// Releases the tensors once the end has been used.
    pub fn release(&self, source: &dyn StoredTensors, range: &Range<u64>) {
        match self {
            JoinedTensor::Matrix(matrix) => matrix.release(source, range),
            JoinedTensor::GgmlNvfp4(tensor) => tensor.release(source, range),
        }
    }
}
