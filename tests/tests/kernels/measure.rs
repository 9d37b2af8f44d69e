//! What the tests of `measure_read` and `measure_fma` share.
//!
//! The kernels measure time. Their twins do as much work, but other work: each of the host's sums is the
//! whole sum, and its chains start elsewhere. So their outputs are not compared; the tests check that the
//! kernels did the work.

use wisp_shaders::params::MeasureParams;
use wisp_tests::kernels::{Case, case, exact};

pub(crate) fn measure(len: usize, invocations: usize, x: &[f32]) -> Case {
    let params = MeasureParams {
        len: len as u32,
        invocations: invocations as u32,
    };
    // Elements that are not written stay NaN.
    let out = vec![f32::NAN; invocations];
    case(params, vec![exact(x), exact(&out)], &[invocations], 1)
}

/// The first `len` floats of an output.
pub(crate) fn floats(bytes: &[u8], len: usize) -> Vec<f64> {
    let floats = bytes.chunks_exact(4).take(len);
    floats
        .map(|b| bytemuck::pod_read_unaligned::<f32>(b).into())
        .collect()
}
