//! Products of encoded rows with many tokens. They are limited by arithmetic, so tiles of sums stay in
//! registers and their operands in the innermost caches.
//!
//! For [`DEPTH`] columns at a time, tokens are packed into panels of [`TOKENS`] and rows are decoded
//! into a scratch of [`ROWS`], each once (after Goto and van de Geijn 2008).

use std::ops::Range;

use rayon::prelude::*;

use wisp_types::{Encoding, encoding::BLOCK};
use wisp_weights::blocks::{Planes, RowPrefetcher, Simd, dequantize_blocks, simd};

/// Columns that are multiplied at once.
pub(super) const DEPTH: usize = 1024;

/// Columns that are multiplied before the next tile: their tokens stay in the innermost cache for all tiles of rows.
const INNER_DEPTH: usize = 128;

/// Columns that are multiplied in a turn of a tile's loop.
const COLUMNS: usize = 4;

/// Rows that are decoded at once: a multiple of the rows of every tile.
pub(super) const ROWS: usize = 48;

/// Tokens of a panel.
pub(super) const TOKENS: usize = 32;

/// Elements from one row of the scratch to the next. Not a power of two, because its multiples would
/// map to the same lines of the innermost cache.
pub(super) const STRIDE: usize = DEPTH + 16;

/// Allocates the memory for decoded rows, 195 KiB.
pub(super) fn scratch() -> Vec<f32> {
    vec![0.0; ROWS * STRIDE]
}

/// Packs columns `start..start + depth` of the tokens into panels `[depth, TOKENS]`. Missing tokens of
/// the last panel are zero.
pub(super) fn pack(x: &[&[f32]], start: usize, depth: usize) -> Vec<[f32; TOKENS]> {
    let mut packed = vec![[0.0; TOKENS]; x.len().div_ceil(TOKENS) * depth];
    packed
        .par_chunks_mut(depth)
        .zip(x.par_chunks(TOKENS))
        .for_each(|(panel, x)| pack_panel(panel, x, start));
    packed
}

simd! {
    /// Packs columns from `start` on of at most [`TOKENS`] tokens into a panel, whose depth is a multiple of 16.
    fn pack_panel(panel: &mut [[f32; TOKENS]], x: &[&[f32]], start: usize) where S: Simd {
        for (v, x) in x.chunks(16).enumerate() {
            for (i, panel) in panel.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let mut rows = [S::splat(0.0); 16];
                for (row, x) in rows.iter_mut().zip(x) {
                    *row = S::load(&x[start..].as_chunks().0[i]);
                }
                let columns = S::transpose(rows);
                for k in 0..16 {
                    S::store(columns[k], &mut panel[k].as_chunks_mut().0[v]);
                }
            }
        }
    }
}

/// The sizes of a tile, whose sums stay in the registers of an instruction set.
trait Tile: Simd {
    /// Rows of a tile.
    const ROWS: usize;
    /// Vectors of 16 tokens of a tile: a divisor of those of a panel.
    const VECTORS: usize;
    /// Rows of a tile with one vector.
    const ROWS_ALONE: usize;
}

/// Declares the sizes of the tiles of some instruction sets, in the order of [`Tile`].
macro_rules! tiles {
    ($($set:ident: $rows:literal, $vectors:literal, $alone:literal);* $(;)?) => {
        $(impl Tile for wisp_weights::blocks::$set {
            const ROWS: usize = $rows;
            const VECTORS: usize = $vectors;
            const ROWS_ALONE: usize = $alone;
        })*
    };
}

tiles!(Portable: 2, 1, 2);
#[cfg(target_arch = "x86_64")]
tiles!(Avx512: 12, 2, 24; Avx2: 6, 1, 6);
#[cfg(target_arch = "aarch64")]
tiles!(Neon: 6, 1, 6);

/// Loads the rows that are decoded next into the caches, a few with each tile of products.
pub(super) struct RowsAhead<'a> {
    prefetcher: RowPrefetcher<'a>,
    rows: Range<usize>,
    per_tile: usize,
}

impl<'a> RowsAhead<'a> {
    /// Takes the [`ROWS`] rows from row `first` of a part on, and how many tiles are computed until they are decoded.
    #[inline(always)]
    pub(super) fn new(
        prefetcher: RowPrefetcher<'a>,
        part: Part,
        first: usize,
        tiles: usize,
    ) -> RowsAhead<'a> {
        let first = part.first + first;
        RowsAhead {
            prefetcher,
            rows: first..first + ROWS,
            per_tile: ROWS.div_ceil(tiles),
        }
    }

    /// Begins to load the rows of one more tile.
    #[inline(always)]
    pub(super) fn next_tile<S: Simd>(&mut self) {
        for _ in 0..self.per_tile {
            let Some(row) = self.rows.next() else { return };
            self.prefetcher.prefetch::<S>(row);
        }
    }
}

