//! Attention where numbers are large, far apart or not finite.

use wisp_shaders::{CacheFormat, params::AttentionParams};
use wisp_tests::kernel_rewritten;
use wisp_tests::kernels::{
    Case, F16_BOUND, Memory, cache, check_fitting, check_outputs, exact, noise, twin_outputs,
};

use super::{TILED_OPS, attention, chunks, tiled, with_lengths};
use crate::paged::{Batch, batch, sink_batch};

/// Runs a case of `attention` with the kernels for many tokens and with those that compute chunks.
fn check_causal(b: &Batch, format: CacheFormat, case: &Case) {
    check_fitting(&format.op("attention_tiled"), &[tiled(b, case.clone())]);
    let (op, split) = chunks(b, case.clone());
    check_fitting(&format.op(op), &[split]);
}

/// Scores that grow by half a unit from position to position, or fall: the largest one moves on with every tile.
fn growing_scores(b: &Batch, format: CacheFormat, sign: f32, mut case: Case) -> Case {
    let (tokens, width) = (b.index().len(), b.head_dim.next_multiple_of(4));
    let queries = (0..tokens * b.heads * b.head_dim).map(|i| match i % b.head_dim {
        0 => sign * 0.5,
        _ => 0.0,
    });
    case.memory[0] = exact(&queries.collect::<Vec<f32>>());
    // Every format holds these numbers: the largest one of a block is 127.
    let mut keys = vec![0f32; b.cache_len()];
    let table = b.table();
    for (sequence, (before, count)) in b.sequences.iter().enumerate() {
        for position in 0..before + count {
            let page = table[sequence * b.max_pages() + position / b.page_size] as usize;
            let first = (page * b.page_size + position % b.page_size) * b.kv_heads;
            for key in keys[first * width..(first + b.kv_heads) * width].chunks_exact_mut(width) {
                key[..2].copy_from_slice(&[position as f32, 127.0]);
            }
        }
    }
    case.memory[1] = cache(format, b.head_dim, &keys, None);
    let mut params: AttentionParams = bytemuck::pod_read_unaligned(&case.params);
    params.scale = 1.0;
    Case {
        params: bytemuck::bytes_of(&params).to_vec(),
        ..case
    }
}

#[test]
fn weights_follow_the_largest_score() {
    let batches = [
        sink_batch([4, 2, 64, 16], 0, 0.0, &[(0, 100), (60, 9)]),
        batch([2, 1, 128, 16], 40, 0.0, &[(80, 40)]),
        batch([2, 1, 200, 3], 0, 0.0, &[(60, 9)]),
        batch([2, 1, 256, 16], 0, 0.0, &[(0, 100)]),
        batch([2, 1, 512, 16], 0, 0.0, &[(0, 100)]),
        Batch {
            value_dim: 512,
            ..batch([6, 1, 576, 16], 0, 0.0, &[(300, 2)])
        },
    ];
    for format in CacheFormat::ALL {
        for (op, of) in TILED_OPS {
            let grown = |b, sign| tiled(b, growing_scores(b, format, sign, of(b, format)));
            let cases = batches
                .iter()
                .flat_map(|b| [1.0, -1.0].map(|sign| grown(b, sign)));
            check_fitting(&format.op(op), &cases.collect::<Vec<_>>());
        }
        for (b, sign) in batches.iter().flat_map(|b| [(b, 1.0), (b, -1.0)]) {
            let (op, case) = chunks(b, growing_scores(b, format, sign, attention(b, format)));
            check_fitting(&format.op(op), &[case]);
        }
    }
}

/// The large number of each query meets a 0 in each key, so that the scores are those of the others.
#[test]
fn queries_beyond_half_precision_are_scaled() {
    let b = batch([4, 2, 64, 16], 0, 0.0, &[(30, 40)]);
    for format in CacheFormat::ALL {
        let mut case = attention(&b, format);
        let mut queries = noise(1, b.index().len() * b.heads * b.head_dim);
        queries
            .iter_mut()
            .skip(5)
            .step_by(b.head_dim)
            .for_each(|q| *q = 1e6);
        case.memory[0] = exact(&queries);
        let mut keys = noise(2, b.cache_len());
        keys.iter_mut()
            .skip(5)
            .step_by(b.head_dim)
            .for_each(|k| *k = 0.0);
        case.memory[1] = cache(format, b.head_dim, &keys, None);
        check_causal(&b, format, &case);
        let whole = tiled(&b, with_lengths(case, &[70]));
        check_fitting(&format.op("full_attention_tiled"), &[whole]);
    }
}

