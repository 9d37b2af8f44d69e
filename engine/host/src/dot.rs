//! Products of encoded rows with a few vectors. They are limited by memory bandwidth, so each block is
//! read once, decoded in registers and multiplied with every vector.

use wisp_types::encoding::BLOCK;
use wisp_weights::blocks::{BlockEncoding, Planes, SCALES_AHEAD, Simd, simd, with_simd};

/// The largest number of vectors at once, so that their sums stay in registers.
pub(super) const MAX_VECTORS: usize = 4;

simd! {
    /// Computes `out[i][t] = dot(row first + i, x[t])` for vectors of whole blocks.
    pub(super) fn dots<E: BlockEncoding, const T: usize>(
        planes: Planes,
        first: usize,
        x: [&[f32]; T],
        out: &mut [[f32; T]],
    ) {
        with_simd!(S => dots_in::<E, S, T>(planes, first, x, out))
    }
}

#[inline(always)]
fn dots_in<E: BlockEncoding, S: Simd, const T: usize>(
    planes: Planes,
    first: usize,
    x: [&[f32]; T],
    out: &mut [[f32; T]],
) {
    let x = x.map(|x| x.as_chunks::<BLOCK>().0);
    let blocks = x[0].len();
    let mut factors = [E::Scales::default(); SCALES_AHEAD];
    for (i, out) in out.iter_mut().enumerate() {
        let row = (first + i) * blocks;
        let mut sums = [[S::splat(0.0); 2]; T];
        for start in (0..blocks).step_by(SCALES_AHEAD) {
            let count = SCALES_AHEAD.min(blocks - start);
            E::load_scales::<S>(planes, row + start, &mut factors[..count]);
            for (b, factor) in factors[..count].iter().enumerate() {
                let w = E::load_weights::<S>(planes, row + start + b, factor);
                for t in 0..T {
                    let (halves, _) = x[t][start + b].as_chunks::<16>();
                    sums[t][0] = S::mul_add(w[0], S::load(&halves[0]), sums[t][0]);
                    sums[t][1] = S::mul_add(w[1], S::load(&halves[1]), sums[t][1]);
                }
            }
        }
        for t in 0..T {
            out[t] = S::reduce_add(S::add(sums[t][0], sums[t][1]));
        }
    }
}
