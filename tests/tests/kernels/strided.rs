//! Shapes and strides, which the tests of ops on tensors of any rank share.

use wisp_tests::kernels::noise;

/// Dimensions of tensors, from one to eight of them.
pub(crate) const DIMS: &[&[u32]] = &[
    &[1],
    &[515],
    &[7, 60],
    &[3, 1, 17],
    &[2, 3, 5, 7],
    &[2, 1, 3, 2, 1, 4, 2, 3],
];

/// An axis of a tensor: the product of the dimensions before it, its size, the product of those after it.
pub(crate) const AXES: &[[u32; 3]] = &[
    [1, 1, 1],
    [3, 515, 1],
    [1, 7, 60],
    [5, 64, 3],
    [2, 1, 9],
    [9, 130, 2],
];

/// Pads dimensions or strides with zeros to the eight that parameters have.
pub(crate) fn eight(values: &[u32]) -> [u32; 8] {
    let mut all = [0; 8];
    all[..values.len()].copy_from_slice(values);
    all
}

/// The strides of a contiguous tensor that is repeated along some dimensions, where the stride is 0.
pub(crate) fn strides(dims: &[u32], repeated: &[usize]) -> Vec<u32> {
    let mut stride = 1;
    let mut strides = vec![0; dims.len()];
    for i in (0..dims.len()).rev() {
        if !repeated.contains(&i) {
            strides[i] = stride;
            stride *= dims[i];
        }
    }
    strides
}

/// Elements that strides reach.
pub(crate) fn elements(dims: &[u32], strides: &[u32]) -> usize {
    let last: u32 = dims.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum();
    last as usize + 1
}

/// Integers from 0 to 7, so that many are equal or 0.
pub(crate) fn integers(seed: u32, len: usize) -> Vec<u32> {
    let all = noise(seed, len).into_iter();
    all.map(|x| ((x + 1.0) * 4.0) as u32).collect()
}
