//! Ops on rows: norms, softmax, argmax.

use proptest::prelude::*;
use wisp_shaders::params::{NormParams, RowsParams};
use wisp_tests::kernels::{Case, case, check, check_fitting, close, exact, noise};

/// Rows and cols.
const SIZES: &[[usize; 2]] = &[
    [1, 7],
    [2, 60],
    [3, 172],
    [5, 515],
    [9, 768],
    [17, 4],
    [65, 1],
];

fn cases(of: impl Fn(usize, usize) -> Case) -> Vec<Case> {
    SIZES.iter().map(|&[rows, cols]| of(rows, cols)).collect()
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

#[test]
fn rms_norms() {
    check("rms_norm", &cases(rms_norm));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn rms_norms_of_any_size(rows in 1usize..70, cols in 1usize..2000) {
        check_fitting("rms_norm", &[rms_norm(rows, cols)]);
    }
}

/// Rows far from zero, whose mean a layer norm must take off.
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

/// Norms of one column are all bias: what is left of it is rounding.
const WIDE: &[[usize; 2]] = &[[1, 7], [2, 60], [3, 172], [5, 515], [9, 768], [17, 4]];

#[test]
fn layer_norms() {
    let of = |&[rows, cols]: &[usize; 2]| layer_norm(rows, cols);
    check("layer_norm", &WIDE.iter().map(of).collect::<Vec<_>>());
}

#[test]
fn add_layer_norm() {
    let of = |&[rows, cols]: &[usize; 2]| {
        let params = NormParams {
            y_scale: 0.6,
            ..norm(rows, cols)
        };
        let x = close(rows * cols, 1e-7);
        let memory = vec![
            x,
            exact(&noise(3, rows * cols)),
            exact(&noise(2, cols)),
            close(rows * cols, 4e-6),
            exact(&noise(4, cols)),
        ];
        case(params, memory, &[rows], cols)
    };
    check("add_layer_norm", &WIDE.iter().map(of).collect::<Vec<_>>());
}

#[test]
fn add_rms_norm_with_a_scale() {
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
    check("add_rms_norm", &cases(of));
}

#[test]
fn add_rms_norm() {
    let of = |rows, cols| {
        let [x, y] = [1, 3].map(|seed| exact(&noise(seed, rows * cols)));
        let memory = vec![x, y, exact(&noise(2, cols)), close(rows * cols, 1e-6)];
        case(norm(rows, cols), memory, &[rows], cols)
    };
    check("add_rms_norm", &cases(of));
}

#[test]
fn softmax_and_argmax() {
    let of = |out: fn(usize, usize) -> _| {
        cases(move |rows, cols| {
            let params = RowsParams {
                rows: rows as u32,
                cols: cols as u32,
            };
            let x: Vec<f32> = noise(1, rows * cols)
                .iter()
                .map(|x| (x * 20.0).round())
                .collect();
            case(params, vec![exact(&x), out(rows, cols)], &[rows], cols)
        })
    };
    check("softmax", &of(|rows, cols| close(rows * cols, 2e-6)));
    check("argmax", &of(|rows, _| exact(&noise(4, rows))));
}
