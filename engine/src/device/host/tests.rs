//! Every twin against plain loops in `f64`, and its refusals.

use proptest::prelude::*;
use wisp_shaders::{CacheFormat, params::*};

use super::cache::{Heads, decode};
use super::testing::{assert_close, bind, buffer, call, contents, numbers, run};
use super::{HostBuffer, HostError, twin};
use crate::weights::Encoding;
use crate::weights::encodings::{dequantize, repack_rows};

fn zeros<T: bytemuck::Pod>(len: usize) -> HostBuffer {
    HostBuffer::new(len * size_of::<T>()).unwrap()
}

/// Rows of an encoding with scales that are small and finite: its planes and its values.
fn weight(encoding: Encoding, rows: usize, cols: usize, seed: u32) -> (Vec<HostBuffer>, Vec<f32>) {
    weight_rows(encoding, rows, cols, seed, 0..rows)
}

/// The planes of a part of the rows, and the values of all.
fn weight_rows(
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
            Encoding::F8_E4M3 => block[..4].copy_from_slice(&noise[4 * i].to_le_bytes()),
            Encoding::Q2_K => [81, 83]
                .into_iter()
                .for_each(|at| block[at] = small(block[at])),
            Encoding::Q3_K => block[109] = small(block[109]),
            Encoding::Q6_K => block[209] = small(block[209]),
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
    proptest::sample::select(Encoding::on_devices().collect::<Vec<_>>())
}

fn columns(encoding: Encoding, cols: usize) -> usize {
    match encoding.file_block_weights() {
        1 => cols,
        block => block * cols.div_ceil(1200 / (2048 / block)),
    }
}

/// `out`, and what it should be: `rows` from `offset` of each of `tokens` rows of `stride`.
#[allow(clippy::too_many_arguments)]
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
        tokens: tokens as u32,
        rows: rows as u32,
        cols: cols as u32,
        blocks: cols.div_ceil(32) as u32,
        out_stride: stride as u32,
        out_offset: before as u32,
        bias_offset: bias_offset as u32,
        has_bias: has_bias.into(),
    };
    let untouched = numbers(seed + 3, tokens * stride);
    let out = buffer(&untouched);
    let (x_buffer, bias_buffer) = (buffer(&x), buffer(&bias));
    let bound = [vec![&x_buffer, &out, &bias_buffer], planes.iter().collect()].concat();
    run(&format!("matmul.{}", encoding.name()), params, &bound).unwrap();
    let mut expected: Vec<f64> = untouched.iter().map(|v| f64::from(*v)).collect();
    for t in 0..tokens {
        for r in 0..rows {
            let pairs = values[r * cols..].iter().zip(&x[t * cols..][..cols]);
            let dot: f64 = pairs.map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
            let bias = if has_bias {
                bias[bias_offset + r].into()
            } else {
                0.0
            };
            expected[t * stride + before + r] = dot + bias;
        }
    }
    let actual: Vec<f32> = contents(&out);
    for t in 0..tokens {
        for c in (0..before).chain(before + rows..stride) {
            assert_eq!(actual[t * stride + c], untouched[t * stride + c]);
        }
    }
    assert_close(&actual, &expected, 1e-6);
}

