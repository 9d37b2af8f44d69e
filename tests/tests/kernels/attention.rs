//! `attention` and `full_attention`, in tiles and in chunks as well.

mod numerics;

use std::borrow::Cow;

use proptest::prelude::*;
use wisp_shaders::{
    CacheFormat,
    params::{AttentionParams, CHUNK_STEP, MAX_PARTS, WIDE_SPLIT_HEADS},
};
use wisp_tests::guarded::{Hostile, check_hostile, invalid_indices};
use wisp_tests::kernels::{Case, Memory, cache, case, check, check_fitting, close, exact, noise};
use wisp_tests::sample;

use crate::kv_write::{key_write, kv_write};
use crate::paged::{
    BATCHES, Batch, HALF, HOSTILE_BATCH, HOSTILE_TOKENS, batch, chunked_batch, hostile_index,
    latent_batch, moved_index, moved_pages, sink_batch,
};

/// Batches for kernels that compute tiles and chunks: several tiles of rows and of positions, and several
/// sequences in one tile.
const TILED: &[Batch] = &[
    batch([9, 3, 64, 16], 0, 0.0, &[(0, 70)]),
    sink_batch([8, 2, 128, 32], 0, 0.0, &[(90, 20), (0, 3), (33, 9)]),
    batch([2, 1, 256, 16], 0, 5.0, &[(40, 50), (0, 1)]),
    batch([128, 16, 64, 16], 0, 0.0, &[(5, 9)]),
    sink_batch([16, 1, 100, 3], 0, 0.0, &[(7, 5), (50, 1), (64, 2)]),
    sink_batch([3, 3, 36, 16], 40, 5.0, &[(100, 67), (3, 2)]),
    chunked_batch([3, 3, 36, 16], 40, &[(100, 67), (3, 2)]),
    latent_batch([16, 1, 96, 64, 16], &[(7, 5), (50, 1), (64, 2)]),
    latent_batch([4, 1, 290, 120, 16], &[(40, 30)]),
    latent_batch([6, 1, 192, 128, 16], &[(7, 35), (50, 1)]),
    sink_batch([4, 2, 204, 3], 20, 5.0, &[(30, 40), (0, 5)]),
    sink_batch([4, 2, 128, 64], 0, 0.0, &[(1000, 3), (600, 20)]),
];

/// Batches with heads of more than 256 elements.
const WIDE: &[Batch] = &[
    sink_batch([6, 1, 257, 3], 0, 0.0, &[(0, 9), (33, 1)]),
    batch([2, 2, 512, 16], 5, 5.0, &[(40, 3)]),
    batch([3, 1, 511, 16], 0, 0.0, &[(70, 1), (3, 30)]),
    // Latent attention of DeepSeek, and smaller values.
    latent_batch([16, 1, 576, 512, 16], &[(70, 1), (3, 9)]),
    latent_batch([5, 1, 290, 255, 3], &[(40, 2), (0, 1)]),
];

/// Batches with such heads and long sequences for kernels that compute chunks.
const WIDE_LONG: &[Batch] = &[
    sink_batch([8, 1, 512, 16], 0, 0.0, &[(450, 1), (150, 1)]),
    batch([4, 2, 340, 3], 300, 5.0, &[(899, 1), (40, 1)]),
    batch([5, 1, 260, 16], 0, 0.0, &[(290, 1), (10, 3)]),
    latent_batch([6, 1, 576, 512, 16], &[(450, 1), (150, 1)]),
    latent_batch([11, 1, 576, 512, 16], &[(450, 1), (150, 2)]),
    latent_batch([3, 1, 575, 301, 3], &[(290, 2)]),
];

