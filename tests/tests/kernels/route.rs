//! `route`.

use wisp_shaders::params::RouteParams;
use wisp_tests::kernels::{Case, case, check, close, exact, noise};

/// Tokens, experts, and experts per token.
const SIZES: &[[usize; 3]] = &[
    [1, 1, 1],
    [3, 5, 2],
    [2, 6, 6],
    [7, 64, 8],
    [5, 131, 10],
    [17, 8, 2],
];

fn route([tokens, experts, experts_per_token]: [usize; 3], is_coarse: bool) -> Case {
    let params = RouteParams {
        tokens: tokens as u32,
        experts: experts as u32,
        experts_per_token: experts_per_token as u32,
        normalise: (tokens % 2) as u32,
    };
    let mut logits: Vec<f32> = noise(1, tokens * experts).iter().map(|x| x * 4.0).collect();
    if is_coarse {
        logits.iter_mut().for_each(|x| *x = x.round());
    }
    let memory = vec![
        exact(&logits),
        exact(&vec![99u32; tokens * experts_per_token]),
        close(tokens * experts_per_token, 2e-6),
    ];
    case(params, memory, &[tokens], experts)
}

#[test]
fn kernels_match_the_twin() {
    // Coarse logits have equals, of which the experts with the lowest ids must be selected.
    let all = |is_coarse| SIZES.iter().map(move |sizes| route(*sizes, is_coarse));
    check("route", &all(false).chain(all(true)).collect::<Vec<_>>());
}
