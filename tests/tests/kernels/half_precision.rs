//! Products in half precision of numbers that halves cannot hold, or barely.

use wisp_engine::weights::Encoding;
use wisp_tests::kernels::{
    Case, Memory, check_fitting, check_fitting_if, check_outputs, noise, some_encodings,
    twin_outputs, weight, weight_of,
};

use crate::matmul;

// More tokens and rows than a tile has, and columns beyond two blocks where an encoding allows it.
const TOKENS: usize = 65;
const ROWS: usize = 130;
const COLS: usize = 72;

/// A product of `x`, `[TOKENS, cols]`, and a weight.
fn product(x: &[f32], weight: Vec<Memory>, bound: f64) -> Case {
    matmul::product(x, weight, [TOKENS, ROWS, x.len() / TOKENS], bound)
}

fn cols(encoding: Encoding) -> usize {
    COLS.next_multiple_of(encoding.file_block_weights())
}

/// Inputs of which each is changed by a function of its column.
fn inputs(cols: usize, change: impl Fn(usize, f32) -> f32) -> Vec<f32> {
    let all = noise(1, TOKENS * cols).into_iter().enumerate();
    all.map(|(i, x)| change(i % cols, x)).collect()
}

#[test]
fn inputs_of_any_magnitude_keep_the_bound() {
    for encoding in some_encodings() {
        let cols = cols(encoding);
        let changes: [&dyn Fn(usize, f32) -> f32; 6] = [
            &|_, x| 1e5 * x,
            &|_, x| 1e-6 * x,
            &|_, x| 1e30 * x,
            &|_, x| 1e-20 * x,
            &|_, _| 0.0,
            // An input that is far larger than the others, beside ones that all have the same sign.
            &|column, x| if column == 5 { 1e5 } else { x.abs() },
        ];
        let all = changes
            .map(|change| product(&inputs(cols, change), weight(encoding, ROWS, cols), 1e-5));
        check_fitting(&format!("matmul.{}", encoding.name()), &all);
    }
}

/// The outlier meets a weight of 0 in every row, so that the sums are those of the other inputs.
#[test]
fn an_outlier_does_not_hide_the_other_inputs() {
    for encoding in [Encoding::F32, Encoding::F16, Encoding::Q8_0, Encoding::Q4_0] {
        let cols = cols(encoding);
        let values = noise(7, ROWS * cols).into_iter().enumerate();
        let values: Vec<f32> = values
            .map(|(i, w)| if i % cols == 5 { 0.0 } else { w })
            .collect();
        let x = inputs(cols, |column, x| if column == 5 { 1e4 } else { x });
        let weight = weight_of(encoding, ROWS, cols, &values);
        check_fitting(
            &format!("matmul.{}", encoding.name()),
            &[product(&x, weight, 1e-5)],
        );
    }
}

#[test]
fn weights_of_any_magnitude_keep_the_bound() {
    for (encoding, scale) in [
        (Encoding::F32, 1e5),
        (Encoding::F32, 1e-6),
        (Encoding::F32, 1e20),
        (Encoding::BF16, 1e5),
        (Encoding::BF16, 1e-6),
        (Encoding::BF16, 1e20),
        (Encoding::BF16, 1e-20),
        (Encoding::F16, 6e4),
        (Encoding::Q8_0, 6e4),
        (Encoding::Q8_0, 1e-3),
        (Encoding::Q4_1, 6e4),
        (Encoding::Q4_1, 1e-3),
    ] {
        let cols = cols(encoding);
        let values: Vec<f32> = noise(7, ROWS * cols).iter().map(|w| w * scale).collect();
        let weight = weight_of(encoding, ROWS, cols, &values);
        let x = inputs(cols, |_, x| x);
        // Cooperative matrices have one scale for all weights, which are to be from 4e-6 to 4094.
        let is_in_range = (1e-3..1e3).contains(&scale);
        check_fitting_if(
            &format!("matmul.{}", encoding.name()),
            &[product(&x, weight, 1e-5)],
            |kernel| kernel.needs.matrix_size == 0 || is_in_range,
        );
    }
}

/// Tokens whose inputs are not finite have no finite result; the others are as without them.
#[test]
fn inputs_that_are_not_finite_stay_so_and_leave_other_tokens_alone() {
    let special = [(3, f32::INFINITY), (17, f32::NEG_INFINITY), (64, f32::NAN)];
    for encoding in [Encoding::F32, Encoding::Q4_0, Encoding::Q6_K] {
        let cols = cols(encoding);
        let mut x = inputs(cols, |_, x| x);
        for (token, value) in special {
            x[token * cols + 7] = value;
        }
        let op = format!("matmul.{}", encoding.name());
        let all = [product(&x, weight(encoding, ROWS, cols), 1e-3)];
        let expected = twin_outputs(&op, &all[0]);
        check_outputs(&op, &all, |_, outputs| {
            let rows =
                |outputs: &[Vec<u8>]| -> Vec<f32> { bytemuck::pod_collect_to_vec(&outputs[1]) };
            let (actual, expected) = (rows(outputs), rows(&expected));
            let tokens = actual.chunks(ROWS).zip(expected.chunks(ROWS)).enumerate();
            let wrong = tokens.filter(|(token, (actual, expected))| {
                let is_special = special.iter().any(|(special, _)| special == token);
                match is_special {
                    true => actual.iter().any(|value| value.is_finite()),
                    false => {
                        let off = actual
                            .iter()
                            .zip(*expected)
                            .map(|(a, b)| f64::from(a - b).powi(2));
                        let norm: f64 = expected.iter().map(|b| f64::from(*b).powi(2)).sum();
                        let off: f64 = off.sum();
                        off.is_nan() || off > 1e-6 * norm
                    }
                }
            });
            wrong
                .map(|(token, _)| format!("token {token} is wrong"))
                .collect()
        });
    }
}