/// Batches with long sequences for kernels that compute chunks.
const LONG: &[Batch] = &[
    // Chunks of one step, some of them empty.
    sink_batch([32, 8, 128, 16], 0, 0.0, &[(699, 1), (150, 1)]),
    batch([128, 16, 64, 32], 0, 0.0, &[(300, 1)]),
    // More positions than whole steps.
    batch([7, 1, 80, 3], 0, 5.0, &[(449, 2)]),
    // Two blocks of query heads, the second one incomplete.
    sink_batch([24, 2, 36, 16], 0, 0.0, &[(290, 1), (10, 3)]),
    batch([2, 1, 256, 16], 300, 0.0, &[(900, 1), (40, 1)]),
    chunked_batch([4, 2, 20, 16], 300, &[(899, 1), (900, 1), (740, 1)]),
    // So many tokens that chunks are several steps.
    batch([1, 1, 5, 64], 0, 0.0, &[(2000, 47), (1000, 1)]),
    // One token of a long text.
    batch([4, 1, 128, 64], 0, 0.0, &[(16_383, 1)]),
    latent_batch([9, 1, 120, 90, 16], &[(450, 1), (150, 1)]),
];

fn attention(b: &Batch, format: CacheFormat) -> Case {
    let tables = (b.index(), b.table());
    attention_of(b, format, &tables.0, &tables.1)
}

fn attention_of(b: &Batch, format: CacheFormat, index: &[[u32; 2]], table: &[u32]) -> Case {
    let tokens = index.len();
    let params = AttentionParams {
        tokens: tokens as u32,
        heads: b.heads as u32,
        kv_heads: b.kv_heads as u32,
        head_dim: b.head_dim as u32,
        value_dim: b.value_dim as u32,
        page_size: b.page_size as u32,
        max_pages: b.max_pages() as u32,
        window: b.window,
        chunked: b.chunked.into(),
        scale: 1.0 / (b.head_dim as f32).sqrt(),
        softcap: b.softcap,
        has_sinks: b.sinks.into(),
    };
    let len = tokens * b.heads * b.value_dim;
    let memory = vec![
        exact(&noise(1, tokens * b.heads * b.head_dim)),
        b.cache(format, 2, None),
        b.cache(format, 3, None),
        exact(index),
        exact(table),
        close(len, 4e-6),
        sinks(b),
    ];
    case(params, memory, &[b.heads, tokens], b.head_dim)
}

/// Makes a case of `attention` or `full_attention` of a batch.
type Make = fn(&Batch, CacheFormat) -> Case;

/// The ops that compute tiles, and the cases that [`tiled`] makes theirs.
const TILED_OPS: [(&str, Make); 2] = [
    ("attention_tiled", attention),
    ("full_attention_tiled", full_attention),
];

/// Sinks above and below most scores.
fn sinks(b: &Batch) -> Memory {
    let sinks = noise(7, b.heads);
    exact(&sinks.iter().map(|sink| 6.0 * sink).collect::<Vec<_>>())
}

/// Makes a case of `attention` or `full_attention` one of a sibling.
type Form = fn(&Batch, Case) -> Case;

/// A case of `attention` or `full_attention` as it is.
fn whole(_: &Batch, case: Case) -> Case {
    case
}

/// A case of `attention` or `full_attention` for the kernels that compute tiles.
fn tiled(b: &Batch, case: Case) -> Case {
    let rows = case.grid[1] * b.heads / b.kv_heads;
    Case {
        grid: vec![b.kv_heads, rows],
        ..case
    }
}

/// The words of the parts that `attention_split` writes.
fn part_words(b: &Batch) -> usize {
    MAX_PARTS as usize * b.heads * (b.value_dim.next_multiple_of(4) + 4)
}

/// A case of `attention` for the kernels that compute chunks.
fn split(b: &Batch, case: Case) -> Case {
    split_in(8, b, case)
}

/// The same for heads of more than 256 elements.
fn split_wide(b: &Batch, case: Case) -> Case {
    split_in(WIDE_SPLIT_HEADS as usize, b, case)
}

/// The same for heads of any size, and the op.
fn chunks(b: &Batch, case: Case) -> (&'static str, Case) {
    match b.head_dim > 256 {
        true => ("attention_split_wide", split_wide(b, case)),
        false => ("attention_split", split(b, case)),
    }
}

