//! Rows of a weight as integers: what `integer_panel.rs` multiplies with tokens.

use std::ops::Range;

use super::panel::{DEPTH, Part, ROWS};
use wisp_types::{Encoding, encoding::BLOCK};
use wisp_weights::blocks::{Floats, IntegerEncoding, IntegerSimd, Simd, simd};

/// Rows of a vector.
pub(super) const LANES: usize = 16;

/// The integers and factors of decoded rows.
pub(super) struct DecodedRows {
    /// `[ROWS / LANES, DEPTH / 4]`: four columns of each of the rows of a vector.
    integers: Vec<[u8; 4 * LANES]>,
    /// `[ROWS / LANES, DEPTH / 16]`: scales of blocks or halves.
    scales: Vec<[f32; LANES]>,
    /// Offsets, likewise.
    offsets: Vec<[f32; LANES]>,
}

impl DecodedRows {
    pub(super) fn new() -> DecodedRows {
        let vectors = ROWS / LANES;
        DecodedRows {
            integers: vec![[0; 4 * LANES]; vectors * DEPTH / 4],
            scales: vec![[0.0; LANES]; vectors * DEPTH / 16],
            offsets: vec![[0.0; LANES]; vectors * DEPTH / 16],
        }
    }

    /// Returns some columns of vector `v`, given how many have a scale of their own.
    #[inline(always)]
    pub(super) fn columns(
        &self,
        v: usize,
        columns: &Range<usize>,
        part_columns: usize,
    ) -> Decoded<'_> {
        let parts = divided(columns, part_columns);
        Decoded {
            integers: &self.integers[v * DEPTH / 4..][divided(columns, 4)],
            scales: &self.scales[v * DEPTH / 16..][parts.clone()],
            offsets: &self.offsets[v * DEPTH / 16..][parts],
        }
    }
}

/// Some columns of the decoded rows of a vector.
#[derive(Clone, Copy, Default)]
pub(super) struct Decoded<'a> {
    pub(super) integers: &'a [[u8; 4 * LANES]],
    pub(super) scales: &'a [[f32; LANES]],
    pub(super) offsets: &'a [[f32; LANES]],
}

/// Divides the bounds of a range of columns by a number that divides them.
#[inline(always)]
pub(super) fn divided(columns: &Range<usize>, by: usize) -> Range<usize> {
    columns.start / by..columns.end / by
}

/// How the rows of an encoding are decoded.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    pub(super) encoding: Encoding,
    pub(super) decode: fn(Part, [usize; 4], usize, &mut DecodedRows),
}

impl Decoder {
    pub(super) const fn of<E: IntegerEncoding>() -> Decoder {
        Decoder {
            encoding: E::ENCODING,
            decode: decode::<E>,
        }
    }
}

simd! {
    /// Reads `[first row, rows, first block, blocks]` of a part into a vector.
    fn decode<E: IntegerEncoding>(
        part: Part,
        place: [usize; 4],
        v: usize,
        to: &mut DecodedRows,
    ) where S: IntegerSimd {
        decode_in::<E, S>(part, place, v, to)
    }
}

#[inline(always)]
fn decode_in<E: IntegerEncoding, S: IntegerSimd>(
    part: Part,
    [first, count, first_block, blocks]: [usize; 4],
    v: usize,
    to: &mut DecodedRows,
) {
    let [main, high, scales] = part.planes.bytes();
    let row_blocks = part.width / BLOCK;
    let mut starts = [0; LANES];
    for (lane, start) in starts.iter_mut().enumerate() {
        // Missing rows repeat the last one; their results are not stored.
        let row = part.first + first + lane.min(count - 1);
        *start = row * row_blocks + first_block;
    }
    let integers = &mut to.integers[v * DEPTH / 4..][..DEPTH / 4];
    let pairs = blocks.div_ceil(2);
    for (pair, integers) in integers.chunks_mut(16).take(pairs).enumerate() {
        let mut rows = [S::load_bytes(&[0; 64]); LANES];
        for lane in 0..LANES {
            let block = starts[lane] + 2 * pair;
            let main = &main[block * E::MAIN_BYTES..];
            let high = &high[block * E::HIGH_BYTES..];
            let of_group = block / E::GROUP_BLOCKS * E::GROUP_BYTES;
            let of_group = scales.get(of_group..).unwrap_or_default();
            rows[lane] = match main.len() < 2 * E::MAIN_BYTES || high.len() < 2 * E::HIGH_BYTES {
                false => E::load_integers::<S>(main, high, of_group),
                // The last block of the weight.
                true => {
                    let (mut low, mut top) = ([0; 64], [0; 64]);
                    low[..E::MAIN_BYTES].copy_from_slice(&main[..E::MAIN_BYTES]);
                    top[..E::HIGH_BYTES].copy_from_slice(&high[..E::HIGH_BYTES]);
                    E::load_integers::<S>(&low, &top, of_group)
                }
            };
        }
        for (integers, quads) in integers.iter_mut().zip(S::transpose(rows)) {
            S::store_bytes(quads, integers);
        }
    }
    for group in 0..blocks.div_ceil(E::GROUP_BLOCKS) {
        let mut scale_rows = [S::Floats::splat(0.0); LANES];
        let mut offset_rows = scale_rows;
        let rows = scale_rows.iter_mut().zip(&mut offset_rows);
        for (lane, (scale_row, offset_row)) in rows.enumerate() {
            let at = (starts[lane] + group * E::GROUP_BLOCKS) * E::GROUP_BYTES / E::GROUP_BLOCKS;
            let bytes = &scales[at..];
            [*scale_row, *offset_row] = match bytes.len() < E::GROUP_BYTES {
                false => E::load_factors::<S>(bytes),
                true => {
                    let mut padded = [0; 64];
                    padded[..bytes.len()].copy_from_slice(bytes);
                    E::load_factors::<S>(&padded)
                }
            };
        }
        let first = v * DEPTH / 16 + 16 * group;
        let range = first..first + 16;
        transpose_into::<S>(scale_rows, &mut to.scales[range.clone()]);
        if E::HAS_OFFSETS {
            transpose_into::<S>(offset_rows, &mut to.offsets[range]);
        }
    }
}

/// Stores the elements of rows that have the same index together.
#[inline(always)]
fn transpose_into<S: IntegerSimd>(rows: [Floats<S>; LANES], to: &mut [[f32; LANES]]) {
    for (to, column) in to.iter_mut().zip(S::Floats::transpose(rows)) {
        S::Floats::store(column, to);
    }
}
