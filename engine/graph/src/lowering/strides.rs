//! Strides of tensors in memory, for kernels that go over dimensions one by one.

use super::Size;

/// For each dimension of a tensor, the elements from one index to the next; 0 where the tensor repeats.
pub(crate) type Strides = Vec<Size>;

/// Merges neighbouring dimensions that every operand passes in one stride, and drops those of size 1.
/// `strides` has an entry for each operand.
pub(crate) fn merge_dimensions(
    dims: Vec<Size>,
    strides: Vec<Strides>,
) -> (Vec<Size>, Vec<Strides>) {
    let one = Size::fixed(1);
    let mut merged: Vec<Size> = Vec::new();
    let mut merged_strides: Vec<Strides> = vec![Vec::new(); strides.len()];
    for (i, dim) in dims.iter().enumerate().filter(|(_, dim)| **dim != one) {
        // The outer dimension continues this one if its stride is this one's size times stride.
        let joins = !merged.is_empty()
            && strides.iter().zip(&merged_strides).all(|(own, merged)| {
                merged
                    .last()
                    .is_some_and(|outer| *outer == own[i].times(dim))
            });
        if let (true, Some(last)) = (joins, merged.last_mut()) {
            *last = last.times(dim);
        } else {
            merged.push(dim.clone());
        }
        for (own, merged) in strides.iter().zip(&mut merged_strides) {
            if joins {
                merged.pop();
            }
            merged.push(own[i].clone());
        }
    }
    (merged, merged_strides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_dimensions_with_a_common_stride_are_merged() {
        let fixed =
            |sizes: &[u64]| -> Vec<Size> { sizes.iter().map(|size| Size::fixed(*size)).collect() };
        let symbol = Size {
            factor: 1,
            dims: vec![0],
        };
        // [n, 1, 4, 5], the second operand repeated over the 5.
        let dims = [vec![symbol], fixed(&[1, 4, 5])].concat();
        let strides = vec![fixed(&[20, 20, 5, 1]), fixed(&[4, 4, 1, 0])];
        let (dims, strides) = merge_dimensions(dims, strides);
        let merged = Size {
            factor: 4,
            dims: vec![0],
        };
        assert_eq!(dims, [merged, Size::fixed(5)]);
        assert_eq!(strides, [fixed(&[5, 1]), fixed(&[1, 0])]);
    }
}
