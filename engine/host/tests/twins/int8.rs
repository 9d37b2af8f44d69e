//! Products with activations in 8 bits.

use proptest::prelude::*;
use wisp_shaders::params::*;

use super::products::{columns, weight, weight_rows};
use super::{matmul_params, zeros};
use crate::support::{BlockFactors, assert_sums_close, buffer, contents, numbers, run, sum};
use wisp_host::HostBuffer;
use wisp_types::Encoding;
use wisp_weights::blocks::with_integer_encoding;

/// Rows in 8 bits: the buffers, and the numbers that they stand for.
struct Quantized {
    bytes: HostBuffer,
    factors: HostBuffer,
    values: Vec<f64>,
}

fn quantized(x: &[f32], cols: usize) -> Quantized {
    let (tokens, blocks) = (x.len() / cols, cols.div_ceil(32));
    let bytes = zeros::<[i8; 32]>(tokens * blocks);
    let factors = zeros::<BlockFactors>(tokens * blocks);
    let params = QuantizeParams {
        tokens: tokens as u32,
        cols: cols as u32,
        blocks: blocks as u32,
    };
    run("quantize", params, &[&buffer(x), &bytes, &factors]).unwrap();
    let (q, of_block) = (
        contents::<[i8; 32]>(&bytes),
        contents::<BlockFactors>(&factors),
    );
    for (q, factors) in q.iter().zip(&of_block) {
        let sum = |q: &[i8]| q.iter().map(|q| i16::from(*q)).sum::<i16>();
        assert_eq!(factors.sums, [sum(&q[..16]), sum(&q[16..])]);
    }
    let values = (0..tokens).flat_map(|t| (0..cols).map(move |c| (t * blocks + c / 32, c % 32)));
    let values = values.map(|(block, i)| f64::from(of_block[block].scale) * f64::from(q[block][i]));
    Quantized {
        values: values.collect(),
        bytes,
        factors,
    }
}

fn integer_encodings() -> impl Strategy<Value = Encoding> {
    let all = Encoding::device_encodings();
    let all = all.filter(|encoding| with_integer_encoding!(*encoding, _E => true, else false));
    proptest::sample::select(all.collect::<Vec<_>>())
}

/// The sums of the products of two rows.
fn product(a: &[f32], b: &[f64]) -> (f64, f64) {
    sum(a.iter().zip(b).map(|(a, b)| f64::from(*a) * b))
}

#[test]
fn quantising_keeps_magnitudes_and_is_off_by_half_a_step() {
    for (i, factor) in [1.0, 1e-20, 1e20, 3e38, 2e-30].into_iter().enumerate() {
        let x: Vec<f32> = numbers(i as u32, 3 * 70)
            .iter()
            .map(|x| x * factor)
            .collect();
        let quantized = quantized(&x, 70);
        for (row, values) in x.chunks(70).zip(quantized.values.chunks(70)) {
            for (x, values) in row.chunks(32).zip(values.chunks(32)) {
                let largest = x.iter().fold(0f32, |largest, x| largest.max(x.abs()));
                // Half a step of a scale that is rounded up by up to 2^-7.
                let bound = f64::from(largest) / 127.0 * (0.5 * (1.0 + 1.0 / 128.0) + 1e-4);
                for (x, value) in x.iter().zip(values) {
                    assert!((f64::from(*x) - value).abs() <= bound, "{x} {value}");
                }
            }
        }
    }
}

#[test]
fn blocks_of_special_numbers() {
    let q = |x: [f32; 4]| {
        let quantized = quantized(&x, 4);
        let bytes = contents::<[i8; 32]>(&quantized.bytes)[0];
        let scale = contents::<BlockFactors>(&quantized.factors)[0].scale;
        ([bytes[0], bytes[1], bytes[2], bytes[3]], scale)
    };
    assert_eq!(q([0.0, -0.0, 1e-31, -1e-38]), ([0; 4], 0.0));
    // Ties go to the even integer: 127 / 2 to 64, 2.5 and 1.5 steps to 2.
    let step = 1.0 / 127.0;
    assert_eq!(q([1.0, 0.5, 2.5 * step, -1.5 * step]).0, [127, 64, 2, -2]);
    assert_eq!(q([1.0, -1.0, 0.0, 0.0]), ([127, -127, 0, 0], step));
    // 1.001 is rounded up to 1.0078125.
    let (bytes, scale) = q([1.001, -0.5, 0.0, 0.0]);
    assert_eq!((bytes, scale), ([126, -63, 0, 0], 1.0078125 * step));
    for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let (bytes, scale) = q([1.0, special, 2.0, 3.0]);
        assert_eq!(bytes, [0; 4]);
        assert!(scale.is_nan());
    }
    // The largest float is rounded up to infinity.
    assert_eq!(q([f32::MAX, 0.0, 0.0, 0.0]).1, f32::INFINITY);
}