/// The same with up to `at_once` query heads of a KV head in one workgroup.
fn split_in(at_once: usize, b: &Batch, mut case: Case) -> Case {
    let group = b.heads / b.kv_heads;
    let capacity = b.max_pages() * b.page_size;
    let reach = match b.window as usize {
        0 => capacity,
        window => window.min(capacity),
    };
    // Each of the two is written or left as it is.
    case.memory[5] = close(case.grid[1] * b.heads * b.value_dim, 4e-6);
    case.memory.push(close(part_words(b), 4e-6));
    Case {
        grid: vec![
            b.kv_heads * group.div_ceil(at_once) * reach.max(CHUNK_STEP as usize),
            case.grid[1],
        ],
        cols: group,
        ..case
    }
}

/// A merge of random parts, some of them empty.
fn combine(b: &Batch) -> Case {
    let tokens = b.index().len();
    let attention = attention(b, CacheFormat::F32);
    let mut parts = noise(8, part_words(b));
    let part = b.value_dim.next_multiple_of(4) + 4;
    for (i, part) in parts.chunks_exact_mut(part).enumerate() {
        let [.., row_max, total, _, _] = part else {
            continue;
        };
        *row_max *= 20.0;
        *total = if i % 5 == 3 { 0.0 } else { total.abs() + 1.0 };
    }
    Case {
        memory: vec![
            exact(&parts),
            close(tokens * b.heads * b.value_dim, 4e-6),
            sinks(b),
        ],
        ..attention
    }
}

/// Attention of whole sequences, over later positions as well.
fn full_attention(b: &Batch, format: CacheFormat) -> Case {
    let ends = b.sequences.iter();
    let lengths = ends.map(|(before, count)| (before + count) as u32);
    with_lengths(attention(b, format), &lengths.collect::<Vec<_>>())
}

fn with_lengths(mut case: Case, lengths: &[u32]) -> Case {
    case.memory.push(exact(lengths));
    case
}

#[test]
fn causal_kernels_match_the_twin() {
    for format in CacheFormat::ALL {
        let batches = BATCHES.iter().chain(WIDE);
        let cases: Vec<_> = batches.map(|b| attention(b, format)).collect();
        check(&format.op("attention"), &cases);
    }
}

/// llvmpipe ends the loops of an invocation after 65,535 turns without an error: `attention_serial` must need fewer for as
/// many positions as [`AttentionSpec`](wisp_graph::ops::AttentionSpec) has it compute.
#[test]
fn long_sequences_match_the_twin() {
    let batches = [
        batch([1, 1, 64, 64], 0, 0.0, &[(4_332, 1)]),
        batch([1, 1, 128, 64], 0, 0.0, &[(2_825, 1)]),
        batch([1, 1, 252, 64], 0, 5.0, &[(1_510, 1)]),
    ];
    for (format, b) in CacheFormat::ALL.into_iter().zip(&batches) {
        check(&format.op("attention"), &[attention(b, format)]);
    }
    let longer = batch([1, 1, 128, 64], 0, 0.0, &[(16_000, 20)]);
    let case = tiled(&longer, attention(&longer, CacheFormat::F32));
    check_fitting("attention_tiled.f32", &[case]);
}

#[test]
fn tiles_match_the_twin() {
    for format in CacheFormat::ALL {
        let batches = BATCHES.iter().chain(TILED).chain(WIDE);
        let causal = batches.clone().map(|b| tiled(b, attention(b, format)));
        check(&format.op("attention_tiled"), &causal.collect::<Vec<_>>());
        let full = batches.map(|b| tiled(b, full_attention(b, format)));
        check(
            &format.op("full_attention_tiled"),
            &full.collect::<Vec<_>>(),
        );
    }
}

#[test]
fn chunks_match_the_twin() {
    for format in CacheFormat::ALL {
        let batches = BATCHES.iter().chain(LONG);
        let cases = batches.map(|b| split(b, attention(b, format)));
        check(&format.op("attention_split"), &cases.collect::<Vec<_>>());
        let wide = WIDE.iter().chain(WIDE_LONG);
        let cases = wide.map(|b| split_wide(b, attention(b, format)));
        check(
            &format.op("attention_split_wide"),
            &cases.collect::<Vec<_>>(),
        );
    }
}

