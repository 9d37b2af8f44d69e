//! Products of encoded rows with a few vectors. They are limited by memory bandwidth, so each block is
//! read once, decoded in registers and multiplied with every vector.

use wisp_types::encoding::BLOCK;
use wisp_weights::blocks::{BlockEncoding, Planes, SCALES_AHEAD, Simd, simd};

/// The largest number of vectors at once, so that their sums stay in registers: 2 or 4.
pub(super) const MAX_VECTORS: usize = if IS_SMALL { 2 } else { 4 };

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
            // There are no more, and no code for them.
            [..] if MAX_VECTORS == 2 => {}
            // A fourth product costs less than code of its own for three.
            [a, b, c] => dots_in::<E, S, 4>(planes, first, [a, b, c, c], out),
            [a, b, c, d, ..] => dots_in::<E, S, 4>(planes, first, [a, b, c, d], out),
        }
    }
}

/// Rows whose sums are added up together.
pub(super) const LANES: usize = 16;

/// Distance of prefetching, in blocks.
pub(super) const BLOCKS_AHEAD: usize = 256;

/// Blocks that are multiplied by a loop that compilers unroll.
const GROUP: usize = 8;

/// Whether less code matters more than speed: the module of browsers is downloaded.
const IS_SMALL: bool = cfg!(target_arch = "wasm32");

#[inline(always)]
fn dots_in<E: BlockEncoding, S: Simd, const T: usize>(
    planes: Planes,
    first: usize,
    x: [&[f32]; T],
    out: &mut [[f32; MAX_VECTORS]],
) {
    for (i, out) in out.chunks_mut(LANES).enumerate() {
        let mut sums = [[S::splat(0.0); T]; LANES];
        for (lane, sums) in sums.iter_mut().enumerate().take(out.len()) {
            *sums = dot::<E, S, T>(planes, first + i * LANES + lane, x);
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

/// The products of a row and each of some vectors, whose elements are yet to be added: those of the halves of blocks.
struct Sums<S: Simd, const T: usize>([[S::Floats; 2]; T]);

impl<S: Simd, const T: usize> Sums<S, T> {
    /// Adds the products of block `i` of some blocks.
    #[inline(always)]
    fn add<E: BlockEncoding>(
        &mut self,
        blocks: Planes,
        i: usize,
        scales: &E::Scales,
        x: [&[f32; BLOCK]; T],
    ) {
        let w = E::load_weights::<S>(blocks, i, scales);
        for (sums, x) in self.0.iter_mut().zip(&x) {
            let (halves, _) = x.as_chunks::<16>();
            sums[0] = S::mul_add(w[0], S::load(&halves[0]), sums[0]);
            sums[1] = S::mul_add(w[1], S::load(&halves[1]), sums[1]);
        }
    }

    #[inline(always)]
    fn total(self) -> [S::Floats; T] {
        let mut all = [S::splat(0.0); T];
        for (all, [low, high]) in all.iter_mut().zip(self.0) {
            *all = S::add(low, high);
        }
        all
    }
}

/// Returns the products of a row and each of `x`, as vectors whose elements are yet to be added.
#[inline(always)]
fn dot<E: BlockEncoding, S: Simd, const T: usize>(
    planes: Planes,
    row: usize,
    x: [&[f32]; T],
) -> [S::Floats; T] {
    let width = x[0].len();
    let (first, blocks) = (row * width / BLOCK, width / BLOCK);
    let block_bytes = const { E::ENCODING.block_bytes() };
    let mut factors = [E::Scales::default(); SCALES_AHEAD];
    let mut sums = Sums::<S, T>([[S::splat(0.0); 2]; T]);
    for start in (0..blocks).step_by(SCALES_AHEAD) {
        let factors = &mut factors[..SCALES_AHEAD.min(blocks - start)];
        E::load_scales::<S>(planes, first + start, factors);
        let (groups, rest) = match IS_SMALL {
            true => (&[][..], &*factors),
            false => factors.as_chunks::<GROUP>(),
        };
        // As many as there are factors, so that few indices need a check.
        let mut vectors = [&[][..]; T];
        for t in 0..T {
            vectors[t] = &x[t][start * BLOCK..].as_chunks::<BLOCK>().0[..factors.len()];
        }
        let part = planes.blocks(block_bytes, first + start, factors.len());
        let of_groups = part.groups(block_bytes, GROUP);
        for (g, (scales, group)) in groups.iter().zip(of_groups).enumerate() {
            group.prefetch_ahead::<S>(block_bytes, BLOCKS_AHEAD);
            let mut of_group = [&[[0.0; BLOCK]; GROUP]; T];
            for t in 0..T {
                of_group[t] = &vectors[t].as_chunks().0[g];
            }
            for i in 0..GROUP {
                let mut of_block = [&[0.0; BLOCK]; T];
                for t in 0..T {
                    of_block[t] = &of_group[t][i];
                }
                sums.add::<E>(group, i, &scales[i], of_block);
            }
        }
        let done = groups.len() * GROUP;
        for (i, scales) in rest.iter().enumerate() {
            let block = planes.blocks(block_bytes, first + start + done + i, 1);
            let mut of_block = [&[0.0; BLOCK]; T];
            for t in 0..T {
                of_block[t] = &vectors[t][done + i];
            }
            sums.add::<E>(block, 0, scales, of_block);
        }
    }
    sums.total()
}
