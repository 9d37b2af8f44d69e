//! Products of encoded rows with many tokens. They are limited by arithmetic, so tiles of sums stay in
//! registers and their operands in the innermost caches.
//!
//! Tokens are packed into panels of [`TOKENS`], and rows are decoded into a scratch, [`DEPTH`] columns of [`ROWS`] rows at a
//! time (after Goto and van de Geijn 2008).

use std::ops::Range;

use rayon::prelude::*;

use super::pool::lengthen;
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

/// A column of a panel, or the sums of a row: vectors of tokens, in whole cache lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Lanes(pub(super) [[f32; 16]; TOKENS / 16]);

impl Lanes {
    pub(super) const ZERO: Lanes = Lanes([[0.0; 16]; _]);
}

/// Allocates the memory for decoded rows, 195 KiB.
pub(super) fn scratch() -> Vec<f32> {
    vec![0.0; ROWS * STRIDE]
}

/// The memory of a task.
pub(super) struct Scratch {
    /// `[ROWS, STRIDE]`: decoded rows.
    rows: Vec<f32>,
    /// For each panel, the sums of these rows.
    sums: Vec<[Lanes; ROWS]>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            rows: scratch(),
            sums: Vec::new(),
        }
    }
}

/// Packed tokens: panels of `width` columns.
#[derive(Default)]
pub(super) struct Panels {
    /// `[panels, width, TOKENS]`, and behind them what earlier calls left. Where the last panel lacks tokens, vectors
    /// without any have no meaning, and the others end with zeros.
    columns: Vec<Lanes>,
    width: usize,
}

/// Packs tokens of `width` columns, which is a multiple of 16.
pub(super) fn pack(x: &[&[f32]], width: usize, panels: &mut Panels) {
    panels.width = width;
    let columns = &mut panels.columns;
    lengthen(columns, x.len().div_ceil(TOKENS) * width, Lanes::ZERO);
    columns
        .par_chunks_mut(width)
        .zip(x.par_chunks(TOKENS))
        .for_each(|(panel, x)| pack_panel(panel, x));
}

