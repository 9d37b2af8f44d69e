//! `kv_write`.

use wisp_shaders::{CacheFormat, params::KvWriteParams};
use wisp_tests::guarded::{Hostile, check_hostile, invalid_indices};
use wisp_tests::kernels::{Case, case, check, check_outputs, exact, noise, twin_outputs};

use crate::paged::{
    BATCHES, Batch, HALF, HOSTILE_BATCH, ROTATED, batch, hostile_index, moved_index, moved_pages,
    stored_bound,
};

pub(crate) fn kv_write(b: &Batch, format: CacheFormat) -> Case {
    kv_write_of(b, format, &b.index(), &b.table())
}

fn kv_write_of(b: &Batch, format: CacheFormat, index: &[[u32; 2]], table: &[u32]) -> Case {
    let tokens = index.len();
    let width = b.kv_heads * b.head_dim;
    let params = KvWriteParams {
        tokens: tokens as u32,
        kv_heads: b.kv_heads as u32,
        head_dim: b.head_dim as u32,
        k_stride: width as u32 + 3,
        k_offset: 1,
        v_stride: width as u32 + 2,
        v_offset: 2,
        page_size: b.page_size as u32,
        max_pages: b.max_pages() as u32,
    };
    let memory = vec![
        exact(&noise(1, tokens * (width + 3))),
        exact(&noise(2, tokens * (width + 2))),
        exact(index),
        exact(table),
        b.cache(format, 3, stored_bound(format, None)),
        b.cache(format, 4, stored_bound(format, None)),
    ];
    let units = format.head_units(b.head_dim as u32) as usize;
    case(params, memory, &[b.kv_heads * units, tokens], b.head_dim)
}

/// A case of `kv_write` for `key_write`.
fn keys_only(mut case: Case) -> Case {
    // The values and their cache.
    case.memory.remove(5);
    case.memory.remove(1);
    case
}

pub(crate) fn key_write(b: &Batch, format: CacheFormat) -> Case {
    keys_only(kv_write(b, format))
}

#[test]
fn kernels_match_the_twin() {
    for format in CacheFormat::ALL {
        let batches = BATCHES.iter().chain(ROTATED.iter().map(|(b, _)| b));
        let cases: Vec<_> = batches.map(|b| kv_write(b, format)).collect();
        check(&format.op("kv_write"), &cases);
        let keys: Vec<_> = cases.into_iter().map(keys_only).collect();
        check(&format.op("key_write"), &keys);
    }
}

/// Numbers beyond the range of a format become its largest number.
#[test]
fn numbers_beyond_the_range_are_clamped() {
    let b = batch([2, 2, 80, 16], 0, 0.0, &[(3, 20)]);
    for format in CacheFormat::ALL {
        let mut case = kv_write(&b, format);
        for (i, factor) in [(0, 1e6), (1, 1e30)] {
            let numbers: Vec<f32> = bytemuck::pod_collect_to_vec(case.memory[i].bytes());
            let numbers: Vec<f32> = numbers.iter().map(|x| x * factor).collect();
            case.memory[i] = exact(&numbers);
        }
        check(&format.op("kv_write"), &[case]);
    }
}

/// Kernels multiply what pads the blocks and scales of a head in q8_0.
#[test]
fn zeros_pad_a_head() {
    let format = CacheFormat::Q8_0;
    for b in BATCHES {
        let mut case = kv_write(b, format);
        for memory in &mut case.memory[4..] {
            *memory = exact(&vec![u32::MAX; memory.bytes().len() / 4]);
        }
        let expected = twin_outputs("kv_write.q8_0", &case);
        // In units of two bytes.
        let (end, scales) = (2 * b.head_dim.div_ceil(4), b.head_dim.div_ceil(32));
        let first_scale = end.next_multiple_of(8);
        let is_padding = |half: usize| {
            let half = half % (2 * format.head_words(b.head_dim as u32) as usize);
            (end..first_scale).contains(&half) || half >= first_scale + scales
        };
        check_outputs("kv_write.q8_0", &[case], |_, outputs| {
            let halves = |bytes: &[u8]| -> Vec<u16> { bytemuck::pod_collect_to_vec(bytes) };
            let wrong = (4..6).filter_map(|i| {
                let both = halves(&outputs[i]).into_iter().zip(halves(&expected[i]));
                let mut padding = both.enumerate().filter(|(half, _)| is_padding(*half));
                let (half, (actual, _)) = padding.find(|(_, (a, b))| a != b)?;
                Some(format!("binding {i}: half {half} is {actual:x}"))
            });
            wrong.collect()
        });
    }
}

#[test]
fn tokens_without_a_valid_page_write_nothing() {
    let b = &HOSTILE_BATCH;
    let table = b.table();
    let sequences = invalid_indices(b.sequences.len() as u32);
    let positions = invalid_indices((b.max_pages() * b.page_size) as u32);
    let pages = invalid_indices(table.len() as u32);
    let mut invalid_table = table.clone();
    let first = 2 * b.max_pages() + HALF / b.page_size;
    invalid_table[first..first + pages.len()].copy_from_slice(&pages);
    for format in CacheFormat::ALL {
        let write = |index: Vec<[u32; 2]>, table: &[u32]| kv_write_of(b, format, &index, table);
        let cases = [
            write(hostile_index(|i| [sequences[i], 3]), &table),
            write(hostile_index(|i| [1, positions[i]]), &table),
            write(hostile_index(|i| [sequences[i], positions[i]]), &table),
            write(moved_index(), &invalid_table),
        ];
        let bytes = b.page_bytes(format);
        let pages = moved_pages().into_iter();
        let ranges: Vec<_> = pages.map(|page| page * bytes..(page + 1) * bytes).collect();
        let unwritten = |hostile: Hostile, caches: &[usize]| {
            let caches = caches.iter();
            let parts = caches.flat_map(|cache| ranges.iter().map(|range| (*cache, range.clone())));
            parts.fold(hostile, |hostile, (cache, range)| {
                hostile.unwritten(cache, range)
            })
        };
        let both = cases.clone().map(|hostile| {
            let hostile = Hostile::refused(hostile, write(moved_index(), &table));
            unwritten(hostile, &[5, 6])
        });
        check_hostile(&format.op("kv_write"), &both);
        let keys = cases.map(|hostile| {
            let reference = keys_only(write(moved_index(), &table));
            unwritten(Hostile::refused(keys_only(hostile), reference), &[4])
        });
        check_hostile(&format.op("key_write"), &keys);
    }
}
