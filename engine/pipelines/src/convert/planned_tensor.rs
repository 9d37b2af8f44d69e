//! A tensor that a conversion writes.

use wisp_weights::{Checkpoint, TensorInfo, WeightSource};

/// A tensor that a conversion writes.
pub(super) struct PlannedTensor {
    /// Its name in the new file.
    pub name: String,
    /// The tensor or view of the source that it is made of.
    pub source: String,
    /// Its shape, outermost dimension first.
    pub shape: Vec<u64>,
    /// True if 1 is added to every element.
    pub add_one: bool,
}

/// Plans to write the tensors of a checkpoint for which `keep` is true, as they are.
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
