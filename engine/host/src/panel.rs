//! Products of encoded rows with many tokens. They are limited by arithmetic, so tiles of sums stay in
//! registers and their operands in the innermost caches.
//!
//! For [`DEPTH`] columns at a time, tokens are packed into panels of [`TOKENS`] and rows are decoded
//! into a scratch of [`ROWS`], each once (after Goto and van de Geijn 2008).

use rayon::prelude::*;

use wisp_types::{Encoding, encoding::BLOCK};
use wisp_weights::blocks::{Planes, Simd, dequantize_blocks, simd};

/// Columns that are multiplied at once.
pub(super) const DEPTH: usize = 1024;

/// Rows that are decoded at once: a multiple of the rows of every tile.
pub(super) const ROWS: usize = 48;

/// Tokens of a panel.
pub(super) const TOKENS: usize = 32;

/// How many rows before it is decoded a row is loaded into the caches.
pub(super) const ROWS_AHEAD: usize = 4;

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
        .for_each(|(panel, x)| {
            for (t, x) in x.iter().enumerate() {
                for (lanes, x) in panel.iter_mut().zip(&x[start..start + depth]) {
                    lanes[t] = *x;
                }
            }
        });
    packed
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
    for at in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - at);
        for (i, row) in scratch.chunks_exact_mut(STRIDE).take(count).enumerate() {
            let start = (part.first + at + i) * part.width + part.start;
            let ahead = start + ROWS_AHEAD * part.width;
            let ahead = ahead..ahead + depth;
            let mut prefetcher = part.planes.prefetcher(encoding, ahead, 1);
            prefetcher.prefetch::<S>();
            dequantize_blocks(encoding, part.planes, start / BLOCK, &mut row[..depth]);
        }
        for (panel, outs) in packed.chunks_exact(depth).zip(outs.chunks_mut(TOKENS)) {
            // All rows of the scratch before any is added to `outs`, whose tokens may lie a power of two apart, so
            // that they take each other's place in the caches.
            let mut sums = [[[0.0; 16]; TOKENS / 16]; ROWS];
            let vectors = outs.len().div_ceil(16);
            for v in (0..vectors).step_by(V) {
                if V > 1 && v + V > vectors {
                    multiply_tiles::<S, R1, 1>(scratch, count, panel, v, &mut sums);
                } else {
                    multiply_tiles::<S, R, V>(scratch, count, panel, v, &mut sums);
                }
            }
            add_transposed::<S>(&sums, outs, at, count);
        }
    }
}

/// Writes the products of `count` rows of the scratch and `V` vectors of a panel, from vector `v` on.
#[inline(always)]
fn multiply_tiles<S: Simd, const R: usize, const V: usize>(
    scratch: &[f32],
    count: usize,
    panel: &[[f32; TOKENS]],
    v: usize,
    sums: &mut [[[f32; 16]; TOKENS / 16]; ROWS],
) {
    for i in (0..count).step_by(R) {
        let tile = tile::<S, R, V>(&scratch[i * STRIDE..], panel, v);
        for (sums, tile) in sums[i..].iter_mut().zip(&tile) {
            sums[v..v + V].copy_from_slice(tile);
        }
    }
}

/// Adds `count` rows of sums to rows `first..` of the tokens' outputs.
#[inline(always)]
fn add_transposed<S: Simd>(
    sums: &[[[f32; 16]; TOKENS / 16]; ROWS],
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
                let tile = tile::<S, R, V>(&scratch[i * STRIDE..], panel, v);
                let at = first + 16 * v;
                let count = (16 * V).min(tokens - at);
                for (out, row) in outs[i..].iter_mut().zip(&tile) {
                    let out = &mut out[at..at + count];
                    for (out, sum) in out.iter_mut().zip(row.as_flattened()) {
                        *out += sum;
                    }
                }
            }
        }
    }
}

/// Returns the products of `R` rows of the scratch and `V` vectors of 16 tokens of a panel, from
/// vector `v` on.
#[inline(always)]
fn tile<S: Simd, const R: usize, const V: usize>(
    rows: &[f32],
    panel: &[[f32; TOKENS]],
    v: usize,
) -> [[[f32; 16]; V]; R] {
    let rows: [&[f32]; R] = std::array::from_fn(|r| &rows[r * STRIDE..][..panel.len()]);
    let mut sums = [[S::splat(0.0); V]; R];
    for (k, tokens) in panel.iter().enumerate() {
        let (vectors, _) = tokens.as_chunks::<16>();
        let mut x = [S::splat(0.0); V];
        for i in 0..V {
            x[i] = S::load(&vectors[(v + i) % 2]);
        }
        for r in 0..R {
            // SAFETY: every row is as long as the panel.
            let w = S::splat(unsafe { *rows[r].get_unchecked(k) });
            for i in 0..V {
                sums[r][i] = S::mul_add(w, x[i], sums[r][i]);
            }
        }
    }
    let mut out = [[[0.0; 16]; V]; R];
    for r in 0..R {
        for i in 0..V {
            S::store(sums[r][i], &mut out[r][i]);
        }
    }
    out
}
