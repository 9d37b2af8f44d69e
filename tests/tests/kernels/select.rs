//! `select`.

use wisp_shaders::params::SelectParams;
use wisp_tests::kernels::{case, check, exact, noise};

use crate::strided::{DIMS, eight, elements, integers, strides};

#[test]
fn kernels_match_the_twin() {
    let cases = DIMS.iter().map(|dims| {
        let last = dims.len() - 1;
        let [condition, a, b] = [&[last][..], &[], &[0]].map(|repeated| strides(dims, repeated));
        let len: u32 = dims.iter().product();
        let params = SelectParams {
            len,
            rank: dims.len() as u32,
            dims: eight(dims),
            condition_strides: eight(&condition),
            a_strides: eight(&a),
            b_strides: eight(&b),
            ..Default::default()
        };
        let conditions = integers(1, elements(dims, &condition)).into_iter();
        let memory = vec![
            exact(&conditions.map(|x| x % 2).collect::<Vec<_>>()),
            exact(&noise(2, elements(dims, &a))),
            exact(&noise(3, elements(dims, &b))),
            exact(&noise(4, len as usize)),
        ];
        case(params, memory, &[len as usize], len as usize)
    });
    check("select", &cases.collect::<Vec<_>>());
}
