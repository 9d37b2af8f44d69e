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
    /// How its values change.
    pub change: ValueChange,
}

/// How the values of a tensor change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ValueChange {
    /// They do not.
    None,
    /// 1 is added to each.
    AddOne,
    /// Each becomes its negative exponential.
    NegativeExp,
    /// The rows are multiplied by factors: for each the end of the rows, from the last end on. Rows of a vector are its
    /// elements.
    Scale(Vec<(u64, f32)>),
    /// The columns are `[a, b, size]` and become `[b, a, size]`.
    SwapColumns([usize; 3]),
}

impl ValueChange {
    /// Changes some rows of `cols` values, from row `first` of the tensor on.
    pub fn apply(&self, values: &mut [f32], first: usize, cols: usize, is_vector: bool) {
        match self {
            ValueChange::None => {}
            ValueChange::AddOne => values.iter_mut().for_each(|value| *value += 1.0),
            ValueChange::NegativeExp => values.iter_mut().for_each(|value| *value = -value.exp()),
            ValueChange::Scale(factors) => {
                for (i, value) in values.iter_mut().enumerate() {
                    let row = if is_vector { i } else { first + i / cols };
                    let part = factors.iter().find(|(end, _)| (row as u64) < *end);
                    *value *= part.map_or(1.0, |(_, factor)| *factor);
                }
            }
            ValueChange::SwapColumns([a, b, size]) => {
                for row in values.chunks_exact_mut(cols) {
                    let before = row.to_vec();
                    for (i, value) in row.iter_mut().enumerate() {
                        let (block, at) = (i / size, i % size);
                        *value = before[(block % a * b + block / a) * size + at];
                    }
                }
            }
        }
    }
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
            change: ValueChange::None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_rows_change_by_their_place() {
        let mut row = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        ValueChange::SwapColumns([3, 2, 1]).apply(&mut row, 0, 6, false);
        assert_eq!(row, [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        let scale = ValueChange::Scale(vec![(2, 10.0), (3, 100.0)]);
        let mut rows = [1.0; 6];
        scale.apply(&mut rows, 1, 2, false);
        assert_eq!(rows, [10.0, 10.0, 100.0, 100.0, 1.0, 1.0]);
        let mut vector = [1.0; 4];
        scale.apply(&mut vector, 0, 4, true);
        assert_eq!(vector, [10.0, 10.0, 100.0, 1.0]);
    }
}