// Zero points are taken off sums of floats, so that errors are relative to sums without a sign.
fn check_products(encoding: Encoding, [tokens, rows, cols]: [usize; 3], has_bias: bool, seed: u32) {
    let (planes, values) = weight(encoding, rows, cols, seed);
    let x = quantized(&numbers(seed + 1, tokens * cols), cols);
    let bias = numbers(seed + 2, rows);
    let params = matmul_params([tokens, rows, cols], has_bias);
    let (out, bias_buffer) = (zeros::<f32>(tokens * rows), buffer(&bias));
    let bound = [
        vec![&x.bytes, &out, &bias_buffer, &x.factors],
        planes.iter().collect(),
    ]
    .concat();
    run(&format!("matmul_int8.{}", encoding.name()), params, &bound).unwrap();
    let expected: Vec<(f64, f64)> = (0..tokens * rows)
        .map(|i| {
            let (t, r) = (i / rows, i % rows);
            let (sum, size) = product(&values[r * cols..][..cols], &x.values[t * cols..][..cols]);
            let bias = if has_bias { f64::from(bias[r]) } else { 0.0 };
            (sum + bias, size)
        })
        .collect();
    assert_sums_close(&contents(&out), &expected, 4e-6);
}

#[test]
fn products_take_more_tokens_and_columns_than_are_multiplied_at_once() {
    for encoding in [Encoding::Q4_0, Encoding::Q4_K, Encoding::Q6_K] {
        check_products(encoding, [291, 53, 2304], true, 7);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn products_match_f64_arithmetic_over_the_same_bytes(
        encoding in integer_encodings(),
        tokens in prop_oneof![1usize..6, 1usize..70],
        rows in 1usize..100,
        cols in 1usize..1200,
        has_bias: bool,
        seed in 0u32..1000,
    ) {
        check_products(encoding, [tokens, rows, columns(encoding, cols)], has_bias, seed);
    }

    #[test]
    fn gates_and_experts_match_f64_arithmetic(
        encoding in integer_encodings(),
        tokens in 1usize..20,
        rows in 1usize..20,
        cols in 1usize..300,
        seed in 0u32..1000,
    ) {
        let cols = columns(encoding, cols);
        let (planes, values) = weight(encoding, 2 * rows, cols, seed);
        let x = quantized(&numbers(seed + 1, tokens * cols), cols);
        let params = MatmulGatedParams {
            tokens: tokens as u32,
            rows: rows as u32,
            cols: cols as u32,
            blocks: cols.div_ceil(32) as u32,
            activation: 3,
            has_bias: 0,
        };
        let out = zeros::<f32>(tokens * rows);
        let bound = [vec![&x.bytes, &out, &out, &x.factors], planes.iter().collect()].concat();
        run(&format!("matmul_gated_int8.{}", encoding.name()), params, &bound).unwrap();
        let of = |row: usize, t: usize| product(&values[row * cols..][..cols], &x.values[t * cols..][..cols]);
        let expected: Vec<(f64, f64)> = (0..tokens * rows).map(|i| {
            let ((gate, size), (up, up_size)) = (of(i % rows, i / rows), of(rows + i % rows, i / rows));
            (gate.max(0.0) * up, size * up.abs() + gate.abs() * up_size)
        }).collect();
        assert_sums_close(&contents(&out), &expected, 4e-6);

        // Two experts, in two chunks of rows.
        let ids: Vec<u32> = (0..tokens as u32).map(|t| (t + seed) % 2).collect();
        let ids_buffer = buffer(&ids);
        let out = zeros::<f32>(tokens * rows);
        for (first, end) in [(0, rows), (rows, 2 * rows)] {
            let (planes, _) = weight_rows(encoding, 2 * rows, cols, seed, first..end);
            let params = MatmulExpertsParams {
                pairs: tokens as u32,
                experts: 2,
                rows: rows as u32,
                cols: cols as u32,
                blocks: cols.div_ceil(32) as u32,
                pairs_per_row: 1,
                first_row: first as u32,
                chunk_rows: (end - first) as u32,
                in_turn: 0,
            };
            let bound = [vec![&x.bytes, &out, &ids_buffer, &x.factors], planes.iter().collect()].concat();
            run(&format!("matmul_experts_int8.{}", encoding.name()), params, &bound).unwrap();
        }
        let expected: Vec<(f64, f64)> = (0..tokens * rows)
            .map(|i| of(ids[i / rows] as usize * rows + i % rows, i / rows))
            .collect();
        assert_sums_close(&contents(&out), &expected, 4e-6);
    }
}