/// The rows of a weight from `first` on, with their columns from `start` on.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) planes: Planes<'a>,
    pub(super) first: usize,
    pub(super) start: usize,
    /// Columns of a row, padded to whole blocks.
    pub(super) width: usize,
}

simd! {
    /// Adds to `outs[t][i]` the product of row `first + i` and token `t`, over `depth` columns.
    pub(super) fn multiply(
        encoding: Encoding,
        part: Part,
        packed: &[[f32; TOKENS]],
        depth: usize,
        scratch: &mut [f32],
        outs: &mut [&mut [f32]],
    ) where S: Simd {
        multiply_in::<S, { S::ROWS }, { S::VECTORS }, { S::ROWS_ALONE }>(encoding, part, packed, depth, scratch, outs)
    }
}

/// [`multiply`] with tiles of `R` rows and `V` vectors of 16 tokens, or of `R1` rows and the last vector alone.
#[inline(always)]
fn multiply_in<S: Simd, const R: usize, const V: usize, const R1: usize>(
    encoding: Encoding,
    part: Part,
    packed: &[[f32; TOKENS]],
    depth: usize,
    scratch: &mut [f32],
    outs: &mut [&mut [f32]],
) {
    let rows = outs[0].len();
    let columns = part.start..part.start + depth;
    let prefetcher = part.planes.row_prefetcher(encoding, part.width, columns);
    for at in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - at);
        for (i, row) in scratch.chunks_exact_mut(STRIDE).take(count).enumerate() {
            let start = (part.first + at + i) * part.width + part.start;
            dequantize_blocks(encoding, part.planes, start / BLOCK, &mut row[..depth]);
        }
        let tiles = count.div_ceil(R) * outs.len().div_ceil(16 * V) * depth.div_ceil(INNER_DEPTH);
        let mut ahead = RowsAhead::new(prefetcher, part, at + ROWS, tiles);
        for (panel, outs) in packed.chunks_exact(depth).zip(outs.chunks_mut(TOKENS)) {
            // All rows of the scratch before any is added to `outs`, whose tokens may lie a power of two apart, so
            // that they take each other's place in the caches.
            let mut sums = [[[0.0; 16]; TOKENS / 16]; ROWS];
            for out in outs.iter() {
                S::prefetch(bytemuck::cast_slice(&out[at..at + count]));
            }
            let vectors = outs.len().div_ceil(16);
            for (k, panel) in panel.chunks(INNER_DEPTH).enumerate() {
                let rows = &scratch[k * INNER_DEPTH..];
                for v in (0..vectors).step_by(V) {
                    if V > 1 && v + V > vectors {
                        add_tiles::<S, R1, 1>(rows, count, panel, v, &mut ahead, &mut sums);
                    } else {
                        add_tiles::<S, R, V>(rows, count, panel, v, &mut ahead, &mut sums);
                    }
                }
            }
            add_transposed::<S>(&sums, outs, at, count);
        }
    }
}

/// Sums of a row, for each token of a panel.
type RowSums = [[f32; 16]; TOKENS / 16];

/// Adds the products of `count` rows of the scratch and `V` vectors of a panel, from vector `v` on.
#[inline(always)]
fn add_tiles<S: Simd, const R: usize, const V: usize>(
    rows: &[f32],
    count: usize,
    panel: &[[f32; TOKENS]],
    v: usize,
    ahead: &mut RowsAhead,
    sums: &mut [RowSums; ROWS],
) {
    for i in (0..count).step_by(R) {
        ahead.next_tile::<S>();
        add_tile::<S, R, V>(&rows[i * STRIDE..], panel, v, &mut sums[i..i + R]);
    }
}