simd! {
    /// Packs at most [`TOKENS`] tokens into a panel.
    fn pack_panel(panel: &mut [Lanes], x: &[&[f32]]) where S: Simd {
        for (v, x) in x.chunks(16).enumerate() {
            for (i, panel) in panel.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let mut rows = [S::splat(0.0); 16];
                for (row, x) in rows.iter_mut().zip(x) {
                    *row = S::load(&x.as_chunks().0[i]);
                }
                let columns = S::transpose(rows);
                for k in 0..16 {
                    S::store(columns[k], &mut panel[k].0[v]);
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
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
tiles!(Simd128: 2, 1, 2);
#[cfg(target_arch = "x86_64")]
tiles!(Avx512: 12, 2, 24; Avx2: 6, 1, 6);
#[cfg(target_arch = "aarch64")]
tiles!(Neon: 6, 1, 6);

/// The rows of a weight from `first` on.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) planes: Planes<'a>,
    pub(super) first: usize,
    /// Columns of a row, padded to whole blocks.
    pub(super) width: usize,
}

/// Loads the rows that are decoded next into the caches, a few with each tile of products.
pub(super) struct RowsAhead<'a> {
    prefetcher: RowPrefetcher<'a>,
    rows: Range<usize>,
    per_tile: usize,
}

impl<'a> RowsAhead<'a> {
    /// Takes a part of which columns `start..` of [`ROWS`] rows from row `at` on are multiplied in `tiles` tiles; then
    /// come the next columns of these rows or, at their end, the next rows.
    #[inline(always)]
    pub(super) fn new(
        encoding: Encoding,
        part: Part<'a>,
        [at, start]: [usize; 2],
        tiles: usize,
    ) -> RowsAhead<'a> {
        let next = start + DEPTH;
        let (row, start) = match next < part.width {
            true => (at, next),
            false => (at + ROWS, 0),
        };
        let columns = start..part.width.min(start + DEPTH);
        let first = part.first + row;
        RowsAhead {
            prefetcher: part.planes.row_prefetcher(encoding, part.width, columns),
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

simd! {
    /// Computes `outs[t][i]`, the product of row `part.first + i` and token `t`, plus `bias[i]`.
    pub(super) fn multiply(
        encoding: Encoding,
        part: Part,
        panels: &Panels,
        bias: Option<&[f32]>,
        scratch: &mut Scratch,
        outs: &mut [&mut [f32]],
    ) where S: Simd {
        multiply_in::<S, { S::ROWS }, { S::VECTORS }, { S::ROWS_ALONE }>(encoding, part, panels, bias, scratch, outs)
    }
}

/// [`multiply`] with tiles of `R` rows and `V` vectors of 16 tokens, or of `R1` rows and the last vector alone.
#[inline(always)]
fn multiply_in<S: Simd, const R: usize, const V: usize, const R1: usize>(
    encoding: Encoding,
    part: Part,
    panels: &Panels,
    bias: Option<&[f32]>,
    scratch: &mut Scratch,
    outs: &mut [&mut [f32]],
) {
    let (rows, width) = (outs[0].len(), panels.width);
    lengthen(
        &mut scratch.sums,
        outs.len().div_ceil(TOKENS),
        [Lanes::ZERO; _],
    );
    for at in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - at);
        for start in (0..width).step_by(DEPTH) {
            let depth = DEPTH.min(width - start);
            let decoded = scratch.rows.chunks_exact_mut(STRIDE).take(count);
            for (i, row) in decoded.enumerate() {
                let first = (part.first + at + i) * width + start;
                dequantize_blocks(encoding, part.planes, first / BLOCK, &mut row[..depth]);
            }
            let tiles = count.div_ceil(R) * outs.len().div_ceil(16 * V);
            let tiles = tiles * depth.div_ceil(INNER_DEPTH);
            let mut ahead = RowsAhead::new(encoding, part, [at, start], tiles);
            let panels = panels.columns.chunks_exact(width);
            let panels = panels.zip(&mut scratch.sums);
            for ((panel, sums), outs) in panels.zip(outs.chunks_mut(TOKENS)) {
                if start == 0 {
                    *sums = [Lanes::ZERO; _];
                }
                let is_last = start + depth == width;
                if is_last {
                    for out in outs.iter() {
                        S::prefetch(bytemuck::cast_slice(&out[at..at + count]));
                    }
                }
                let vectors = outs.len().div_ceil(16);
                let panel = &panel[start..start + depth];
                for (k, panel) in panel.chunks(INNER_DEPTH).enumerate() {
                    let rows = &scratch.rows[k * INNER_DEPTH..];
                    for v in (0..vectors).step_by(V) {
                        if V > 1 && v + V > vectors {
                            add_tiles::<S, R1, 1>(rows, count, panel, v, &mut ahead, sums);
                        } else {
                            add_tiles::<S, R, V>(rows, count, panel, v, &mut ahead, sums);
                        }
                    }
                }
                if is_last {
                    store_transposed::<S>(sums, bias, outs, at, count);
                }
            }
        }
    }
}

/// Adds the products of `count` rows of the scratch and `V` vectors of a panel, from vector `v` on.
#[inline(always)]
fn add_tiles<S: Simd, const R: usize, const V: usize>(
    rows: &[f32],
    count: usize,
    panel: &[Lanes],
    v: usize,
    ahead: &mut RowsAhead,
    sums: &mut [Lanes; ROWS],
) {
    for (tile, i) in (0..count).step_by(R).enumerate() {
        ahead.next_tile::<S>();
        let sums = &mut sums[i..i + R];
        add_tile::<S, R, V>(&rows[i * STRIDE..], panel, v, tile, sums);
    }
}

/// Stores `count` rows of sums, plus a bias, in rows `first..` of the tokens' outputs.
#[inline(always)]
fn store_transposed<S: Simd>(
    sums: &[Lanes; ROWS],
    bias: Option<&[f32]>,
    outs: &mut [&mut [f32]],
    first: usize,
    count: usize,
) {
    for at in (0..count).step_by(16) {
        let range = first + at..first + count.min(at + 16);
        let mut offsets = [0.0; 16];
        if let Some(bias) = bias {
            offsets[..range.len()].copy_from_slice(&bias[range.clone()]);
        }
        let offsets = S::load(&offsets);
        for (v, outs) in outs.chunks_mut(16).enumerate() {
            let mut rows = [S::splat(0.0); 16];
            for (row, sums) in rows.iter_mut().zip(&sums[at..]) {
                *row = S::load(&sums.0[v]);
            }
            for (out, tokens) in outs.iter_mut().zip(S::transpose(rows)) {
                let out = &mut out[range.clone()];
                let tokens = S::add(offsets, tokens);
                if let Some(out) = out.as_chunks_mut::<16>().0.first_mut() {
                    S::store(tokens, out);
                } else {
                    let mut sums = [0.0; 16];
                    S::store(tokens, &mut sums);
                    out.copy_from_slice(&sums[..out.len()]);
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
        packed: &[Lanes],
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
    packed: &[Lanes],
    depth: usize,
    tokens: usize,
    outs: &mut [&mut [f32]],
) {
    for (first, panel) in (0..tokens).step_by(TOKENS).zip(packed.chunks_exact(depth)) {
        for (tile, i) in (0..rows).step_by(R).enumerate() {
            for v in (0..TOKENS.min(tokens - first).div_ceil(16)).step_by(V) {
                let mut sums = [Lanes::ZERO; R];
                add_tile::<S, R, V>(&scratch[i * STRIDE..], panel, v, tile, &mut sums);
                let at = first + 16 * v;
                let count = (16 * V).min(tokens - at);
                for (out, row) in outs[i..].iter_mut().zip(&sums) {
                    let out = &mut out[at..at + count];
                    for (out, sum) in out.iter_mut().zip(row.0[v..].as_flattened()) {
                        *out += sum;
                    }
                }
            }
        }
    }
}

/// Adds the products of `R` rows of the scratch and `V` vectors of 16 tokens of a panel, from vector `v` on.
///
/// It begins to load one column in [`COLUMNS`] of those that lie [`INNER_DEPTH`] further on, so that as many consecutive
/// tiles load all of them. CPUs prefetch too late where the panels are larger than the second cache.
#[inline(always)]
fn add_tile<S: Simd, const R: usize, const V: usize>(
    rows: &[f32],
    panel: &[Lanes],
    v: usize,
    tile: usize,
    out: &mut [Lanes],
) {
    let rows = &rows[..(R - 1) * STRIDE + panel.len()];
    let mut sums = [[S::splat(0.0); V]; R];
    let (turns, rest) = panel.as_chunks::<COLUMNS>();
    let loaded = tile % COLUMNS;
    for (i, columns) in turns.iter().enumerate() {
        let Lanes(column) = &columns[loaded];
        S::prefetch_ahead(
            bytemuck::cast_slice(column),
            INNER_DEPTH * size_of::<Lanes>(),
        );
        for (k, column) in columns.iter().enumerate() {
            // SAFETY: the rows are as long as the panel, which has this column.
            unsafe { add_column::<S, R, V>(rows, COLUMNS * i + k, column, v, &mut sums) };
        }
    }
    for (k, column) in (COLUMNS * turns.len()..).zip(rest) {
        // SAFETY: as above.
        unsafe { add_column::<S, R, V>(rows, k, column, v, &mut sums) };
    }
    for r in 0..R {
        let Lanes(out) = &mut out[r];
        for i in 0..V {
            let out = &mut out[(v + i) % 2];
            S::store(S::add(S::load(out), sums[r][i]), out);
        }
    }
}

/// Adds the products of column `k` of `R` rows of the scratch and of `V` vectors of tokens.
///
/// # Safety
/// There must be more than `(R - 1) * STRIDE + k` elements of rows.
#[inline(always)]
unsafe fn add_column<S: Simd, const R: usize, const V: usize>(
    rows: &[f32],
    k: usize,
    tokens: &Lanes,
    v: usize,
    sums: &mut [[S::Floats; V]; R],
) {
    let mut x = [S::splat(0.0); V];
    let Lanes(tokens) = tokens;
    for i in 0..V {
        x[i] = S::load(&tokens[(v + i) % 2]);
    }
    for (r, sums) in sums.iter_mut().enumerate() {
        // SAFETY: the caller guarantees the length.
        let w = S::splat(unsafe { *rows.get_unchecked(r * STRIDE + k) });
        for i in 0..V {
            sums[i] = S::mul_add(w, x[i], sums[i]);
        }
    }
}
