//! `gather`.

use wisp_shaders::params::GatherParams;
use wisp_tests::guarded::{Hostile, check_hostile, spoiled};
use wisp_tests::kernels::{Case, case, check, exact, noise};

use crate::strided::AXES;

fn gather(&[outer, axis_size, inner]: &[u32; 3], indices: &[u32]) -> Case {
    let params = GatherParams {
        outer,
        axis_size,
        inner,
        index_count: indices.len() as u32,
    };
    let len = outer as usize * indices.len() * inner as usize;
    let memory = vec![
        exact(&noise(1, (outer * axis_size * inner) as usize)),
        exact(indices),
        exact(&noise(2, len)),
    ];
    case(params, memory, &[len], len)
}

#[test]
fn kernels_match_the_twin() {
    let cases = AXES.iter().map(|axis| {
        let indices: Vec<u32> = (0..7).map(|i| i * 3 % axis[1]).collect();
        gather(axis, &indices)
    });
    check("gather", &cases.collect::<Vec<_>>());
}

#[test]
fn invalid_indices_select_the_last_slice() {
    let cases = AXES.iter().map(|axis| {
        let size = axis[1];
        let valid: Vec<u32> = (0..17).map(|i| i * 3 % size).collect();
        let indices = spoiled(&valid, size);
        let clamped: Vec<u32> = indices.iter().map(|i| (*i).min(size - 1)).collect();
        Hostile::refused(gather(axis, &indices), gather(axis, &clamped))
    });
    check_hostile("gather", &cases.collect::<Vec<_>>());
}
