//! `argmax`.

use wisp_tests::kernels::{check, exact, noise};

use crate::rows::row_cases;

#[test]
fn kernels_match_the_twin() {
    check("argmax", &row_cases(|rows, _| exact(&noise(4, rows))));
}
