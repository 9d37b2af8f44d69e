//! `reduce`.

use wisp_shaders::params::{REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN, REDUCE_SUM, ReduceParams};
use wisp_tests::kernels::{Case, case, check, close, exact, noise};

use crate::strided::AXES;

fn reduce(&[outer, axis_size, inner]: &[u32; 3], kind: u32) -> Case {
    let params = ReduceParams {
        outer,
        axis_size,
        inner,
        kind,
    };
    let (len, results) = (
        (outer * axis_size * inner) as usize,
        (outer * inner) as usize,
    );
    let x: Vec<f32> = noise(kind, len).iter().map(|x| x + 0.3).collect();
    let out = match kind {
        REDUCE_SUM | REDUCE_MEAN => close(results, 2e-6),
        _ => exact(&noise(5, results)),
    };
    case(params, vec![exact(&x), out], &[results], results)
}

#[test]
fn kernels_match_the_twin() {
    let kinds = [REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN];
    let of = |kind| AXES.iter().map(move |axis| reduce(axis, kind));
    check(
        "reduce",
        &kinds.into_iter().flat_map(of).collect::<Vec<_>>(),
    );
}
