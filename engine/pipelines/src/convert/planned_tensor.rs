//! A tensor that a conversion writes.

use wisp_weights::{Checkpoint, TensorInfo, WeightSource};

/// A tensor that a conversion writes.
pub(super) struct PlannedTensor {
    /// The tensor's name in the new file.
    pub name: String,
    /// The name of the source tensor or view that the tensor's data comes from.
    pub source: String,
    /// The shape in the new file, outermost dimension first.
    pub shape: Vec<u64>,
    /// True if 1 is added to every element.
    pub add_one: bool,
}

/// Plans to write those tensors of a checkpoint for which `keep` returns true, unchanged.
pub(super) fn unchanged(
    checkpoint: &Checkpoint,
    mut keep: impl FnMut(&TensorInfo) -> bool,
) -> Vec<PlannedTensor> {
    let tensors = checkpoint.tensors().iter();
    tensors
        .filter(|tensor| keep(tensor))
        .map(|tensor| PlannedTensor {
            name: tensor.name.clone(),
            source: tensor.name.clone(),
            shape: tensor.shape.clone(),
            add_one: false,
        })
        .collect()
}
