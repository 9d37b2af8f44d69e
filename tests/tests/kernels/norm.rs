//! `rms_norm`, `layer_norm`, `add_rms_norm` and `add_layer_norm`, and the first and third with a result in bytes too.

use proptest::prelude::*;
use wisp_shaders::params::NormParams;
use wisp_tests::kernels::{Case, case, check, check_fitting, close, exact, noise};

/// Rows and columns.
const SIZES: &[[usize; 2]] = &[
    [1, 7],
    [2, 60],
    [3, 172],
    [5, 515],
    [9, 768],
    [2, 4100],
    [17, 4],
    [65, 1],
];

/// Sizes for layer norms: of a single column, nothing but rounding errors and the bias would be left.
const WIDE: &[[usize; 2]] = &[
    [1, 7],
    [2, 60],
    [3, 172],
    [5, 515],
    [9, 768],
    [2, 4100],
    [17, 4],
];

fn cases(sizes: &[[usize; 2]], of: impl Fn(usize, usize) -> Case) -> Vec<Case> {
    sizes.iter().map(|&[rows, cols]| of(rows, cols)).collect()
}

fn norm(rows: usize, cols: usize) -> NormParams {
    let (rows, cols) = (rows as u32, cols as u32);
    NormParams {
        rows,
        cols,
        eps: 1e-5,
        weight_offset: (rows % 2) as f32,
        y_scale: 1.0,
        has_bias: rows % 2,
    }
}

fn rms_norm(rows: usize, cols: usize) -> Case {
    let memory = vec![
        exact(&noise(1, rows * cols)),
        exact(&noise(2, cols)),
        close(rows * cols, 1e-6),
    ];
    case(norm(rows, cols), memory, &[rows], cols)
}

/// Rows far from zero, whose mean a layer norm must subtract.
fn layer_norm(rows: usize, cols: usize) -> Case {
    let x: Vec<f32> = noise(1, rows * cols).iter().map(|x| x + 3.0).collect();
    let memory = vec![
        exact(&x),
        exact(&noise(2, cols)),
        close(rows * cols, 4e-6),
        exact(&noise(4, cols)),
    ];
    case(norm(rows, cols), memory, &[rows], cols)
}

#[test]
fn rms_norm_kernels_match_the_twin() {
    check("rms_norm", &cases(SIZES, rms_norm));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn rms_norm_kernels_match_the_twin_at_any_size(rows in 1usize..70, cols in 1usize..2000) {
        check_fitting("rms_norm", &[rms_norm(rows, cols)]);
    }
}

#[test]
fn layer_norm_kernels_match_the_twin() {
    check("layer_norm", &cases(WIDE, layer_norm));
}

#[test]
fn add_layer_norm_kernels_match_the_twin() {
    let of = |rows, cols| {
        let params = NormParams {
            y_scale: 0.6,
            ..norm(rows, cols)
        };
        let memory = vec![
            close(rows * cols, 1e-7),
            exact(&noise(3, rows * cols)),
            exact(&noise(2, cols)),
            close(rows * cols, 4e-6),
            exact(&noise(4, cols)),
        ];
        case(params, memory, &[rows], cols)
    };
    check("add_layer_norm", &cases(WIDE, of));
}

#[test]
fn add_rms_norm_kernels_match_the_twin() {
    let of = |rows, cols| {
        let [x, y] = [1, 3].map(|seed| exact(&noise(seed, rows * cols)));
        let memory = vec![x, y, exact(&noise(2, cols)), close(rows * cols, 1e-6)];
        case(norm(rows, cols), memory, &[rows], cols)
    };
    check("add_rms_norm", &cases(SIZES, of));
}

#[test]
fn add_rms_norm_kernels_with_a_scale_match_the_twin() {
    let of = |rows, cols| {
        let params = NormParams {
            y_scale: 0.22,
            ..norm(rows, cols)
        };
        let memory = vec![
            close(rows * cols, 1e-7),
            exact(&noise(3, rows * cols)),
            exact(&noise(2, cols)),
            close(rows * cols, 1e-6),
        ];
        case(params, memory, &[rows], cols)
    };
    check("add_rms_norm", &cases(SIZES, of));
}

/// A norm whose result is quantised too. The numbers are such that no rounding error of the norm changes a byte or a scale:
/// each is near an integer times the scale, and the largest of a block far from where it would be rounded to the next one.
fn rms_norm_int8(rows: usize, cols: usize, adds: bool) -> Case {
    let step = 1.5 / 127.0;
    let weight = |c: usize| match c % 32 {
        5 => 1.4975,
        i => step * ((i * 37 + c / 32 * 11) % 253) as f32 - step * 126.0,
    };
    let weight: Vec<f32> = (0..cols).map(weight).collect();
    let sign = |x: f32| x.signum() * if adds { 0.5 } else { 1.0 };
    let x: Vec<f32> = noise(1, rows * cols).into_iter().map(sign).collect();
    let mut memory = vec![exact(&x)];
    if adds {
        memory.push(exact(&x));
    }
    let blocks = rows * cols / 32;
    memory.extend([
        exact(&weight),
        close(rows * cols, 1e-6),
        exact(&vec![0x5555_5555u32; blocks * 8]),
        exact(&vec![0x5555_5555u32; blocks * 2]),
    ]);
    let params = NormParams {
        weight_offset: 0.0,
        ..norm(rows, cols)
    };
    case(params, memory, &[rows], cols)
}

#[test]
fn norms_with_bytes_match_the_twin() {
    // The last two have more blocks than a workgroup has invocations.
    let sizes = [[1, 32], [3, 96], [70, 64], [2, 896], [1, 8224], [2, 16384]];
    for (op, adds) in [("rms_norm_int8", false), ("add_rms_norm_int8", true)] {
        let cases = sizes.map(|[rows, cols]| rms_norm_int8(rows, cols, adds));
        check(op, &cases);
    }
}
