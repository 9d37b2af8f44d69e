//! Matrix products with encoded weights, and embeddings.

use proptest::prelude::*;
use wisp_shaders::params::*;

use super::{matmul_params, zeros};
use crate::support::{assert_close, assert_sums_close, buffer, contents, numbers, run, sum};
use wisp_host::HostBuffer;
use wisp_types::Encoding;
use wisp_weights::encodings::{dequantize, repack_rows};

/// A weight of an encoding with small finite scales: its planes and its values.
pub(super) fn weight(
    encoding: Encoding,
    rows: usize,
    cols: usize,
    seed: u32,
) -> (Vec<HostBuffer>, Vec<f32>) {
    weight_rows(encoding, rows, cols, seed, 0..rows)
}

/// The planes of a range of the rows, and the values of all rows.
pub(super) fn weight_rows(
    encoding: Encoding,
    rows: usize,
    cols: usize,
    seed: u32,
    part: std::ops::Range<usize>,
) -> (Vec<HostBuffer>, Vec<f32>) {
    let row_bytes = encoding.file_row_bytes(cols as u64).unwrap() as usize;
    let bytes = row_bytes * rows;
    let noise = numbers(seed, bytes);
    let mut file: Vec<u8> = noise.iter().map(|v| (v * 128.0) as i32 as u8).collect();
    for (i, block) in file
        .chunks_exact_mut(encoding.file_block_bytes())
        .enumerate()
    {
        // The high bytes of halves; an exponent from 2^-8 on.
        let small = |byte: u8| 0x1c | (byte & 0x83);
        match encoding {
            Encoding::F32 => block.copy_from_slice(&noise[4 * i].to_le_bytes()),
            Encoding::F16 => block[1] = block[1] & 0x83 | 0x38,
            Encoding::BF16 => block[1] = block[1] & 0x80 | 0x3f,
            Encoding::MXFP4 => block[0] = 120 + (block[0] & 7),
            Encoding::F8_E4M3
            | Encoding::UINT4
            | Encoding::UINT8
            | Encoding::NF4
            | Encoding::NVFP4 => {
                block[..4].copy_from_slice(&noise[4 * i].to_le_bytes());
            }
            Encoding::Q2_K => [81, 83]
                .into_iter()
                .for_each(|at| block[at] = small(block[at])),
            Encoding::Q3_K => block[109] = small(block[109]),
            Encoding::Q6_K => block[209] = small(block[209]),
            Encoding::TQ2_0 => block[65] = small(block[65]),
            Encoding::Q4_1 | Encoding::Q5_1 | Encoding::Q4_K | Encoding::Q5_K => {
                [1, 3]
                    .into_iter()
                    .for_each(|at| block[at] = small(block[at]));
            }
            _ => block[1] = small(block[1]),
        }
    }
    let values = dequantize(encoding, &file, rows, cols).unwrap();
    let bytes = &file[part.start * row_bytes..part.end * row_bytes];
    let planes = repack_rows(encoding, bytes, part.len(), cols).unwrap();
    let present = planes
        .iter()
        .zip(encoding.has_plane())
        .filter(|(_, present)| *present);
    (present.map(|(plane, _)| buffer(plane)).collect(), values)
}

fn encodings() -> impl Strategy<Value = Encoding> {
    proptest::sample::select(Encoding::device_encodings().collect::<Vec<_>>())
}

pub(super) fn columns(encoding: Encoding, cols: usize) -> usize {
    match encoding.file_block_weights() {
        1 => cols,
        block => block * cols.div_ceil(1200 / (2048 / block)),
    }
}

/// The terms of the dot product of two rows.
fn products(a: &[f32], b: &[f32]) -> impl Iterator<Item = f64> {
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| f64::from(*a) * f64::from(*b))
}

