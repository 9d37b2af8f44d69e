//! `argmax` over rows.

use rayon::prelude::*;
use wisp_shaders::params::RowsParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::larger;
use wisp_weights::blocks::simd;

/// The twin of `argmax.wgsl`. The lowest index wins among equals, and NaN counts as the smallest
/// number.
pub(super) fn argmax(args: &Args) -> Result<(), HostError> {
    let p: RowsParams = args.params()?;
    let x: &[f32] = args.read(1, size(&[p.rows, p.cols]))?;
    let out: &mut [u32] = args.write(2, p.rows as usize)?;
    if p.cols == 0 {
        return Err(args.value("cols", "at least 1", p.cols));
    }
    out.par_iter_mut()
        .zip(x.par_chunks(p.cols as usize))
        .for_each(|(out, x)| *out = best(x).0 as u32);
    Ok(())
}

simd! {
    /// Returns the index of the largest number after [`finite`], the lowest one among equals, and that number.
    pub(crate) fn best(values: &[f32]) -> (usize, f32) {
        let (chunks, rest) = values.as_chunks::<16>();
        let mut lanes = [f32::MIN; 16];
        for chunk in chunks {
            for i in 0..16 {
                lanes[i] = larger(lanes[i], finite(chunk[i]));
            }
        }
        let mut most = f32::MIN;
        for z in lanes.iter().chain(rest) {
            most = most.max(finite(*z));
        }
        for (c, chunk) in chunks.iter().enumerate() {
            let mut has_most = false;
            for z in chunk {
                has_most |= finite(*z) == most;
            }
            if has_most {
                return (16 * c + position(chunk, most), most);
            }
        }
        (16 * chunks.len() + position(rest, most), most)
    }
}

/// Returns the index of the first number that is `most` after [`finite`]; 0 if there is none.
#[inline(always)]
fn position(values: &[f32], most: f32) -> usize {
    for (i, z) in values.iter().enumerate() {
        if finite(*z) == most {
            return i;
        }
    }
    0
}

/// Replaces NaN and minus infinity by the smallest finite number, and infinity by the largest.
#[expect(clippy::manual_clamp, reason = "`clamp` would let NaN pass")]
#[inline(always)]
pub(super) fn finite(x: f32) -> f32 {
    // `max` drops NaN.
    x.max(f32::MIN).min(f32::MAX)
}