/// An activation by its number: with the logistic function and erfc, since 1 + tanh and 1 + erf
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
    fn matmul(
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
    fn embed(
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
    fn norms(rows in 1usize..5, cols in 1usize..300, offset in 0u32..2, seed in 0u32..1000) {
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
    fn layer_norms(rows in 1usize..5, cols in 2usize..300, has_bias in 0u32..2, seed in 0u32..1000) {
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
        let norm = |x: &[f64]| -> Vec<f64> {
            x.chunks(cols).flat_map(|x| {
                let mean = x.iter().sum::<f64>() / cols as f64;
                let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / cols as f64;
                let scale = 1.0 / (variance + 1e-5).sqrt();
                (0..cols).map(|c| {
                    (x[c] - mean) * scale * f64::from(weight[c])
                        + f64::from(has_bias) * f64::from(bias[c])
                }).collect::<Vec<_>>()
            }).collect()
        };
        let (out, added) = (zeros::<f32>(rows * cols), buffer(&x));
        let (weight, bias) = (buffer(&weight), buffer(&bias));
        run("layer_norm", params, &[&added, &weight, &out, &bias]).unwrap();
        let plain: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        assert_close(&contents(&out), &norm(&plain), 4e-6);
        run("add_layer_norm", params, &[&added, &buffer(&y), &weight, &out, &bias]).unwrap();
        let sum: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + 0.5 * y).collect();
        prop_assert_eq!(contents::<f32>(&added), sum.clone());
        let sum: Vec<f64> = sum.iter().map(|x| f64::from(*x)).collect();
        assert_close(&contents(&out), &norm(&sum), 4e-6);
    }

    #[test]
    fn map(len in 1usize..40_000, kind in prop::sample::select(vec![0u32, 1, 2, 3, 8, 9]), seed in 0u32..1000) {
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
    fn experts(
        encoding in encodings(),
        tokens in 1usize..5,
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
            chosen: chosen as u32,
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
        // The tokens' rows times the chosen experts' weights, in two chunks.
        let x = numbers(seed + 1, tokens * cols);
        let (_, values) = weight(encoding, experts * rows, cols, seed);
        let out = zeros::<f32>(tokens * chosen * rows);
        let cut = experts * rows / 2;
        for (first, end) in [(0, cut), (cut, experts * rows)] {
            let (planes, _) = weight_rows(encoding, experts * rows, cols, seed, first..end);
            let params = MatmulExpertsParams {
                tokens: (tokens * chosen) as u32,
                rows: rows as u32,
                cols: cols as u32,
                blocks: cols.div_ceil(32) as u32,
                share: chosen as u32,
                first_row: first as u32,
                chunk_rows: (end - first) as u32,
            };
            let (x, ids) = (buffer(&x), buffer(&ids));
            let bound = [vec![&x, &out, &ids], planes.iter().collect()].concat();
            run(&format!("matmul_experts.{}", encoding.name()), params, &bound).unwrap();
        }
        let made: Vec<f64> = (0..tokens * chosen * rows).map(|i| {
            let (slot, row) = (i / rows, i % rows);
            let at = (ids[slot] as usize * rows + row) * cols;
            let x = &x[slot / chosen * cols..][..cols];
            values[at..][..cols].iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum()
        }).collect();
        assert_close(&contents(&out), &made, 1e-5);
        let params = CombineExpertsParams {
            tokens: tokens as u32,
            chosen: chosen as u32,
            cols: rows as u32,
        };
        let sums = zeros::<f32>(tokens * rows);
        run("combine_experts", params, &[&out, &buffer(&weights), &sums]).unwrap();
        let expected: Vec<f64> = (0..tokens * rows).map(|i| {
            let (t, row) = (i / rows, i % rows);
            (t * chosen..(t + 1) * chosen)
                .map(|slot| f64::from(weights[slot]) * made[slot * rows + row])
                .sum()
        }).collect();
        assert_close(&contents(&sums), &expected, 1e-5);
    }

    #[test]
    fn rows(rows in 1usize..5, cols in 1usize..300, seed in 0u32..1000) {
        let params = RowsParams { rows: rows as u32, cols: cols as u32 };
        let x: Vec<f32> = numbers(seed, rows * cols).iter().map(|x| x * 20.0).collect();
        let out = zeros::<f32>(rows * cols);
        run("softmax", params, &[&buffer(&x), &out]).unwrap();
        let expected: Vec<f64> = x.chunks(cols).flat_map(|x| {
            let total: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
            x.iter().map(move |x| f64::from(*x).exp() / total)
        }).collect();
        assert_close(&contents(&out), &expected, 1e-6);
        // Coarse, so that some are equal.
        let x: Vec<f32> = x.iter().map(|x| x.round()).collect();
        let out = zeros::<u32>(rows);
        run("argmax", params, &[&buffer(&x), &out]).unwrap();
        let expected: Vec<u32> = x.chunks(cols).map(|x| {
            let best = x.iter().copied().fold(f32::MIN, f32::max);
            x.iter().position(|x| *x == best).unwrap() as u32
        }).collect();
        prop_assert_eq!(contents::<u32>(&out), expected);
        let indices: Vec<u32> = (0..7).map(|i| (i * 3 + seed) % rows as u32).collect();
        let params = GatherParams { outer: 1, n: rows as u32, inner: cols as u32, count: 7 };
        let out = zeros::<f32>(7 * cols);
        run("gather", params, &[&buffer(&x), &buffer(&indices), &out]).unwrap();
        let expected: Vec<f32> =
            indices.iter().flat_map(|i| x[*i as usize * cols..][..cols].to_vec()).collect();
        prop_assert_eq!(contents::<f32>(&out), expected);
    }

    #[test]
    fn gated(
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
        // Close beside what goes in, and in the tail, where next to nothing comes out, beside that
        // too; the bound there is wider, since e^-x²/2 multiplies x's relative rounding by x².
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
    fn elementwise(len in 1usize..40_000, b_len in 1usize..2000, op in 0u32..3, seed in 0u32..1000) {
        let (a, b) = (numbers(seed, len), numbers(seed + 1, b_len));
        let params = ElementwiseParams { len: len as u32, b_len: b_len as u32, op, scale: 0.7 };
        let out = zeros::<f32>(len);
        run("elementwise", params, &[&buffer(&a), &buffer(&b), &out]).unwrap();
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

/// A seed that no other numbers of a test have.
fn seed_of_norms(head_dim: usize) -> u32 {
    7000 + head_dim as u32
}

/// A batch over a paged cache, with random shapes.
#[derive(Clone, Debug)]
struct Batch {
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    page_size: usize,
    /// For each sequence: positions before the batch, and tokens in it.
    sequences: Vec<(usize, usize)>,
    rotary: usize,
    interleaved: bool,
    seed: u32,
}

impl Batch {
    const MAX_POSITIONS: usize = 160;

    fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn width(&self) -> usize {
        self.head_dim.next_multiple_of(4)
    }

    fn max_pages(&self) -> usize {
        Self::MAX_POSITIONS.div_ceil(self.page_size)
    }

    fn pages(&self) -> usize {
        self.max_pages() * self.sequences.len()
    }

    /// Element `(sequence, position, head, 0)` of a cache.
    fn row(&self, sequence: usize, position: usize, head: usize) -> usize {
        let page = self.table()[sequence * self.max_pages() + position / self.page_size] as usize;
        ((page * self.page_size + position % self.page_size) * self.kv_heads + head) * self.width()
    }

    fn cache_len(&self) -> usize {
        self.pages() * self.page_size * self.kv_heads * self.width()
    }

    /// Pages in reverse order, so that nothing lies where one would guess it.
    fn table(&self) -> Vec<u32> {
        (0..self.pages() as u32).rev().collect()
    }

    fn index(&self) -> Vec<[u32; 2]> {
        let tokens = |(s, &(before, count)): (usize, &(usize, usize))| {
            (before..before + count).map(move |p| [s as u32, p as u32])
        };
        self.sequences.iter().enumerate().flat_map(tokens).collect()
    }

    fn turns(&self) -> Vec<[f32; 2]> {
        let half = self.rotary / 2;
        (0..Self::MAX_POSITIONS * half)
            .map(|i| {
                let angle = (i / half) as f32 * 0.3 / (1.0 + (i % half) as f32);
                [angle.cos(), angle.sin()]
            })
            .collect()
    }

    /// A head after rotation to `position`.
    fn rotated(&self, head: &[f32], position: usize) -> Vec<f64> {
        let half = self.rotary / 2;
        let turns = self.turns();
        let mut out: Vec<f64> = head.iter().map(|x| f64::from(*x)).collect();
        for i in 0..half {
            let (a, b) = if self.interleaved {
                (2 * i, 2 * i + 1)
            } else {
                (i, i + half)
            };
            let [cos, sin] = turns[position * half + i].map(f64::from);
            let (u, v) = (f64::from(head[a]), f64::from(head[b]));
            (out[a], out[b]) = (u * cos - v * sin, v * cos + u * sin);
        }
        out
    }
}

fn batches() -> impl Strategy<Value = Batch> {
    (
        (1usize..4, 1usize..5, 1usize..70, 1usize..20),
        proptest::collection::vec((0usize..80, 1usize..80), 1..4),
        (0usize..70, any::<bool>(), 0u32..1000),
    )
        .prop_map(
            |((kv_heads, group, head_dim, page_size), sequences, rest)| Batch {
                kv_heads,
                group,
                head_dim,
                page_size,
                sequences,
                rotary: rest.0.min(head_dim) / 2 * 2,
                interleaved: rest.1,
                seed: rest.2,
            },
        )
}

/// The words that a cache's heads take in a format, and the heads as they are stored there.
fn stored(b: &Batch, format: CacheFormat, padded: &[f32]) -> (Vec<u32>, Vec<f32>) {
    let heads = Heads::new(format, b.head_dim as u32);
    let mut words = vec![0; padded.len() / b.width() * heads.words];
    let mut kept = padded.to_vec();
    let each = kept.chunks_exact_mut(b.width());
    for (head, words) in each.zip(words.chunks_exact_mut(heads.words)) {
        heads.encode(&head[..b.head_dim], words);
        decode(heads, words, &[0], &mut head[..b.head_dim]);
    }
    (words, kept)
}

fn check_attention(b: &Batch, format: CacheFormat, window: u32, softcap: f32, both_ways: bool) {
    let index = b.index();
    let (heads, head_dim) = (b.heads(), b.head_dim);
    let q = numbers(b.seed, index.len() * heads * head_dim);
    let [(k_words, k), (v_words, v)] =
        [1, 2].map(|i| stored(b, format, &numbers(b.seed + i, b.cache_len())));
    let params = AttentionParams {
        tokens: index.len() as u32,
        heads: heads as u32,
        kv_heads: b.kv_heads as u32,
        head_dim: head_dim as u32,
        page_size: b.page_size as u32,
        max_pages: b.max_pages() as u32,
        window,
        scale: 0.7,
        softcap,
    };
    let out = zeros::<f32>(q.len());
    let ends = b.sequences.iter().map(|(before, count)| before + count);
    let lengths: Vec<usize> = ends.collect();
    let words: Vec<u32> = lengths.iter().map(|length| *length as u32).collect();
    let bound = [
        &buffer(&q),
        &buffer(&k_words),
        &buffer(&v_words),
        &buffer(&index),
        &buffer(&b.table()),
        &out,
        &buffer(&words),
    ];
    match both_ways {
        true => run(&format.op("full_attention"), params, &bound).unwrap(),
        false => run(&format.op("attention"), params, &bound[..6]).unwrap(),
    }
    let mut expected = Vec::new();
    for (t, [sequence, position]) in index.iter().map(|i| i.map(|i| i as usize)).enumerate() {
        for head in 0..heads {
            let q = &q[(t * heads + head) * head_dim..][..head_dim];
            let first = if window == 0 {
                0
            } else {
                (position + 1).saturating_sub(window as usize)
            };
            let end = match (both_ways, window) {
                (false, _) => position + 1,
                (true, 0) => lengths[sequence],
                (true, window) => lengths[sequence].min(position + window as usize),
            };
            let rows: Vec<usize> = (first..end)
                .map(|p| b.row(sequence, p, head / b.group))
                .collect();
            let mut weights: Vec<f64> = rows
                .iter()
                .map(|row| {
                    let pairs = q.iter().zip(&k[*row..]);
                    let dot: f64 = pairs.map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                    let (score, cap) = (dot * f64::from(0.7f32), f64::from(softcap));
                    if softcap == 0.0 {
                        score
                    } else {
                        cap * (score / cap).tanh()
                    }
                    .exp()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|w| *w /= total);
            for d in 0..head_dim {
                let pairs = weights.iter().zip(&rows);
                expected.push(pairs.map(|(w, row)| w * f64::from(v[row + d])).sum());
            }
        }
    }
    assert_close(&contents(&out), &expected, 2e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn attention(
        b in batches(),
        window in 0u32..50,
        softcap in 0u32..2,
        both_ways in any::<bool>(),
    ) {
        for format in CacheFormat::ALL {
            check_attention(&b, format, window.saturating_sub(10), softcap as f32 * 5.0, both_ways);
        }
    }

    #[test]
    fn rope(b in batches(), pad in [0usize..5, 0usize..5]) {
        let index = b.index();
        let width = b.heads() * b.head_dim;
        let stride = pad[0] + width + pad[1];
        let x = numbers(b.seed, index.len() * stride);
        let params = RopeParams {
            tokens: index.len() as u32,
            heads: b.heads() as u32,
            head_dim: b.head_dim as u32,
            rotary_dim: b.rotary as u32,
            stride: stride as u32,
            offset: pad[0] as u32,
            interleaved: b.interleaved.into(),
        };
        let bound = buffer(&x);
        let table = [b.turns(), vec![[0.0; 2]]].concat();
        run("rope", params, &[&bound, &buffer(&index), &buffer(&table)]).unwrap();
        let mut expected: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        for (t, [_, position]) in index.iter().enumerate() {
            for head in 0..b.heads() {
                let at = t * stride + pad[0] + head * b.head_dim;
                let rotated = b.rotated(&x[at..at + b.head_dim], *position as usize);
                expected[at..at + b.head_dim].copy_from_slice(&rotated);
            }
        }
        assert_close(&contents(&bound), &expected, 1e-6);
    }

    #[test]
    fn cache_writes(b in batches()) {
        let index = b.index();
        let (heads, kv_heads, head_dim) = (b.heads(), b.kv_heads, b.head_dim);
        let width = (heads + 2 * kv_heads) * head_dim;
        let qkv = numbers(b.seed, index.len() * width);
        let old = numbers(b.seed + 1, b.cache_len());
        let expect = |rotate: bool, which: usize| {
            let mut cache: Vec<f64> = old.iter().map(|x| f64::from(*x)).collect();
            for (t, [sequence, position]) in index.iter().map(|i| i.map(|i| i as usize)).enumerate() {
                for head in 0..kv_heads {
                    let at = t * width + (heads + which * kv_heads + head) * head_dim;
                    let from = &qkv[at..at + head_dim];
                    let values = match rotate && which == 0 {
                        true => b.rotated(from, position),
                        false => from.iter().map(|x| f64::from(*x)).collect(),
                    };
                    let row = b.row(sequence, position, head);
                    cache[row..row + b.width()].fill(0.0);
                    cache[row..row + head_dim].copy_from_slice(&values);
                }
            }
            cache
        };
        let params = KvWriteParams {
            tokens: index.len() as u32,
            kv_heads: kv_heads as u32,
            head_dim: head_dim as u32,
            k_stride: width as u32,
            k_offset: (heads * head_dim) as u32,
            v_stride: width as u32,
            v_offset: ((heads + kv_heads) * head_dim) as u32,
            page_size: b.page_size as u32,
            max_pages: b.max_pages() as u32,
        };
        let (x, index_buffer, table) = (buffer(&qkv), buffer(&index), buffer(&b.table()));
        let (k, v) = (buffer(&old), buffer(&old));
        // Keys and values come from one buffer, as after a fused projection.
        run("kv_write.f32", params, &[&x, &x, &index_buffer, &table, &k, &v]).unwrap();
        assert_close(&contents(&k), &expect(false, 0), 0.0);
        assert_close(&contents(&v), &expect(false, 1), 0.0);
        let params = RopeKvWriteParams {
            tokens: index.len() as u32,
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            head_dim: head_dim as u32,
            rotary_dim: b.rotary as u32,
            interleaved: b.interleaved.into(),
            page_size: b.page_size as u32,
            max_pages: b.max_pages() as u32,
            eps: 1e-5,
            weight_offset: 1.0,
        };
        let (k, v) = (buffer(&old), buffer(&old));
        let q = zeros::<f32>(index.len() * heads * head_dim);
        let turns = buffer(&[b.turns(), vec![[0.0; 2]]].concat());
        run("rope_kv_write.f32", params, &[&x, &q, &index_buffer, &turns, &table, &k, &v]).unwrap();
        assert_close(&contents(&k), &expect(true, 0), 1e-6);
        assert_close(&contents(&v), &expect(true, 1), 0.0);
        let queries: Vec<f64> = index.iter().enumerate().flat_map(|(t, [_, position])| {
            let row = &qkv[t * width..][..heads * head_dim];
            row.chunks(head_dim).flat_map(|head| b.rotated(head, *position as usize)).collect::<Vec<_>>()
        }).collect();
        assert_close(&contents(&q), &queries, 1e-6);

        // With norms: as without, of what was normalised before.
        let norms = numbers(seed_of_norms(head_dim), 2 * head_dim);
        let normed: Vec<f32> = qkv.chunks(width).flat_map(|row| {
            row.chunks(head_dim).enumerate().flat_map(|(head, x)| {
                let weights = match head {
                    _ if head < heads => &norms[..head_dim],
                    _ if head < heads + kv_heads => &norms[head_dim..],
                    _ => return x.to_vec(),
                };
                let squares: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
                let scale = 1.0 / (squares / head_dim as f64 + 1e-5).sqrt();
                let normed = x.iter().zip(weights);
                normed.map(|(x, w)| (f64::from(*x) * scale * (f64::from(*w) + 1.0)) as f32).collect()
            }).collect::<Vec<_>>()
        }).collect();
        let made = |op: &str, x: &[f32], more: &[&HostBuffer]| {
            let (k, v, x) = (buffer(&old), buffer(&old), buffer(x));
            let q = zeros::<f32>(index.len() * heads * head_dim);
            let bound = [&[&x, &q, &index_buffer, &turns, &table, &k, &v][..], more].concat();
            run(op, params, &bound).unwrap();
            [q, k, v].map(|buffer| contents::<f32>(&buffer))
        };
        let expected = made("rope_kv_write.f32", &normed, &[]);
        let got = made("norm_rope_kv_write.f32", &qkv, &[&buffer(&norms)]);
        for (got, expected) in got.iter().zip(&expected) {
            let expected: Vec<f64> = expected.iter().map(|x| f64::from(*x)).collect();
            assert_close(got, &expected, 2e-6);
        }
    }
}

#[test]
fn argmax_of_what_is_no_number() {
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

#[test]
fn every_op_has_its_twin() {
    for op in [
        "rms_norm",
        "add_rms_norm",
        "rope",
        "kv_write.f32",
        "rope_kv_write.f32",
        "attention.f32",
        "gated",
        "elementwise",
        "softmax",
        "argmax",
        "gather",
        "sample",
    ] {
        assert!(twin(op).is_some(), "{op}");
    }
    for encoding in Encoding::on_devices() {
        assert!(twin(&format!("matmul.{}", encoding.name())).is_some());
        assert!(twin(&format!("matmul_experts.{}", encoding.name())).is_some());
        assert!(twin(&format!("embed.{}", encoding.name())).is_some());
    }
    assert!(twin("matmul").is_none() && twin("matmul.q9").is_none() && twin("rope.f32").is_none());
}

#[test]
fn what_may_overlap() {
    let all = buffer(&[1.0f32, 2.0, 3.0, 4.0]);
    let params = ElementwiseParams {
        len: 2,
        b_len: 2,
        op: 0,
        scale: 0.0,
    };
    let call = |a: usize, b: usize, out: usize| {
        let part = |number, at: usize| bind(number, &all, 4 * at..4 * at + 8);
        call(
            "elementwise",
            params,
            &[part(1, a), part(2, b), part(3, out)],
        )
    };
    assert_eq!(call(0, 0, 2), Ok(()));
    assert_eq!(contents::<f32>(&all), [1.0, 2.0, 2.0, 4.0]);
    assert_eq!(
        call(0, 1, 2),
        Err(HostError::Overlap {
            op: "elementwise".into(),
            first: 2,
            second: 3
        })
    );
    assert_eq!(
        call(2, 0, 2),
        Err(HostError::Overlap {
            op: "elementwise".into(),
            first: 1,
            second: 3
        })
    );
}

#[test]
fn wrong_arguments_are_errors() {
    let message = |result: Result<(), HostError>| result.unwrap_err().to_string();
    let params = ElementwiseParams {
        len: 4,
        b_len: 1,
        op: 0,
        scale: 0.0,
    };
    let (four, three) = (zeros::<f32>(4), zeros::<f32>(3));
    assert_eq!(
        message(run("elementwise", params, &[&four, &four, &three])),
        "elementwise: binding 3 needs 4 elements, 3 are bound"
    );
    assert_eq!(
        message(run("elementwise", params, &[&four])),
        "elementwise: binding 2 is not bound"
    );
    assert_eq!(
        message(run("elementwise", 0u32, &[&four])),
        "elementwise: parameters take 16 bytes, 4 given"
    );
    let params = ElementwiseParams {
        len: 4,
        b_len: 4,
        op: 5,
        scale: 0.0,
    };
    assert_eq!(
        message(run(
            "elementwise",
            params,
            &[&four, &zeros::<f32>(4), &zeros::<f32>(4)]
        )),
        "elementwise: op must be 0, 1 or 2, it is 5"
    );
    let params = GatherParams {
        outer: 1,
        n: 2,
        inner: 2,
        count: 1,
    };
    assert_eq!(
        message(run("gather", params, &[&four, &buffer(&[2u32]), &three])),
        "gather: an index must be less than 2, it is 2"
    );
    let params = RowsParams { rows: 1, cols: 3 };
    let bindings = [bind(1, &four, 2..14), bind(2, &three, 0..12)];
    assert_eq!(
        message(call("softmax", params, &bindings)),
        "softmax: binding 1 is not aligned to 4 bytes"
    );
    assert_eq!(
        message(call("softmax", params, &[bind(1, &four, 0..20)])),
        "softmax: binding 1 ends at byte 20 of a buffer of 16"
    );
}

#[test]
fn sizes_that_overflow_are_errors() {
    let most = u32::MAX;
    let one = zeros::<f32>(64);
    let spare: Vec<HostBuffer> = (0..8).map(|_| zeros::<f32>(64)).collect();
    let all: Vec<&HostBuffer> = spare.iter().collect();
    let rows = RowsParams {
        rows: most,
        cols: most,
    };
    assert!(run("softmax", rows, &all).is_err());
    assert!(run("argmax", rows, &all).is_err());
    let params = MatmulParams {
        tokens: most,
        rows: most,
        cols: most - 31,
        blocks: most / 32,
        out_stride: most,
        ..Default::default()
    };
    assert!(run("matmul.q4_0", params, &all).is_err());
    let params = AttentionParams {
        tokens: most,
        heads: most,
        kv_heads: most,
        head_dim: 256,
        page_size: most,
        max_pages: most,
        ..Default::default()
    };
    assert!(run("attention.f32", params, &all).is_err());
    // One token, but a page and a sequence far outside.
    let params = AttentionParams {
        tokens: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        page_size: 1,
        max_pages: 1,
        ..Default::default()
    };
    for (index, table) in [
        ([0, 0], 16),
        ([1, 0], 0),
        ([most, 0], 0),
        ([0, 1], 0),
        ([0, most], 0),
    ] {
        let (index, table) = (buffer(&[index]), buffer(&[table]));
        let bound = [&one, all[0], all[1], &index, &table, all[2]];
        let result = run("attention.f32", params, &bound);
        assert!(matches!(result, Err(HostError::Value { .. })), "{result:?}");
    }
}

#[derive(Clone, Debug)]
struct Draw {
    logits: Vec<f32>,
    seen: Vec<u32>,
    settings: SampleSettings,
}

/// The token, after checking what else is written.
fn sampled(draw: &Draw) -> u32 {
    let vocab = draw.logits.len();
    let params = SampleParams {
        rows: 1,
        vocab: vocab as u32,
        max_biases: 1,
        score_words: 3,
    };
    let mut counts = vec![0u32; 2 * vocab];
    for token in &draw.seen {
        counts[vocab + *token as usize] = IN_PROMPT;
    }
    let settings = SampleSettings {
        sequence: 1,
        step: 2,
        position: 9,
        ..draw.settings
    };
    let (settings_buffer, counts_buffer) = (buffer(&[settings]), buffer(&counts));
    let (tokens, index, out) = (zeros::<u32>(1), zeros::<[u32; 2]>(1), zeros::<u32>(3));
    let bound = [
        &buffer(&draw.logits),
        &settings_buffer,
        &counts_buffer,
        &tokens,
        &index,
        &out,
        &zeros::<[u32; 4]>(2),
        &zeros::<u32>(9),
    ];
    run("sample", params, &bound).unwrap();
    let token = contents::<u32>(&tokens)[0];
    assert_eq!(contents::<u32>(&index), [1, 9]);
    // A logit that is not finite is reported.
    let finite = draw.logits[token as usize].is_finite();
    let reported = if finite { token } else { u32::MAX };
    assert_eq!(contents::<u32>(&out), [0, 0, reported]);
    if settings.repetition_penalty != 1.0 {
        counts[vocab + token as usize] += 1;
    }
    assert_eq!(contents::<u32>(&counts_buffer), counts);
    let after = SampleSettings {
        step: 3,
        position: 10,
        ..settings
    };
    // By bytes, for NaN's sake.
    assert_eq!(contents::<u8>(&settings_buffer), bytemuck::bytes_of(&after));
    token
}

const PLAIN: SampleSettings = SampleSettings {
    temperature: 1.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    repetition_penalty: 1.0,
    presence_penalty: 0.0,
    frequency_penalty: 0.0,
    seed: 0,
    step: 0,
    sequence: 0,
    position: 0,
    forced: DRAWN,
    biases: 0,
    scored: 0,
};

/// How often each token comes in many draws.
fn frequencies(logits: &[f32], seen: &[u32], settings: SampleSettings) -> Vec<f64> {
    let mut counts = vec![0.0; logits.len()];
    const DRAWS: u32 = 20_000;
    for seed in 0..DRAWS {
        let settings = SampleSettings { seed, ..settings };
        let draw = Draw {
            logits: logits.to_vec(),
            seen: seen.to_vec(),
            settings,
        };
        counts[sampled(&draw) as usize] += 1.0 / f64::from(DRAWS);
    }
    counts
}

fn assert_frequencies(actual: &[f64], weights: &[f64]) {
    let total: f64 = weights.iter().sum();
    for (actual, weight) in actual.iter().zip(weights) {
        // Four standard deviations of 20,000 draws, at most.
        let bound = if *weight == 0.0 { 0.0 } else { 0.0142 };
        assert!(
            (actual - weight / total).abs() <= bound,
            "{actual} for {}",
            weight / total
        );
    }
}

#[test]
fn draws_follow_the_distribution() {
    let weights = [0.1f64, 0.4, 0.25, 0.05, 0.2];
    let logits = weights.map(|w| w.ln() as f32);
    assert_frequencies(&frequencies(&logits, &[], PLAIN), &weights);
    let halved = SampleSettings {
        temperature: 0.5,
        ..PLAIN
    };
    assert_frequencies(&frequencies(&logits, &[], halved), &weights.map(|w| w * w));
    let top_k = SampleSettings { top_k: 3, ..PLAIN };
    assert_frequencies(
        &frequencies(&logits, &[], top_k),
        &[0.0, 0.4, 0.25, 0.0, 0.2],
    );
    let top_p = SampleSettings {
        top_p: 0.6,
        ..PLAIN
    };
    assert_frequencies(
        &frequencies(&logits, &[], top_p),
        &[0.0, 0.4, 0.25, 0.0, 0.0],
    );
    // Over what top-k leaves: 0.4 and 0.25 of 0.65.
    let both = SampleSettings {
        top_k: 2,
        top_p: 0.6,
        ..PLAIN
    };
    assert_frequencies(&frequencies(&logits, &[], both), &[0.0, 1.0, 0.0, 0.0, 0.0]);
    let min_p = SampleSettings {
        min_p: 0.3,
        ..PLAIN
    };
    assert_frequencies(
        &frequencies(&logits, &[], min_p),
        &[0.0, 0.4, 0.25, 0.0, 0.2],
    );
    let penalty = SampleSettings {
        repetition_penalty: 2.0,
        ..PLAIN
    };
    assert_frequencies(
        &frequencies(&logits, &[1, 4], penalty),
        &[0.1, 0.16, 0.25, 0.05, 0.04],
    );
}

#[test]
fn greedy_draws() {
    let greedy = SampleSettings {
        temperature: 0.0,
        repetition_penalty: 4.0,
        ..PLAIN
    };
    let draw = |logits: &[f32], seen: &[u32]| {
        sampled(&Draw {
            logits: logits.to_vec(),
            seen: seen.to_vec(),
            settings: greedy,
        })
    };
    assert_eq!(draw(&[1.0, 3.0, 3.0, 2.0], &[]), 1);
    assert_eq!(draw(&[1.0, 3.0, 3.0, 2.0], &[1]), 2);
    assert_eq!(draw(&[-1.0, -3.0, -5.0], &[0]), 1);
    assert_eq!(draw(&[f32::NAN; 40], &[]), 0);
    assert_eq!(
        draw(&[f32::NAN, f32::NEG_INFINITY, -1.0, f32::INFINITY], &[]),
        3
    );
}

proptest! {
    #[test]
    fn any_logits_and_settings_give_a_token(
        logits in proptest::collection::vec(
            prop_oneof![Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY), any::<f32>(), -9f32..9.0],
            1..70,
        ),
        temperature in prop_oneof![Just(f32::NAN), any::<f32>(), 0f32..2.0],
        top_k in 0u32..80,
        top_p in prop_oneof![Just(f32::NAN), -1f32..2.0],
        min_p in prop_oneof![Just(f32::NAN), -1f32..2.0],
        repetition_penalty in prop_oneof![Just(0f32), Just(f32::NAN), any::<f32>()],
        seed: u32,
    ) {
        let settings =
            SampleSettings { temperature, top_k, top_p, min_p, repetition_penalty, seed, ..PLAIN };
        let len = logits.len();
        let token = sampled(&Draw { logits, seen: vec![0], settings });
        prop_assert!((token as usize) < len);
    }
}
