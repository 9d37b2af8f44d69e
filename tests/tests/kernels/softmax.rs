//! `softmax`.

use wisp_tests::kernels::{check, close};

use crate::rows::row_cases;

#[test]
fn kernels_match_the_twin() {
    check("softmax", &row_cases(|rows, cols| close(rows * cols, 2e-6)));
}
