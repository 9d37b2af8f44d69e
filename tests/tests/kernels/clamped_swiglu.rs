//! `clamped_swiglu`.

use wisp_shaders::params::ClampedSwigluParams;
use wisp_tests::kernels::{case, check, close, exact, noise};

#[test]
fn kernels_match_the_twin() {
    let cases = [(1usize, 7.0), (515, 7.0), (1030, 0.5)].map(|(len, limit)| {
        let params = ClampedSwigluParams {
            len: len as u32,
            alpha: 1.702,
            limit,
        };
        let wide = |seed| {
            noise(seed, len)
                .iter()
                .map(|x| 20.0 * x)
                .collect::<Vec<_>>()
        };
        let memory = vec![exact(&wide(1)), exact(&wide(2)), close(len, 2e-6)];
        case(params, memory, &[len], len)
    });
    check("clamped_swiglu", &cases);
}
