//! `elementwise`, `map` and `gated`.

use wisp_shaders::params::{ElementwiseParams, GatedParams, MapParams};
use wisp_tests::kernels::{case, check, close, exact, noise};

#[test]
fn elementwise() {
    let sizes = [
        (1usize, 1usize, 0),
        (60, 7, 1),
        (515, 515, 0),
        (5000, 172, 1),
        (777, 60, 2),
        // More workgroups than one dimension of a dispatch holds.
        (65535 * 256 + 300, 515, 0),
    ];
    let cases = sizes.map(|(len, b_len, op)| {
        let params = ElementwiseParams {
            len: len as u32,
            b_len: b_len as u32,
            op,
            scale: 0.7,
        };
        let out = match op {
            // A compiler may round a scaled sum once rather than twice.
            2 => close(len, 1e-7),
            _ => exact(&noise(3, len)),
        };
        let memory = vec![exact(&noise(1, len)), exact(&noise(2, b_len)), out];
        case(params, memory, &[len], len)
    });
    check("elementwise", &cases);
}

#[test]
fn map() {
    let sizes = [
        (1usize, 0),
        (515, 1),
        (257, 2),
        (1030, 3),
        (5000, 8),
        (172, 9),
        (65535 * 256 + 300, 8),
    ];
    let cases = sizes.map(|(len, kind)| {
        let params = MapParams {
            len: len as u32,
            kind,
            factor: 0.37,
        };
        let x: Vec<f32> = noise(1, len).iter().map(|x| x * 12.0).collect();
        case(params, vec![exact(&x), close(len, 2e-6)], &[len], len)
    });
    check("map", &cases);
}

#[test]
fn gated() {
    let sizes = [
        (1usize, 7usize, 0),
        (3, 172, 1),
        (5, 60, 2),
        (9, 515, 0),
        (2, 33, 3),
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
