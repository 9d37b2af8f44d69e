//! `binary_contiguous`.

use wisp_shaders::params::{
    BinaryContiguousParams, CONTIGUOUS_ADD, CONTIGUOUS_MUL, CONTIGUOUS_SCALED_ADD,
};
use wisp_tests::kernels::{Case, case, check, close, exact, noise, test_fold};

#[test]
fn kernels_match_the_twin() {
    let sizes = [
        (1usize, 1usize, CONTIGUOUS_ADD),
        (60, 7, CONTIGUOUS_MUL),
        (515, 515, CONTIGUOUS_ADD),
        (5000, 172, CONTIGUOUS_MUL),
        (777, 60, CONTIGUOUS_SCALED_ADD),
        // More workgroups than one dimension of a dispatch holds.
        (test_fold() as usize * 256 + 300, 515, CONTIGUOUS_ADD),
    ];
    let cases = sizes.map(|(len, b_len, kind)| {
        let params = BinaryContiguousParams {
            len: len as u32,
            b_len: b_len as u32,
            kind,
            scale: 0.7,
        };
        let out = match kind {
            // A compiler may round a scaled sum once rather than twice.
            CONTIGUOUS_SCALED_ADD => close(len, 1e-7),
            _ => exact(&noise(3, len)),
        };
        let memory = vec![exact(&noise(1, len)), exact(&noise(2, b_len)), out];
        Case {
            fold: test_fold(),
            ..case(params, memory, &[len], len)
        }
    });
    check("binary_contiguous", &cases);
}
