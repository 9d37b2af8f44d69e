//! `attention` and `full_attention`.

use std::borrow::Cow;

use proptest::prelude::*;
use wisp_shaders::{CacheFormat, params::AttentionParams};
use wisp_tests::guarded::{Hostile, check_hostile, invalid_indices};
use wisp_tests::kernels::{Case, cache, case, check, check_fitting, close, exact, noise};

use crate::kv_write::kv_write;
use crate::paged::{BATCHES, Batch, HALF, HOSTILE_BATCH, hostile_index, moved_index, moved_pages};

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
        page_size: b.page_size as u32,
        max_pages: b.max_pages() as u32,
        window: b.window,
        scale: 1.0 / (b.head_dim as f32).sqrt(),
        softcap: b.softcap,
    };
    let len = tokens * b.heads * b.head_dim;
    let memory = vec![
        exact(&noise(1, len)),
        b.cache(format, 2, None),
        b.cache(format, 3, None),
        exact(index),
        exact(table),
        close(len, 4e-6),
    ];
    case(params, memory, &[b.heads, tokens], b.head_dim)
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
        let cases: Vec<_> = BATCHES.iter().map(|b| attention(b, format)).collect();
        check(&format.op("attention"), &cases);
    }
}

#[test]
fn bidirectional_kernels_match_the_twin() {
    for format in CacheFormat::ALL {
        let cases: Vec<_> = BATCHES.iter().map(|b| full_attention(b, format)).collect();
        check(&format.op("full_attention"), &cases);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn kernels_match_the_twin_at_any_size(
        (group, kv_heads) in (1usize..6, 1usize..4),
        head_dim in 1usize..=256,
        page_size in prop::sample::select(vec![1usize, 3, 16]),
        (window, softcap) in (0u32..9, prop::sample::select(vec![0.0f32, 5.0])),
        sequences in prop::collection::vec((0usize..100, 1usize..20), 1..4),
    ) {
        let batch = Batch {
            heads: group * kv_heads,
            kv_heads,
            head_dim,
            page_size,
            window,
            softcap,
            sequences: Cow::Owned(sequences),
        };
        for format in CacheFormat::ALL {
            check_fitting(&format.op("attention"), &[attention(&batch, format)]);
            check_fitting(&format.op("full_attention"), &[full_attention(&batch, format)]);
            check_fitting(&format.op("kv_write"), &[kv_write(&batch, format)]);
        }
    }
}

/// The hostile batch with a window, without one, and with a soft cap.
fn hostile_batches() -> [Batch; 3] {
    [(0, 0.0), (5, 0.0), (0, 5.0)].map(|(window, softcap)| Batch {
        window,
        softcap,
        ..HOSTILE_BATCH
    })
}

/// The hostile cases of a causal or, with lengths, a bidirectional batch.
fn hostile_cases(b: &Batch, format: CacheFormat, lengths: Option<[u32; 3]>) -> Vec<Hostile> {
    let table = b.table();
    let capacity = (b.max_pages() * b.page_size) as u32;
    let sequences = invalid_indices(b.sequences.len() as u32);
    let positions = invalid_indices(capacity);
    let attend = |index: Vec<[u32; 2]>, table: &[u32]| {
        let case = attention_of(b, format, &index, table);
        match lengths {
            Some(lengths) => with_lengths(case, &lengths),
            None => case,
        }
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
        let batches = hostile_batches();
        let cases = batches.iter().flat_map(|b| hostile_cases(b, format, None));
        check_hostile(&format.op("attention"), &cases.collect::<Vec<_>>());
    }
}

#[test]
fn bidirectional_tokens_outside_the_page_table_or_cache_stay_within_bounds() {
    for format in CacheFormat::ALL {
        let batches = hostile_batches();
        let cases = batches
            .iter()
            .flat_map(|b| hostile_cases(b, format, Some([9, 20, 31])));
        check_hostile(&format.op("full_attention"), &cases.collect::<Vec<_>>());
    }
}

#[test]
fn lengths_beyond_the_page_table_are_clamped() {
    for format in CacheFormat::ALL {
        let mut cases = Vec::new();
        for b in &hostile_batches() {
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
