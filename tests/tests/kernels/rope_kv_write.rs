//! `rope_kv_write` and `norm_rope_kv_write`.

use wisp_shaders::{CacheFormat, params::RopeKvWriteParams};
use wisp_tests::guarded::{Hostile, check_hostile, invalid_indices};
use wisp_tests::kernels::{Case, case, check, close, exact, noise};

use crate::paged::{
    Batch, HALF, HOSTILE_BATCH, hostile_index, moved_index, moved_pages, rotated, stored_bound,
};

/// What a case writes, and from which positions and pages.
struct Inputs<'a> {
    index: Vec<[u32; 2]>,
    rope_table: Vec<f32>,
    page_table: Vec<u32>,
    format: CacheFormat,
    /// Bound of the rotated elements.
    bound: f64,
    /// Whether each head is normalised first.
    is_normed: bool,
    b: &'a Batch,
}

impl<'a> Inputs<'a> {
    fn new(b: &'a Batch, rotary_dim: usize, format: CacheFormat, is_normed: bool) -> Inputs<'a> {
        Inputs {
            index: b.index(),
            rope_table: b.rope_table(rotary_dim),
            page_table: b.table(),
            format,
            bound: if is_normed { 2e-6 } else { 1e-6 },
            is_normed,
            b,
        }
    }

    fn case(&self, rotary_dim: usize, interleaved: u32) -> Case {
        let (b, format) = (self.b, self.format);
        let tokens = self.index.len();
        let heads = b.heads + 2 * b.kv_heads;
        let params = RopeKvWriteParams {
            tokens: tokens as u32,
            heads: b.heads as u32,
            kv_heads: b.kv_heads as u32,
            head_dim: b.head_dim as u32,
            rotary_dim: rotary_dim as u32,
            interleaved,
            page_size: b.page_size as u32,
            max_pages: b.max_pages() as u32,
            eps: 1e-5,
            weight_offset: (b.heads % 2) as f32,
        };
        let mut memory = vec![
            exact(&noise(1, tokens * heads * b.head_dim)),
            close(tokens * b.heads * b.head_dim, self.bound),
            exact(&self.index),
            exact(&self.rope_table),
            exact(&self.page_table),
            b.cache(format, 3, stored_bound(format, Some(self.bound))),
            // Values are only copied.
            b.cache(format, 4, stored_bound(format, None)),
        ];
        if self.is_normed {
            memory.push(exact(&noise(6, 2 * b.head_dim)));
        }
        let units = format.head_units(b.head_dim as u32) as usize;
        case(params, memory, &[heads * units, tokens], b.head_dim)
    }
}

fn check_kernels(op: &str, is_normed: bool) {
    for format in CacheFormat::ALL {
        let cases = rotated(|b, rotary_dim, interleaved| {
            Inputs::new(b, rotary_dim, format, is_normed).case(rotary_dim, interleaved)
        });
        check(&format.op(op), &cases);
    }
}

#[test]
fn kernels_match_the_twin() {
    check_kernels("rope_kv_write", false);
}

#[test]
fn kernels_with_norms_match_the_twin() {
    check_kernels("norm_rope_kv_write", true);
}

/// Elements of a head of the hostile batch that rotate.
const ROTARY_DIM: usize = 4;

/// A table of rotations in which the upper half of the positions rotates by nothing.
fn half_identity(b: &Batch) -> Vec<f32> {
    let mut table = b.rope_table(ROTARY_DIM);
    for cos_sin in table[HALF * ROTARY_DIM..].chunks_exact_mut(2) {
        cos_sin.copy_from_slice(&[1.0, 0.0]);
    }
    table
}

/// The reference's pages of moved tokens, which the kernels must not write.
fn without_moved_pages(hostile: Hostile, format: CacheFormat) -> Hostile {
    let bytes = HOSTILE_BATCH.page_bytes(format);
    moved_pages().into_iter().fold(hostile, |hostile, page| {
        let range = page * bytes..(page + 1) * bytes;
        hostile.unwritten(6, range.clone()).unwritten(7, range)
    })
}

fn check_invalid(op: &str, is_normed: bool) {
    let b = &HOSTILE_BATCH;
    let sequences = invalid_indices(b.sequences.len() as u32);
    let positions = invalid_indices((b.max_pages() * b.page_size) as u32);
    let pages = invalid_indices(b.table().len() as u32);
    let first = 2 * b.max_pages() + HALF / b.page_size;
    for format in CacheFormat::ALL {
        let inputs = || Inputs::new(b, ROTARY_DIM, format, is_normed);
        let mut cases = Vec::new();
        for interleaved in [0, 1] {
            let with = |inputs: Inputs| inputs.case(ROTARY_DIM, interleaved);
            let moved = |rope_table| {
                with(Inputs {
                    index: moved_index(),
                    rope_table,
                    ..inputs()
                })
            };
            let at = |index| with(Inputs { index, ..inputs() });
            // Rotated, but not written to the cache.
            let moved_position = |i: usize| (HALF + 2 * i) as u32;
            let no_sequence = at(hostile_index(|i| [sequences[i], moved_position(i)]));
            let mut no_page = inputs();
            no_page.index = moved_index();
            no_page.page_table[first..first + pages.len()].copy_from_slice(&pages);
            for case in [no_sequence, with(no_page)] {
                let hostile = Hostile::refused(case, moved(inputs().rope_table));
                cases.push(without_moved_pages(hostile, format));
            }
            // Neither rotated nor written.
            let no_position = at(hostile_index(|i| [2, positions[i]]));
            let hostile = Hostile::refused(no_position, moved(half_identity(b)));
            cases.push(without_moved_pages(hostile, format));
            // Written, but not rotated: the table of rotations is shorter than the page table.
            let short = with(Inputs {
                index: moved_index(),
                rope_table: inputs().rope_table[..HALF * ROTARY_DIM].to_vec(),
                ..inputs()
            });
            cases.push(Hostile::refused(short, moved(half_identity(b))));
        }
        check_hostile(&format.op(op), &cases);
    }
}

#[test]
fn invalid_tokens_are_not_rotated_or_not_written() {
    check_invalid("rope_kv_write", false);
}

#[test]
fn invalid_tokens_with_norms_are_not_rotated_or_not_written() {
    check_invalid("norm_rope_kv_write", true);
}
