//! `scatter`.

use wisp_shaders::params::ScatterParams;
use wisp_tests::guarded::{Hostile, check_hostile, spoiled};
use wisp_tests::kernels::{Case, case, check, exact, noise};

use crate::strided::AXES;

/// `updates` has the updates of each index: `[index_count, outer, inner]`.
fn scatter(
    &[outer, axis_size, inner]: &[u32; 3],
    indices: &[u32],
    updates: &[Vec<f32>],
    accumulate: u32,
) -> Case {
    let params = ScatterParams {
        outer,
        axis_size,
        inner,
        index_count: indices.len() as u32,
        accumulate,
    };
    let len = (outer * axis_size * inner) as usize;
    let inner = inner as usize;
    let slices = (0..outer as usize).flat_map(|o| {
        let of_index = move |update: &Vec<f32>| update[o * inner..][..inner].to_vec();
        updates.iter().flat_map(of_index)
    });
    let memory = vec![
        exact(&noise(1, len)),
        exact(indices),
        exact(&slices.collect::<Vec<_>>()),
        exact(&noise(3, len)),
    ];
    case(params, memory, &[len], len)
}

fn updates(&[outer, _, inner]: &[u32; 3], count: usize) -> Vec<Vec<f32>> {
    let len = (outer * inner) as usize;
    let all = noise(2, len * count);
    all.chunks(len).map(<[f32]>::to_vec).collect()
}

#[test]
fn kernels_match_the_twin() {
    let cases = AXES.iter().flat_map(|axis| {
        // Some are equal, and one is past the axis.
        let mut indices: Vec<u32> = (0..9).map(|i| i * 5 % 7 % axis[1]).collect();
        indices[4] = axis[1];
        [0, 1].map(|accumulate| scatter(axis, &indices, &updates(axis, 9), accumulate))
    });
    check("scatter", &cases.collect::<Vec<_>>());
}

#[test]
fn invalid_indices_are_ignored() {
    let cases = AXES.iter().flat_map(|axis| {
        let valid: Vec<u32> = (0..17).map(|i| i * 5 % 7 % axis[1]).collect();
        let indices = spoiled(&valid, axis[1]);
        let all = updates(axis, valid.len());
        // The reference has the valid ones only, which are the even ones.
        let even: Vec<u32> = valid.iter().step_by(2).copied().collect();
        let of_even: Vec<Vec<f32>> = all.iter().step_by(2).cloned().collect();
        [0, 1].map(|accumulate| {
            let hostile = scatter(axis, &indices, &all, accumulate);
            Hostile::accepted(hostile, scatter(axis, &even, &of_even, accumulate))
        })
    });
    check_hostile("scatter", &cases.collect::<Vec<_>>());
}