/// Scores so large that floats near them are whole numbers apart: each result is the value of the largest score.
#[test]
fn scores_may_be_larger_than_the_floats_that_have_fractions() {
    for dim in [64, 128, 256, 512] {
        let b = batch([4, 2, dim, 16], 0, 0.0, &[(30, 80)]);
        let scaled = |seed, len, by: f32| -> Vec<f32> {
            noise(seed, len).into_iter().map(|x| x * by).collect()
        };
        for format in CacheFormat::ALL {
            let mut case = attention(&b, format);
            case.memory[0] = exact(&scaled(1, b.index().len() * b.heads * dim, 16384.0));
            case.memory[1] = cache(format, dim, &scaled(2, b.cache_len(), 8192.0), None);
            check_causal(&b, format, &case);
        }
    }
}

/// Large elements of each query, whose products with each key cancel.
#[test]
fn outliers_that_cancel_take_no_bits_from_the_other_elements() {
    for dim in [64, 128, 256, 512] {
        let b = batch([4, 2, dim, 16], 0, 0.0, &[(30, 40)]);
        let changed = |seed, len, change: fn(&mut [f32])| {
            let mut all = noise(seed, len);
            all.chunks_exact_mut(dim).for_each(change);
            all
        };
        let queries = changed(1, b.index().len() * b.heads * dim, |q| {
            q[4] *= 30.0;
            q[37] = q[4];
        });
        let keys = changed(2, b.cache_len(), |k| k[37] = -k[4]);
        for format in [CacheFormat::F32, CacheFormat::F16] {
            let mut case = attention(&b, format);
            case.memory[0] = exact(&queries);
            case.memory[1] = cache(format, dim, &keys, None);
            check_causal(&b, format, &case);
        }
    }
}

/// Sums of many products of one sign, in which errors of one sign would add up.
#[test]
fn errors_do_not_grow_with_the_positions() {
    for dim in [64, 128, 320] {
        let b = batch([2, 1, dim, 16], 0, 0.0, &[(2000, 20)]);
        for format in CacheFormat::ALL {
            let mut case = attention(&b, format);
            let values = noise(3, b.cache_len());
            let values: Vec<f32> = values.iter().map(|value| value.abs()).collect();
            case.memory[2] = cache(format, dim, &values, None);
            check_causal(&b, format, &case);
        }
    }
}

/// The products of bytes and scales are exact at any scale, also where halves are subnormal and where they almost overflow.
#[test]
fn scales_may_be_as_small_or_large_as_halves() {
    let format = CacheFormat::Q8_0;
    for dim in [64, 128, 256, 512] {
        let b = batch([4, 2, dim, 16], 0, 0.0, &[(30, 40)]);
        for factor in [2f32.powi(-17), 2f32.powi(-8), 65024.0] {
            let scaled = |seed, len, factor: f32| -> Vec<f32> {
                noise(seed, len).into_iter().map(|x| x * factor).collect()
            };
            let mut case = attention(&b, format);
            let queries = scaled(1, b.index().len() * b.heads * dim, 4.0 / factor);
            case.memory[0] = exact(&queries);
            for i in [1, 2] {
                let elements = scaled(i as u32 + 1, b.cache_len(), factor);
                case.memory[i] = cache(format, dim, &elements, None);
            }
            check_causal(&b, format, &case);
        }
    }
}