/// Checks columns `offset..offset + rows` of each of `tokens` output rows of `stride` elements.
fn check_matmul(
    encoding: Encoding,
    tokens: usize,
    rows: usize,
    cols: usize,
    gap: [usize; 3],
    has_bias: bool,
    seed: u32,
) {
    let (planes, values) = weight(encoding, rows, cols, seed);
    let x = numbers(seed + 1, tokens * cols);
    let [before, after, bias_offset] = gap;
    let bias = numbers(seed + 2, bias_offset + rows);
    let stride = before + rows + after;
    let params = MatmulParams {
        out_stride: stride as u32,
        out_offset: before as u32,
        bias_offset: bias_offset as u32,
        ..matmul_params([tokens, rows, cols], has_bias)
    };
    let untouched = numbers(seed + 3, tokens * stride);
    let out = buffer(&untouched);
    let (x_buffer, bias_buffer) = (buffer(&x), buffer(&bias));
    let bound = [vec![&x_buffer, &out, &bias_buffer], planes.iter().collect()].concat();
    run(&format!("matmul.{}", encoding.name()), params, &bound).unwrap();
    let mut expected: Vec<(f64, f64)> = untouched
        .iter()
        .map(|v| (f64::from(*v), f64::from(v.abs())))
        .collect();
    for t in 0..tokens {
        for r in 0..rows {
            let products = products(&values[r * cols..], &x[t * cols..][..cols]);
            let bias = has_bias.then(|| f64::from(bias[bias_offset + r]));
            expected[t * stride + before + r] = sum(products.chain(bias));
        }
    }
    let actual: Vec<f32> = contents(&out);
    for t in 0..tokens {
        for c in (0..before).chain(before + rows..stride) {
            assert_eq!(actual[t * stride + c], untouched[t * stride + c]);
        }
    }
    assert_sums_close(&actual, &expected, 1e-6);
}

