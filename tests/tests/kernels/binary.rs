//! `binary`.

use wisp_shaders::params::{BINARY_AND, BINARY_DIV, BINARY_OR, BINARY_POW, BinaryParams};
use wisp_tests::kernels::{Case, case, check, close, exact, noise};

use crate::strided::{DIMS, eight, elements, integers, strides};

fn binary(dims: &[u32], kind: u32, is_u32: bool, repeated: [&[usize]; 2]) -> Case {
    let [a, b] = repeated.map(|repeated| strides(dims, repeated));
    let len: u32 = dims.iter().product();
    let params = BinaryParams {
        len,
        rank: dims.len() as u32,
        kind,
        is_u32: is_u32.into(),
        dims: eight(dims),
        a_strides: eight(&a),
        b_strides: eight(&b),
    };
    let values = |seed, strides: &[u32]| {
        let len = elements(dims, strides);
        if is_u32 {
            return exact(&integers(seed, len));
        }
        // Coarse, so that some are equal, and never 0.
        let coarse = noise(seed, len).into_iter();
        let coarse = coarse.map(|x| (x * 8.0).round() / 4.0 + 0.1);
        exact(&coarse.collect::<Vec<_>>())
    };
    let out = match (is_u32, kind) {
        (false, BINARY_DIV | BINARY_POW) => close(len as usize, 2e-6),
        _ => exact(&noise(7, len as usize)),
    };
    let memory = vec![values(kind + 1, &a), values(kind + 40, &b), out];
    case(params, memory, &[len as usize], len as usize)
}

#[test]
fn kernels_match_the_twin() {
    let mut cases = Vec::new();
    for (i, dims) in DIMS.iter().enumerate() {
        let [first, last] = [0, dims.len() - 1];
        for kind in 0..=BINARY_OR {
            for is_u32 in [false, true] {
                let exists = match is_u32 {
                    true => kind != BINARY_POW,
                    false => kind < BINARY_AND,
                };
                if !exists {
                    continue;
                }
                cases.push(binary(dims, kind, is_u32, [&[], &[]]));
                if kind as usize % DIMS.len() == i {
                    cases.push(binary(dims, kind, is_u32, [&[first], &[last]]));
                }
            }
        }
    }
    check("binary", &cases);
}