#[test]
fn merged_chunks_match_the_twin() {
    let batches = BATCHES.iter().chain(LONG).chain(WIDE_LONG);
    check(
        "attention_combine",
        &batches.map(combine).collect::<Vec<_>>(),
    );
}

#[test]
fn bidirectional_kernels_match_the_twin() {
    for format in CacheFormat::ALL {
        let batches = BATCHES.iter().chain(WIDE);
        let cases: Vec<_> = batches.map(|b| full_attention(b, format)).collect();
        check(&format.op("full_attention"), &cases);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if sample::takes_all() { 8 } else { 4 }))]

    #[test]
    fn kernels_match_the_twin_at_any_size(
        (group, kv_heads) in (1usize..6, 1usize..4),
        (head_dim, fewer) in (1usize..=576, 0usize..200),
        page_size in prop::sample::select(vec![1usize, 3, 16]),
        (window, chunked, softcap, sinks) in (0u32..9, any::<bool>(), prop::sample::select(vec![0.0f32, 5.0]), any::<bool>()),
        sequences in prop::collection::vec((0usize..100, 1usize..20), 1..4),
    ) {
        let batch = Batch {
            heads: group * kv_heads,
            kv_heads,
            head_dim,
            value_dim: head_dim.saturating_sub(fewer).clamp(1, 512),
            page_size,
            window,
            chunked: chunked && window > 0,
            softcap,
            sinks,
            sequences: Cow::Owned(sequences),
        };
        for format in CacheFormat::ALL {
            let [causal, full] = [attention(&batch, format), full_attention(&batch, format)];
            check_fitting(&format.op("attention"), std::slice::from_ref(&causal));
            check_fitting(&format.op("full_attention"), std::slice::from_ref(&full));
            check_fitting(&format.op("attention_tiled"), &[tiled(&batch, causal.clone())]);
            check_fitting(&format.op("full_attention_tiled"), &[tiled(&batch, full)]);
            let (op, split) = chunks(&batch, causal);
            check_fitting(&format.op(op), &[split]);
            check_fitting(&format.op("kv_write"), &[kv_write(&batch, format)]);
            check_fitting(&format.op("key_write"), &[key_write(&batch, format)]);
        }
    }
}

/// The hostile batch without a window, with one, and with a soft cap: in an ordinary run one of them with each format.
fn hostile_batches(format: CacheFormat) -> Vec<Batch> {
    let batches = [(0, 0.0, true), (5, 0.0, false), (0, 5.0, true)];
    let batches = batches.into_iter().zip(CacheFormat::ALL);
    batches
        .filter(|(_, of)| sample::takes_all() || *of == format)
        .map(|((window, softcap, sinks), _)| Batch {
            window,
            softcap,
            sinks,
            ..HOSTILE_BATCH
        })
        .collect()
}

