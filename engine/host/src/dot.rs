//! Products of encoded rows with a few vectors: bound by memory, so each block is read once,
//! decoded in registers and multiplied with every vector.

use wisp_types::encoding::BLOCK;
use wisp_weights::encodings::{AHEAD, Lanes, Packed, Planes, simd, with_lanes};

/// The most vectors at once: their sums stay in registers.
pub(super) const MAX_VECTORS: usize = 4;

simd! {
    /// `out[i][t] = dot(row first + i, x[t])`, for vectors of whole blocks.
    pub(super) fn dots<E: Packed, const T: usize>(
        planes: Planes,
        first: usize,
        x: [&[f32]; T],
        out: &mut [[f32; T]],
    ) {
        with_lanes!(L => dots_in::<E, L, T>(planes, first, x, out))
    }
}

#[inline(always)]
fn dots_in<E: Packed, L: Lanes, const T: usize>(
    planes: Planes,
    first: usize,
    x: [&[f32]; T],
    out: &mut [[f32; T]],
) {
    let x = x.map(|x| x.as_chunks::<BLOCK>().0);
    let blocks = x[0].len();
    let mut factors = [E::Factor::default(); AHEAD];
    for (i, out) in out.iter_mut().enumerate() {
        let row = (first + i) * blocks;
        let mut sums = [[L::splat(0.0); 2]; T];
        for start in (0..blocks).step_by(AHEAD) {
            let count = AHEAD.min(blocks - start);
            E::factors::<L>(planes, row + start, &mut factors[..count]);
            let x = x.map(|x| &x[start..start + count]);
            for (b, factor) in factors[..count].iter().enumerate() {
                let w = E::weights::<L>(planes, row + start + b, factor);
                for t in 0..T {
                    let (halves, _) = x[t][b].as_chunks::<16>();
                    sums[t][0] = L::mul_add(w[0], L::load(&halves[0]), sums[t][0]);
                    sums[t][1] = L::mul_add(w[1], L::load(&halves[1]), sums[t][1]);
                }
            }
        }
        for t in 0..T {
            out[t] = L::total(L::add(sums[t][0], sums[t][1]));
        }
    }
}
