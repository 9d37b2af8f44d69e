//! `gated`.

use wisp_shaders::params::{
    ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_RELU, ACTIVATION_SILU, GatedParams,
};
use wisp_tests::kernels::{case, check, close, exact, noise};

#[test]
fn kernels_match_the_twin() {
    let sizes = [
        (1usize, 7usize, ACTIVATION_SILU),
        (3, 172, ACTIVATION_GELU),
        (5, 60, ACTIVATION_GELU_TANH),
        (9, 515, ACTIVATION_SILU),
        (2, 33, ACTIVATION_RELU),
    ];
    let cases = sizes.map(|(tokens, cols, activation)| {
        let params = GatedParams {
            tokens: tokens as u32,
            cols: cols as u32,
            gate_stride: 2 * cols as u32 + 1,
            gate_offset: 1,
            up_stride: cols as u32 + 3,
            up_offset: 2,
            activation,
        };
        let gate: Vec<f32> = noise(1, tokens * (2 * cols + 1))
            .iter()
            .map(|x| x * 12.0)
            .collect();
        let memory = vec![
            exact(&gate),
            exact(&noise(2, tokens * (cols + 3))),
            close(tokens * cols, 2e-6),
        ];
        case(params, memory, &[tokens * cols], cols)
    });
    check("gated", &cases);
}
