//! `copy`.

use wisp_shaders::params::CopyParams;
use wisp_tests::kernels::{case, check, exact, noise};

use crate::strided::{DIMS, eight, elements, strides};

/// Transposes, from an offset and to every other element after an offset.
#[test]
fn kernels_match_the_twin() {
    let cases = DIMS.iter().map(|dims| {
        let transposed: Vec<u32> = dims.iter().rev().copied().collect();
        let mut from = strides(&transposed, &[]);
        from.reverse();
        let to: Vec<u32> = strides(dims, &[]).iter().map(|stride| stride * 2).collect();
        let len: u32 = dims.iter().product();
        let params = CopyParams {
            len,
            rank: dims.len() as u32,
            x_offset: 5,
            out_offset: 3,
            dims: eight(dims),
            x_strides: eight(&from),
            out_strides: eight(&to),
        };
        let memory = vec![
            exact(&noise(1, elements(dims, &from) + 5)),
            exact(&noise(2, elements(dims, &to) + 3)),
        ];
        case(params, memory, &[len as usize], len as usize)
    });
    check("copy", &cases.collect::<Vec<_>>());
}
