//! Scales in single precision of whole matrices, beside those of their groups.

use super::{scales::ScaleType, tensors::Tensors};
use crate::{error::WeightError, tensor::TensorInfo};

/// The scale of a matrix, or those of the matrices of a stack.
#[derive(Clone, Debug)]
pub(super) struct TensorScales {
    pub tensor: TensorInfo,
    dtype: ScaleType,
    /// True if the weights are divided by it.
    divides: bool,
}

impl TensorScales {
    /// Takes the tensor of a scale of one matrix, or of one for each of `matrices`.
    pub fn new(
        tensors: &Tensors<'_>,
        tensor: &TensorInfo,
        matrices: u64,
        divides: bool,
    ) -> Result<TensorScales, WeightError> {
        let fits = matches!(tensor.shape.as_slice(), [] | [1]) || tensor.shape == [matrices];
        match ScaleType::of(tensor) {
            Some(dtype) if fits => Ok(TensorScales {
                tensor: tensor.clone(),
                dtype,
                divides,
            }),
            _ if matrices > 1 => {
                Err(tensors.unfit(tensor, &format!("one float, or {matrices} of matrices")))
            }
            _ => Err(tensors.unfit(tensor, "one float")),
        }
    }

    /// Returns the factor of a matrix, or what is wrong with it.
    pub fn get(&self, bytes: &[u8], matrix: u64) -> Result<f32, String> {
        let index = if self.tensor.shape.len() == 1 && self.tensor.shape[0] > 1 {
            matrix
        } else {
            0
        };
        let scale = self.dtype.get(bytes, index);
        let factor = if self.divides { 1.0 / scale } else { scale };
        match factor.is_finite() && scale.is_finite() {
            true => Ok(factor),
            false => Err(format!("{} has the scale {scale}", self.tensor.name)),
        }
    }
}
