//! Rows of coarse numbers, which the tests of `softmax` and `argmax` share.

use wisp_shaders::params::RowsParams;
use wisp_tests::kernels::{Case, Memory, case, exact, noise};

/// Rows and columns.
const SIZES: &[[usize; 2]] = &[
    [1, 7],
    [2, 60],
    [3, 172],
    [5, 515],
    [9, 768],
    [17, 4],
    [65, 1],
];

/// Cases of an op on rows; `out` is its output for a number of rows and columns.
pub(crate) fn row_cases(out: impl Fn(usize, usize) -> Memory) -> Vec<Case> {
    let of = |&[rows, cols]: &[usize; 2]| {
        let params = RowsParams {
            rows: rows as u32,
            cols: cols as u32,
        };
        let x: Vec<f32> = noise(1, rows * cols)
            .iter()
            .map(|x| (x * 20.0).round())
            .collect();
        case(params, vec![exact(&x), out(rows, cols)], &[rows], cols)
    };
    SIZES.iter().map(of).collect()
}