/// Adds `count` rows of sums to rows `first..` of the tokens' outputs.
#[inline(always)]
fn add_transposed<S: Simd>(
    sums: &[RowSums; ROWS],
    outs: &mut [&mut [f32]],
    first: usize,
    count: usize,
) {
    for (v, outs) in outs.chunks_mut(16).enumerate() {
        for at in (0..count).step_by(16) {
            let mut rows = [S::splat(0.0); 16];
            for (row, sums) in rows.iter_mut().zip(&sums[at..]) {
                *row = S::load(&sums[v]);
            }
            let range = first + at..first + count.min(at + 16);
            for (out, tokens) in outs.iter_mut().zip(S::transpose(rows)) {
                let out = &mut out[range.clone()];
                if let Some(out) = out.as_chunks_mut::<16>().0.first_mut() {
                    S::store(S::add(S::load(out), tokens), out);
                } else {
                    let mut sums = [0.0; 16];
                    S::store(tokens, &mut sums);
                    for (out, sum) in out.iter_mut().zip(sums) {
                        *out += sum;
                    }
                }
            }
        }
    }
}

simd! {
    /// Adds to `outs[i][t]` the product of row `i` of a scratch and token `t` of packed panels.
    pub(super) fn add_rows(
        scratch: &[f32],
        rows: usize,
        packed: &[[f32; TOKENS]],
        depth: usize,
        tokens: usize,
        outs: &mut [&mut [f32]],
    ) where S: Simd {
        add_rows_in::<S, { S::ROWS }, { S::VECTORS }>(scratch, rows, packed, depth, tokens, outs)
    }
}

#[inline(always)]
fn add_rows_in<S: Simd, const R: usize, const V: usize>(
    scratch: &[f32],
    rows: usize,
    packed: &[[f32; TOKENS]],
    depth: usize,
    tokens: usize,
    outs: &mut [&mut [f32]],
) {
    for (first, panel) in (0..tokens).step_by(TOKENS).zip(packed.chunks_exact(depth)) {
        for i in (0..rows).step_by(R) {
            for v in (0..TOKENS.min(tokens - first).div_ceil(16)).step_by(V) {
                let mut tile = [[[0.0; 16]; TOKENS / 16]; R];
                add_tile::<S, R, V>(&scratch[i * STRIDE..], panel, v, &mut tile);
                let at = first + 16 * v;
                let count = (16 * V).min(tokens - at);
                for (out, row) in outs[i..].iter_mut().zip(&tile) {
                    let out = &mut out[at..at + count];
                    for (out, sum) in out.iter_mut().zip(row[v..].as_flattened()) {
                        *out += sum;
                    }
                }
            }
        }
    }
}

/// Adds the products of `R` rows of the scratch and `V` vectors of 16 tokens of a panel, from vector `v` on.
#[inline(always)]
fn add_tile<S: Simd, const R: usize, const V: usize>(
    rows: &[f32],
    panel: &[[f32; TOKENS]],
    v: usize,
    out: &mut [RowSums],
) {
    let rows: [&[f32]; R] = std::array::from_fn(|r| &rows[r * STRIDE..][..panel.len()]);
    let mut sums = [[S::splat(0.0); V]; R];
    for r in 0..R {
        for i in 0..V {
            sums[r][i] = S::load(&out[r][(v + i) % 2]);
        }
    }
    let (turns, rest) = panel.as_chunks::<COLUMNS>();
    for (i, columns) in turns.iter().enumerate() {
        for k in 0..COLUMNS {
            // SAFETY: every row is as long as the panel.
            unsafe { add_column::<S, R, V>(&rows, COLUMNS * i + k, &columns[k], v, &mut sums) };
        }
    }
    for (k, column) in (COLUMNS * turns.len()..).zip(rest) {
        // SAFETY: as above.
        unsafe { add_column::<S, R, V>(&rows, k, column, v, &mut sums) };
    }
    for r in 0..R {
        for i in 0..V {
            S::store(sums[r][i], &mut out[r][(v + i) % 2]);
        }
    }
}

/// Adds the products of column `k` of `R` rows and of `V` vectors of tokens.
///
/// # Safety
/// Each row must have more than `k` elements.
#[inline(always)]
unsafe fn add_column<S: Simd, const R: usize, const V: usize>(
    rows: &[&[f32]; R],
    k: usize,
    tokens: &[f32; TOKENS],
    v: usize,
    sums: &mut [[S::Floats; V]; R],
) {
    let (vectors, _) = tokens.as_chunks::<16>();
    let mut x = [S::splat(0.0); V];
    for i in 0..V {
        x[i] = S::load(&vectors[(v + i) % 2]);
    }
    for r in 0..R {
        // SAFETY: the caller guarantees the length.
        let w = S::splat(unsafe { *rows[r].get_unchecked(k) });
        for i in 0..V {
            sums[r][i] = S::mul_add(w, x[i], sums[r][i]);
        }
    }
}
