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

/// Functions of one number, where they are defined; casts and truths exactly.
#[test]
fn functions() {
    let params = |len, kind| MapParams {
        len,
        kind,
        factor: 1.0,
    };
    let near = |kind: u32| {
        let x = noise(kind, 777).into_iter().map(|x| match kind {
            19..=21 => x.abs() * 9.0 + 0.01,
            30 => x + x.signum(),
            18 => x * 20.0,
            _ => x * 3.0,
        });
        let x: Vec<f32> = x.collect();
        case(
            params(777, kind),
            vec![exact(&x), close(777, 2e-6)],
            &[777],
            777,
        )
    };
    let mut cases: Vec<_> = (16..=30).map(near).collect();
    let out = exact(&noise(9, 60));
    let numbers: Vec<f32> = noise(3, 60).iter().map(|x| x * 300.0).collect();
    let odd = [0.0, -0.0, 5e9, -5e9, 4_294_967_040.0, 0.99, 2.5, -2.5];
    let numbers = [&numbers[8..], &odd].concat();
    cases.push(case(
        params(60, 31),
        vec![exact(&numbers), out.clone()],
        &[60],
        60,
    ));
    let whole: Vec<u32> = (0..60).map(|i| i * i * 40_503 % 16_777_216).collect();
    cases.push(case(
        params(60, 32),
        vec![exact(&whole), out.clone()],
        &[60],
        60,
    ));
    let truths: Vec<u32> = (0..60).map(|i| i % 3).collect();
    cases.push(case(params(60, 33), vec![exact(&truths), out], &[60], 60));
    check("map", &cases);
}

/// Sine and cosine of angles up to the greatest float, and where a reduction goes wrong first: at
/// multiples of half pi, and where it begins.
#[test]
fn angles() {
    let of = |kind: u32, angles: Vec<f32>| {
        let len = angles.len();
        let params = MapParams {
            len: len as u32,
            kind,
            factor: 1.0,
        };
        case(params, vec![exact(&angles), close(len, 2e-7)], &[len], len)
    };
    let quarters = (0..300).map(|n| n as f32 * std::f32::consts::FRAC_PI_2);
    let edges = quarters.flat_map(|x| [x.next_down(), x, -x.next_up()]);
    let eighth = std::f32::consts::FRAC_PI_4;
    let small = [
        0.0,
        -0.0,
        1e-30,
        eighth,
        -eighth.next_up(),
        eighth.next_down(),
    ];
    let edges: Vec<f32> = edges.chain(small).collect();
    let scaled = |scale: f32| {
        noise(5, 1003)
            .iter()
            .map(|x| x * scale)
            .collect::<Vec<f32>>()
    };
    let every_exponent =
        (0..254u32 << 3).map(|i| f32::from_bits((i << 20) | ((i * 40_503) & 0xf_ffff)));
    let every_exponent: Vec<f32> = every_exponent.collect();
    let angles = [
        edges,
        scaled(10.0),
        scaled(1e3),
        scaled(1e5),
        scaled(1e30),
        every_exponent,
    ];
    let cases: Vec<_> = angles
        .iter()
        .flat_map(|angles| [of(22, angles.clone()), of(23, angles.clone())])
        .collect();
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