#[test]
fn matmul_takes_more_tokens_and_columns_than_are_multiplied_at_once() {
    for encoding in [Encoding::Q4_0, Encoding::Q6_K, Encoding::F16] {
        check_matmul(encoding, 291, 53, 2304, [1, 2, 3], true, 7);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn matmul_matches_f64_arithmetic_in_every_encoding(
        encoding in encodings(),
        tokens in prop_oneof![1usize..6, 1usize..70],
        rows in 1usize..100,
        cols in 1usize..1200,
        gap in [0usize..5, 0usize..5, 0usize..5],
        has_bias: bool,
        seed in 0u32..1000,
    ) {
        check_matmul(encoding, tokens, rows, columns(encoding, cols), gap, has_bias, seed);
    }

    #[test]
    fn embed_decodes_and_scales_rows(
        encoding in encodings(),
        tokens in 1usize..9,
        rows in 1usize..20,
        cols in 1usize..300,
        row_offset in 0u32..9,
        seed in 0u32..1000,
    ) {
        let cols = columns(encoding, cols);
        let (planes, values) = weight(encoding, rows, cols, seed);
        let ids: Vec<u32> = (0..tokens as u32).map(|t| (t * 7 + seed) % 32).collect();
        let params = EmbedParams {
            tokens: tokens as u32,
            rows: rows as u32,
            row_offset,
            table_rows: 32,
            cols: cols as u32,
            blocks: cols.div_ceil(32) as u32,
            scale: 1.5,
            id_stride: 2,
            id_offset: 1,
        };
        let out = buffer(&vec![7.0f32; tokens * cols]);
        let pairs: Vec<[u32; 2]> = ids.iter().map(|id| [99, *id]).collect();
        let ids_buffer = buffer(&pairs);
        let bound = [vec![&ids_buffer, &out], planes.iter().collect()].concat();
        run(&format!("embed.{}", encoding.name()), params, &bound).unwrap();
        let expected: Vec<f32> = ids.iter().flat_map(|id| {
            let row = id.wrapping_sub(row_offset) as usize;
            let values = &values;
            (0..cols).map(move |c| if row < rows { values[row * cols + c] * 1.5 } else { 7.0 })
        }).collect();
        prop_assert_eq!(contents::<f32>(&out), expected);
    }

    #[test]
    fn experts_in_turn_are_those_of_such_ids(
        encoding in encodings(),
        [tokens, experts, rows, cols] in [1usize..20, 1..6, 1..20, 1..100],
        seed in 0u32..1000,
    ) {
        let (pairs, cols) = (tokens * experts, columns(encoding, cols));
        let x = buffer(&numbers(seed + 1, pairs * cols));
        let (planes, _) = weight_rows(encoding, experts * rows, cols, seed, 0..experts * rows);
        let ids: Vec<u32> = (0..pairs).map(|pair| (pair % experts) as u32).collect();
        let products = [(0, ids), (1, vec![u32::MAX; pairs])].map(|(in_turn, ids)| {
            let params = MatmulExpertsParams {
                pairs: pairs as u32,
                experts: experts as u32,
                rows: rows as u32,
                cols: cols as u32,
                blocks: cols.div_ceil(32) as u32,
                pairs_per_row: 1,
                first_row: 0,
                chunk_rows: (experts * rows) as u32,
                in_turn,
            };
            let (out, ids) = (zeros::<f32>(pairs * rows), buffer(&ids));
            let bound = [vec![&x, &out, &ids], planes.iter().collect()].concat();
            run(&format!("matmul_experts.{}", encoding.name()), params, &bound).unwrap();
            contents::<f32>(&out)
        });
        prop_assert_eq!(&products[0], &products[1]);
    }

    #[test]
    fn matmul_experts_matches_the_products_of_its_experts(
        encoding in encodings(),
        tokens in prop_oneof![1usize..5, 1usize..40],
        chosen in 1usize..4,
        more in 0usize..5,
        rows in 1usize..20,
        cols in 1usize..100,
        seed in 0u32..1000,
    ) {
        let (experts, cols) = (chosen + more, columns(encoding, cols));
        let logits: Vec<f32> = numbers(seed, tokens * experts).iter().map(|x| (x * 4.0).round()).collect();
        let (ids, weights) = (zeros::<u32>(tokens * chosen), zeros::<f32>(tokens * chosen));
        let params = RouteParams {
            tokens: tokens as u32,
            experts: experts as u32,
            experts_per_token: chosen as u32,
            normalise: seed % 2,
        };
        run("route", params, &[&buffer(&logits), &ids, &weights]).unwrap();
        let (ids, weights) = (contents::<u32>(&ids), contents::<f32>(&weights));
        for (t, logits) in logits.chunks(experts).enumerate() {
            let slots = t * chosen..(t + 1) * chosen;
            let total: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
            let mut left: Vec<usize> = (0..experts).collect();
            let mut expected = Vec::new();
            for id in &ids[slots.clone()] {
                let best = left.iter().copied().reduce(|a, b| if logits[b] > logits[a] { b } else { a });
                prop_assert_eq!(Some(*id as usize), best);
                left.retain(|e| e != &(*id as usize));
                expected.push(f64::from(logits[*id as usize]).exp() / total);
            }
            let sum: f64 = if seed % 2 == 1 { expected.iter().sum() } else { 1.0 };
            expected.iter_mut().for_each(|weight| *weight /= sum);
            assert_close(&weights[slots], &expected, 1e-6);
        }
        // Each token's row times the weights of its experts, in two chunks of rows.
        let x = numbers(seed + 1, tokens * cols);
        let (_, values) = weight(encoding, experts * rows, cols, seed);
        let out = zeros::<f32>(tokens * chosen * rows);
        let cut = experts * rows / 2;
        for (first, end) in [(0, cut), (cut, experts * rows)] {
            let (planes, _) = weight_rows(encoding, experts * rows, cols, seed, first..end);
            let params = MatmulExpertsParams {
                pairs: (tokens * chosen) as u32,
                experts: experts as u32,
                rows: rows as u32,
                cols: cols as u32,
                blocks: cols.div_ceil(32) as u32,
                pairs_per_row: chosen as u32,
                first_row: first as u32,
                chunk_rows: (end - first) as u32,
                in_turn: 0,
            };
            let (x, ids) = (buffer(&x), buffer(&ids));
            let bound = [vec![&x, &out, &ids], planes.iter().collect()].concat();
            run(&format!("matmul_experts.{}", encoding.name()), params, &bound).unwrap();
        }
        let made: Vec<(f64, f64)> = (0..tokens * chosen * rows).map(|i| {
            let (slot, row) = (i / rows, i % rows);
            let at = (ids[slot] as usize * rows + row) * cols;
            sum(products(&values[at..][..cols], &x[slot / chosen * cols..][..cols]))
        }).collect();
        let out_values: Vec<f32> = contents(&out);
        assert_sums_close(&out_values, &made, 1e-6);
        let params = CombineExpertsParams {
            tokens: tokens as u32,
            experts_per_token: chosen as u32,
            cols: rows as u32,
        };
        let sums = zeros::<f32>(tokens * rows);
        run("combine_experts", params, &[&out, &buffer(&weights), &sums]).unwrap();
        let expected: Vec<(f64, f64)> = (0..tokens * rows).map(|i| {
            let (t, row) = (i / rows, i % rows);
            let slots = t * chosen..(t + 1) * chosen;
            sum(slots.map(|slot| f64::from(weights[slot]) * f64::from(out_values[slot * rows + row])))
        }).collect();
        assert_sums_close(&contents(&sums), &expected, 1e-6);
    }
}
