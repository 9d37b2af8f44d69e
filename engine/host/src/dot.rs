//! Products of encoded rows with a few vectors. They are limited by memory bandwidth, so each block is
//! read once, decoded in registers and multiplied with every vector.

use std::ops::Range;

use wisp_types::{Encoding, encoding::BLOCK};
use wisp_weights::blocks::{BlockEncoding, Planes, Prefetcher, SCALES_AHEAD, Simd, simd};

/// The largest number of vectors at once, so that their sums stay in registers.
pub(super) const MAX_VECTORS: usize = 4;

/// [`dots`] for one encoding.
pub(super) type Dots = fn(Planes, usize, &[&[f32]], &mut [[f32; MAX_VECTORS]]);

simd! {
    /// Computes `out[i][t] = dot(row first + i, x[t])` for at most [`MAX_VECTORS`] vectors of whole blocks.
    pub(super) fn dots<E: BlockEncoding>(
        planes: Planes,
        first: usize,
        x: &[&[f32]],
        out: &mut [[f32; MAX_VECTORS]],
    ) where S: Simd {
        match *x {
            [] => {}
            [a] => dots_in::<E, S, 1>(planes, first, [a], out),
            [a, b] => dots_in::<E, S, 2>(planes, first, [a, b], out),
            // A fourth product costs less than code of its own for three.
            [a, b, c] => dots_in::<E, S, 4>(planes, first, [a, b, c, c], out),
            [a, b, c, d, ..] => dots_in::<E, S, 4>(planes, first, [a, b, c, d], out),
        }
    }
}

/// Rows whose sums are added up together.
pub(super) const LANES: usize = 16;

/// Distance of prefetching, in weights.
const WEIGHTS_AHEAD: usize = 8192;

/// Blocks that are multiplied for each part that is prefetched.
const PART: usize = 16;

/// Returns a prefetcher of what follows [`WEIGHTS_AHEAD`] weights after these rows of `width` weights, in `parts` for
/// each row.
#[inline(always)]
pub(super) fn row_prefetcher<'a>(
    planes: Planes<'a>,
    encoding: Encoding,
    rows: Range<usize>,
    width: usize,
    parts: usize,
) -> Prefetcher<'a> {
    let start = rows.start * width + WEIGHTS_AHEAD.next_multiple_of(width);
    let weights = start..start + rows.len() * width;
    planes.prefetcher(encoding, weights, rows.len() * parts)
}

#[inline(always)]
fn dots_in<E: BlockEncoding, S: Simd, const T: usize>(
    planes: Planes,
    first: usize,
    x: [&[f32]; T],
    out: &mut [[f32; MAX_VECTORS]],
) {
    let width = x[0].len();
    let parts = width.div_ceil(PART * BLOCK);
    let rows = first..first + out.len();
    let mut prefetcher = row_prefetcher(planes, E::ENCODING, rows, width, parts);
    for (i, out) in out.chunks_mut(LANES).enumerate() {
        let mut sums = [[S::splat(0.0); T]; LANES];
        for (lane, sums) in sums.iter_mut().enumerate().take(out.len()) {
            *sums = dot::<E, S, T>(planes, first + i * LANES + lane, x, &mut prefetcher);
        }
        store_totals::<S, T>(&sums, out);
    }
}

/// Computes `out[i][t]`, the sum of the elements of `sums[i][t]`, for `t` below `T`.
#[inline(always)]
pub(super) fn store_totals<S: Simd, const T: usize>(
    sums: &[[S::Floats; T]; LANES],
    out: &mut [[f32; MAX_VECTORS]],
) {
    for t in 0..T {
        let mut of_token = [S::splat(0.0); LANES];
        for (of_token, sums) in of_token.iter_mut().zip(sums) {
            *of_token = sums[t];
        }
        let mut totals = [0.0; LANES];
        S::store(S::reduce_add_each(of_token), &mut totals);
        for (out, total) in out.iter_mut().zip(totals) {
            out[t] = total;
        }
    }
}

/// Returns the products of a row and each of `x`, as vectors whose elements are yet to be added.
#[inline(always)]
fn dot<E: BlockEncoding, S: Simd, const T: usize>(
    planes: Planes,
    row: usize,
    x: [&[f32]; T],
    prefetcher: &mut Prefetcher,
) -> [S::Floats; T] {
    let width = x[0].len();
    let (first, blocks) = (row * width / BLOCK, width / BLOCK);
    let mut factors = [E::Scales::default(); SCALES_AHEAD];
    let mut sums = [[S::splat(0.0); 2]; T];
    for start in (0..blocks).step_by(SCALES_AHEAD) {
        let count = SCALES_AHEAD.min(blocks - start);
        let factors = &mut factors[..count];
        E::load_scales::<S>(planes, first + start, factors);
        // As many blocks as there are factors, so that no index below needs a check.
        let mut vectors = [&[][..]; T];
        for t in 0..T {
            vectors[t] = &x[t][start * BLOCK..].as_chunks::<BLOCK>().0[..count];
        }
        for part in (0..count).step_by(PART) {
            prefetcher.prefetch::<S>();
            for b in part..count.min(part + PART) {
                let w = E::load_weights::<S>(planes, first + start + b, &factors[b]);
                for t in 0..T {
                    let (halves, _) = vectors[t][b].as_chunks::<16>();
                    sums[t][0] = S::mul_add(w[0], S::load(&halves[0]), sums[t][0]);
                    sums[t][1] = S::mul_add(w[1], S::load(&halves[1]), sums[t][1]);
                }
            }
        }
    }
    let mut all = [S::splat(0.0); T];
    for (all, [low, high]) in all.iter_mut().zip(sums) {
        *all = S::add(low, high);
    }
    all
}