/// The hostile cases of a causal or, with lengths, a bidirectional batch.
fn hostile_cases(
    b: &Batch,
    format: CacheFormat,
    lengths: Option<[u32; 3]>,
    of: Form,
) -> Vec<Hostile> {
    let table = b.table();
    let capacity = (b.max_pages() * b.page_size) as u32;
    let sequences = invalid_indices(b.sequences.len() as u32);
    let positions = invalid_indices(capacity);
    let attend = |index: Vec<[u32; 2]>, table: &[u32]| {
        let case = attention_of(b, format, &index, table);
        of(
            b,
            match lengths {
                Some(lengths) => with_lengths(case, &lengths),
                None => case,
            },
        )
    };
    // Tokens outside the page table get zeros, as do those of a sequence whose values are zeros.
    let mut zeros = attend(moved_index(), &table);
    let width = b.head_dim.next_multiple_of(4);
    zeros.memory[2] = {
        let mut values = noise(3, b.cache_len());
        let page = b.page_size * b.kv_heads * width;
        for entry in &table[2 * b.max_pages()..] {
            let start = *entry as usize * page;
            values[start..start + page].fill(0.0);
        }
        cache(format, b.head_dim, &values, None)
    };
    let outside = [
        hostile_index(|i| [sequences[i], 3]),
        hostile_index(|i| [1, positions[i]]),
        hostile_index(|i| [sequences[i], positions[i]]),
    ];
    let outside = outside.map(|index| Hostile::refused(attend(index, &table), zeros.clone()));
    // Invalid pages stand for the last one.
    let pages = invalid_indices(table.len() as u32);
    let first = 2 * b.max_pages() + HALF / b.page_size;
    let (mut invalid, mut clamped) = (table.clone(), table.clone());
    invalid[first..first + pages.len()].copy_from_slice(&pages);
    clamped[first..first + pages.len()].fill(table.len() as u32 - 1);
    let pages = Hostile::refused(
        attend(moved_index(), &invalid),
        attend(moved_index(), &clamped),
    );
    outside.into_iter().chain([pages]).collect()
}

#[test]
fn causal_tokens_outside_the_page_table_or_cache_stay_within_bounds() {
    assert_eq!(moved_pages().len(), invalid_indices(1).len());
    for format in CacheFormat::ALL {
        let batches = hostile_batches(format);
        let cases = |of: Form| -> Vec<Hostile> {
            let of_batch = |b| hostile_cases(b, format, None, of);
            batches.iter().flat_map(of_batch).collect()
        };
        check_hostile(&format.op("attention"), &cases(whole));
        check_hostile(&format.op("attention_tiled"), &cases(tiled));
        check_hostile(&format.op("attention_split"), &cases(split));
        check_hostile(&format.op("attention_split_wide"), &cases(split_wide));
        // With room for several chunks.
        let room = Batch {
            sequences: Cow::Borrowed(&[(0, 300); 3]),
            ..HOSTILE_BATCH
        };
        let mut cases = hostile_cases(&room, format, None, split);
        let [part_len, chunks] = [room.value_dim.next_multiple_of(4) + 4, 2];
        // What is outside the table has no largest score and no weights; the reference has values of 0.
        for case in &mut cases[..3] {
            for i in (1..HOSTILE_TOKENS).step_by(2).flat_map(|t| {
                let first = t * chunks * room.heads;
                first..first + room.heads
            }) {
                let end = 4 * (i + 1) * part_len;
                case.overrides.push((8, end - 16, vec![0; 16]));
            }
        }
        check_hostile(&format.op("attention_split"), &cases);
    }
}

#[test]
fn bidirectional_tokens_outside_the_page_table_or_cache_stay_within_bounds() {
    for format in CacheFormat::ALL {
        let batches = hostile_batches(format);
        let cases = |of: Form| -> Vec<Hostile> {
            let of_batch = |b| hostile_cases(b, format, Some([9, 20, 31]), of);
            batches.iter().flat_map(of_batch).collect()
        };
        check_hostile(&format.op("full_attention"), &cases(whole));
        check_hostile(&format.op("full_attention_tiled"), &cases(tiled));
    }
}

#[test]
fn lengths_beyond_the_page_table_are_clamped() {
    for format in CacheFormat::ALL {
        let mut cases = Vec::new();
        for b in &hostile_batches(format) {
            let capacity = (b.max_pages() * b.page_size) as u32;
            let attend = |lengths: [u32; 3]| {
                with_lengths(
                    attention_of(b, format, &moved_index(), &b.table()),
                    &lengths,
                )
            };
            for invalid in invalid_indices(capacity + 1) {
                let hostile = attend([9, invalid, 31]);
                let reference = attend([9, capacity, 31]);
                // With a window, no token needs more than there is.
                cases.push(match b.window {
                    0 => Hostile::refused(hostile, reference),
                    _ => Hostile::accepted(hostile, reference),
                });
            }
        }
        check_hostile(&format.op("full_attention"), &cases);
    }
}
