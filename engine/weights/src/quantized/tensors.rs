//! The tensors from which a quantised matrix is put together.

use super::stored::StoredTensors;
use crate::{error::WeightError, tensor::TensorInfo};

/// Finds a checkpoint's tensors and reads those that describe others.
pub(super) struct Tensors<'a> {
    pub stored: &'a dyn StoredTensors,
    /// The name of the matrix that is being put together.
    pub weight: String,
}

impl Tensors<'_> {
    /// The error of this matrix.
    pub fn error(&self, problem: impl Into<String>) -> WeightError {
        WeightError::Quantized {
            weight: self.weight.clone(),
            problem: problem.into(),
        }
    }

    pub fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.stored.find(name)
    }

    pub fn require(&self, name: &str) -> Result<&TensorInfo, WeightError> {
        let info = self.find(name);
        info.ok_or_else(|| self.error(format!("the checkpoint has no tensor {name}")))
    }

    /// Reads a whole tensor, which must be in memory or read ahead.
    pub fn bytes(&self, info: &TensorInfo) -> Result<Vec<u8>, WeightError> {
        let bytes = self.stored.stored_bytes(info, &(0..info.len))?;
        Ok(bytes.to_vec())
    }

    /// The error of a tensor of another type or shape than expected.
    pub fn unfit(&self, info: &TensorInfo, expected: &str) -> WeightError {
        self.error(format!(
            "{} is {} of shape {:?}, expected {expected}",
            info.name, info.stored, info.shape
        ))
    }
}
