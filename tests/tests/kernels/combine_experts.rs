//! `combine_experts`.

use wisp_shaders::params::CombineExpertsParams;
use wisp_tests::kernels::{case, check, close, exact, noise};

#[test]
fn kernels_match_the_twin() {
    let sizes = [[1usize, 1, 7], [3, 2, 60], [5, 8, 515], [2, 3, 1]];
    let cases = sizes.map(|[tokens, experts_per_token, cols]| {
        let params = CombineExpertsParams {
            tokens: tokens as u32,
            experts_per_token: experts_per_token as u32,
            cols: cols as u32,
        };
        let memory = vec![
            exact(&noise(1, tokens * experts_per_token * cols)),
            exact(&noise(2, tokens * experts_per_token)),
            close(tokens * cols, 1e-6),
        ];
        case(params, memory, &[tokens * cols], cols)
    });
    check("combine_experts", &cases);
}
