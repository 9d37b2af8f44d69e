//! Elementwise ops and ops on rows.

use proptest::prelude::*;
use wisp_shaders::params::*;

use super::zeros;
use crate::support::{assert_close, assert_sums_close, buffer, contents, numbers, run};

/// The activation of a kind. It uses the logistic function and erfc, because 1 + tanh and 1 + erf
/// cancel in the tail.
fn activated(x: f64, activation: u32) -> f64 {
    match activation {
        0 => x / (1.0 + (-x).exp()),
        1 => 0.5 * x * libm::erfc(-x / 2.0f64.sqrt()),
        3 => x.max(0.0),
        _ => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            x / (1.0 + (-2.0 * u).exp())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn rms_norms_match_f64_arithmetic(rows in 1usize..5, cols in 1usize..300, offset in 0u32..2, seed in 0u32..1000) {
        let (x, y) = (numbers(seed, rows * cols), numbers(seed + 1, rows * cols));
        let weight = numbers(seed + 2, cols);
        let params = NormParams {
            rows: rows as u32,
            cols: cols as u32,
            eps: 1e-5,
            weight_offset: offset as f32,
            y_scale: 1.0,
            has_bias: 0,
        };
        let norm = |x: &[f64]| -> Vec<f64> {
            x.chunks(cols).flat_map(|x| {
                let mean = x.iter().map(|x| x * x).sum::<f64>() / cols as f64;
                let weights = weight.iter().map(|w| f64::from(*w) + f64::from(offset));
                let scale = 1.0 / (mean + 1e-5).sqrt();
                x.iter().zip(weights).map(move |(x, w)| x * scale * w).collect::<Vec<_>>()
            }).collect()
        };
        let (out, added) = (zeros::<f32>(rows * cols), buffer(&x));
        run("rms_norm", params, &[&added, &buffer(&weight), &out]).unwrap();
        let plain: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        assert_close(&contents(&out), &norm(&plain), 1e-6);
        run("add_rms_norm", params, &[&added, &buffer(&y), &buffer(&weight), &out]).unwrap();
        let sum: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        prop_assert_eq!(contents::<f32>(&added), sum.clone());
        let sum: Vec<f64> = sum.iter().map(|x| f64::from(*x)).collect();
        assert_close(&contents(&out), &norm(&sum), 1e-6);
    }

    #[test]
    fn layer_norms_match_f64_arithmetic(rows in 1usize..5, cols in 2usize..300, has_bias in 0u32..2, seed in 0u32..1000) {
        let x: Vec<f32> = numbers(seed, rows * cols).iter().map(|x| x + 2.0).collect();
        let (y, weight) = (numbers(seed + 1, rows * cols), numbers(seed + 2, cols));
        let bias = numbers(seed + 3, cols);
        let params = NormParams {
            rows: rows as u32,
            cols: cols as u32,
            eps: 1e-5,
            weight_offset: 0.0,
            y_scale: 0.5,
            has_bias,
        };
        // What is left of a number after its mean is rounded relative to both.
        let norm = |x: &[f64]| -> Vec<(f64, f64)> {
            x.chunks(cols).flat_map(|x| {
                let mean = x.iter().sum::<f64>() / cols as f64;
                let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / cols as f64;
                let scale = 1.0 / (variance + 1e-5).sqrt();
                (0..cols).map(|c| {
                    let (scale, bias) =
                        (scale * f64::from(weight[c]), f64::from(has_bias) * f64::from(bias[c]));
                    let size = (x[c].abs() + mean.abs()) * scale.abs() + bias.abs();
                    ((x[c] - mean) * scale + bias, size)
                }).collect::<Vec<_>>()
            }).collect()
        };
        let (out, added) = (zeros::<f32>(rows * cols), buffer(&x));
        let (weight, bias) = (buffer(&weight), buffer(&bias));
        run("layer_norm", params, &[&added, &weight, &out, &bias]).unwrap();
        let plain: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        assert_sums_close(&contents(&out), &norm(&plain), 5e-7);
        run("add_layer_norm", params, &[&added, &buffer(&y), &weight, &out, &bias]).unwrap();
        let sum: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + 0.5 * y).collect();
        prop_assert_eq!(contents::<f32>(&added), sum.clone());
        let sum: Vec<f64> = sum.iter().map(|x| f64::from(*x)).collect();
        assert_sums_close(&contents(&out), &norm(&sum), 5e-7);
    }

    #[test]
    fn map_matches_f64_arithmetic(len in 1usize..40_000, kind in prop::sample::select(vec![0u32, 1, 2, 3, 8, 9]), seed in 0u32..1000) {
        let x: Vec<f32> = numbers(seed, len).iter().map(|x| x * 9.0).collect();
        let out = zeros::<f32>(len);
        let params = MapParams { len: len as u32, kind, factor: 1.7 };
        run("map", params, &[&buffer(&x), &out]).unwrap();
        let expected: Vec<f64> = x.iter().map(|x| {
            let x = f64::from(*x);
            match kind {
                8 => 1.7 * x,
                9 => 1.7 * (x / 1.7).tanh(),
                kind => activated(x, kind),
            }
        }).collect();
        assert_close(&contents(&out), &expected, 1e-6);
    }

    #[test]
    fn softmax_argmax_and_gather_match_f64_arithmetic(rows in 1usize..5, cols in 1usize..300, seed in 0u32..1000) {
        let params = RowsParams { rows: rows as u32, cols: cols as u32 };
        let x: Vec<f32> = numbers(seed, rows * cols).iter().map(|x| x * 20.0).collect();
        let out = zeros::<f32>(rows * cols);
        run("softmax", params, &[&buffer(&x), &out]).unwrap();
        let expected: Vec<f64> = x.chunks(cols).flat_map(|x| {
            let total: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
            x.iter().map(move |x| f64::from(*x).exp() / total)
        }).collect();
        assert_close(&contents(&out), &expected, 1e-6);
        // Rounded, so that some elements are equal.
        let x: Vec<f32> = x.iter().map(|x| x.round()).collect();
        let out = zeros::<u32>(rows);
        run("argmax", params, &[&buffer(&x), &out]).unwrap();
        let expected: Vec<u32> = x.chunks(cols).map(|x| {
            let best = x.iter().copied().fold(f32::MIN, f32::max);
            x.iter().position(|x| *x == best).unwrap() as u32
        }).collect();
        prop_assert_eq!(contents::<u32>(&out), expected);
        let indices: Vec<u32> = (0..7).map(|i| (i * 3 + seed) % rows as u32).collect();
        let params = GatherParams { outer: 1, axis_size: rows as u32, inner: cols as u32, index_count: 7 };
        let out = zeros::<f32>(7 * cols);
        run("gather", params, &[&buffer(&x), &buffer(&indices), &out]).unwrap();
        let expected: Vec<f32> =
            indices.iter().flat_map(|i| x[*i as usize * cols..][..cols].to_vec()).collect();
        prop_assert_eq!(contents::<f32>(&out), expected);
    }

    #[test]
    fn gated_matches_f64_arithmetic(
        tokens in 1usize..4,
        cols in 1usize..100,
        pad in [0usize..4, 0usize..4, 0usize..4, 0usize..4],
        activation in 0u32..4,
        seed in 0u32..1000,
    ) {
        let [gate_offset, gate_pad, up_offset, up_pad] = pad;
        let (gate_stride, up_stride) = (gate_offset + cols + gate_pad, up_offset + cols + up_pad);
        let params = GatedParams {
            tokens: tokens as u32,
            cols: cols as u32,
            gate_stride: gate_stride as u32,
            gate_offset: gate_offset as u32,
            up_stride: up_stride as u32,
            up_offset: up_offset as u32,
            activation,
        };
        let gate: Vec<f32> = numbers(seed, tokens * gate_stride).iter().map(|x| x * 12.0).collect();
        let up = numbers(seed + 1, tokens * up_stride);
        let out = zeros::<f32>(tokens * cols);
        run("gated", params, &[&buffer(&gate), &buffer(&up), &out]).unwrap();
        let act = |x: f64| activated(x, activation);
        // The error is bounded relative to the inputs, and in the tail relative to the result too. That
        // bound is wider, because e^-x²/2 multiplies the relative rounding of x by x².
        for (i, actual) in contents::<f32>(&out).into_iter().enumerate() {
            let (t, c) = (i / cols, i % cols);
            let gate = f64::from(gate[t * gate_stride + gate_offset + c]);
            let up = f64::from(up[t * up_stride + up_offset + c]);
            let (expected, actual) = (act(gate) * up, f64::from(actual));
            let error = (actual - expected).abs();
            prop_assert!(
                error <= 1e-6 * (gate * up).abs() && error <= 1e-4 * expected.abs() + 1e-35,
                "act({gate}) * {up} is {actual}, expected {expected}"
            );
        }
    }

    #[test]
    fn clamped_swiglu_matches_f64_arithmetic(len in 1usize..600, limit in 0u32..9, seed in 0u32..1000) {
        let [gate, up] = [0, 1].map(|i| numbers(seed + i, len).iter().map(|x| x * 30.0).collect::<Vec<f32>>());
        let params = ClampedSwigluParams { len: len as u32, alpha: 1.702, limit: limit as f32 };
        let out = zeros::<f32>(len);
        run("clamped_swiglu", params, &[&buffer(&gate), &buffer(&up), &out]).unwrap();
        let limit = f64::from(limit);
        for (i, actual) in contents::<f32>(&out).into_iter().enumerate() {
            let (gate, up) = (f64::from(gate[i]).min(limit), f64::from(up[i]).clamp(-limit, limit));
            let expected = (up + 1.0) * gate / (1.0 + (-f64::from(1.702f32) * gate).exp());
            let error = (f64::from(actual) - expected).abs();
            prop_assert!(error <= 1e-6 * ((up.abs() + 1.0) * gate).abs() + 1e-35, "{actual}, expected {expected}");
        }
    }

    #[test]
    fn binary_contiguous_repeats_the_second_operand(len in 1usize..40_000, b_len in 1usize..2000, op in 0u32..3, seed in 0u32..1000) {
        let (a, b) = (numbers(seed, len), numbers(seed + 1, b_len));
        let params = BinaryContiguousParams { len: len as u32, b_len: b_len as u32, kind: op, scale: 0.7 };
        let out = zeros::<f32>(len);
        run("binary_contiguous", params, &[&buffer(&a), &buffer(&b), &out]).unwrap();
        let expected: Vec<f32> = (0..len).map(|i| {
            match op {
                0 => a[i] + b[i % b_len],
                1 => a[i] * b[i % b_len],
                _ => a[i] + 0.7 * b[i % b_len],
            }
        }).collect();
        prop_assert_eq!(contents::<f32>(&out), expected);
    }
}

#[test]
fn argmax_skips_nan_and_takes_the_first_maximum() {
    let rows = [
        [f32::NAN, f32::NAN, f32::NAN],
        [f32::NAN, f32::NEG_INFINITY, -1.0],
        [1.0, f32::INFINITY, f32::INFINITY],
        [-0.0, 0.0, f32::NAN],
    ];
    let out = zeros::<u32>(4);
    let params = RowsParams { rows: 4, cols: 3 };
    run("argmax", params, &[&buffer(&rows), &out]).unwrap();
    assert_eq!(contents::<u32>(&out), [0, 2, 1, 0]);
}