/// A cache in half precision has room for an even number of vec4s, and nothing writes the one that a head lacks.
#[test]
fn unused_memory_of_a_cache_may_be_nan() {
    let batches = [
        batch([4, 2, 20, 16], 0, 0.0, &[(0, 70)]),
        batch([2, 1, 36, 3], 0, 0.0, &[(40, 30)]),
        batch([2, 1, 100, 16], 0, 0.0, &[(0, 20), (33, 9)]),
        batch([2, 1, 260, 16], 0, 0.0, &[(0, 20), (33, 9)]),
    ];
    let format = CacheFormat::F16;
    for b in &batches {
        let head_words = format.head_words(b.head_dim as u32) as usize;
        let with_nan = |memory: &Memory| {
            let mut words: Vec<u32> = bytemuck::pod_collect_to_vec(memory.bytes());
            for head in words.chunks_exact_mut(head_words) {
                head[2 * b.head_dim.div_ceil(4)..].fill(u32::MAX);
            }
            exact(&words)
        };
        let tiles = TILED_OPS.map(|(op, of)| (op, tiled(b, of(b, format))));
        let split = chunks(b, attention(b, format));
        for (op, mut case) in tiles.into_iter().chain([split]) {
            for memory in &mut case.memory[1..3] {
                *memory = with_nan(memory);
            }
            check_fitting(&format.op(op), &[case]);
        }
    }
}

/// Two sequences in one tile, of which one has keys and values that are not numbers.
#[test]
fn numbers_that_are_not_finite_stay_in_their_sequence() {
    let b = batch([4, 2, 64, 16], 0, 0.0, &[(3, 5), (20, 7)]);
    let (width, table) = (b.page_size * b.kv_heads * b.head_dim, b.table());
    let with_nan = |seed| {
        let mut all = noise(seed, b.cache_len());
        for page in &table[b.max_pages()..] {
            all[*page as usize * width..][..width].fill(f32::NAN);
        }
        all
    };
    for format in [CacheFormat::F32, CacheFormat::F16] {
        for (op, of) in TILED_OPS {
            let op = format.op(op);
            let mut case = tiled(&b, of(&b, format));
            let expected: Vec<f32> = bytemuck::pod_collect_to_vec(&twin_outputs(&op, &case)[5]);
            for i in [1, 2] {
                case.memory[i] = cache(format, b.head_dim, &with_nan(i as u32 + 1), None);
            }
            let finite = &expected[..5 * b.heads * b.value_dim];
            check_outputs(&op, &[case], |_, outputs| {
                let actual: Vec<f32> = bytemuck::pod_collect_to_vec(&outputs[5]);
                let mut both = actual.iter().zip(finite);
                let is_wrong =
                    |(a, b): (&f32, &f32)| a.is_nan() || f64::from((a - b).abs()) > F16_BOUND;
                let wrong = both.position(is_wrong);
                let message = |i| format!("result {i} is wrong");
                wrong.map(message).into_iter().collect()
            });
        }
    }
}

/// The instructions that CUDA puts in the place of functions do what the functions say in WGSL.
#[test]
fn instructions_do_what_their_wgsl_says() {
    for format in [CacheFormat::F16, CacheFormat::Q8_0] {
        for (kernel, b) in [
            (
                "mma_head64",
                sink_batch([3, 3, 36, 16], 40, 5.0, &[(100, 67), (3, 2)]),
            ),
            (
                "mma_head128",
                sink_batch([4, 2, 128, 16], 0, 0.0, &[(40, 20), (0, 3)]),
            ),
            (
                "mma_head256",
                sink_batch([4, 2, 196, 16], 0, 5.0, &[(20, 15), (0, 3)]),
            ),
        ] {
            let name = format!("{}.{kernel}", format.op("attention_tiled"));
            let cases = [tiled(&b, attention(&b, format))];
            kernel_rewritten::check(&name, &cases, kernel_rewritten::without_intrinsics);
        }
        for (op, dim) in [("attention_split", 100), ("attention_split_wide", 324)] {
            let name = format!("{}.mma", format.op(op));
            let b = sink_batch([5, 1, dim, 16], 0, 5.0, &[(300, 2)]);
            let (_, case) = chunks(&b, attention(&b, format));
            kernel_rewritten::check(&name, &[case], kernel_rewritten::without_intrinsics);
        }
    }
}
