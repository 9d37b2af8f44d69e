//! `argmax` over rows.

use rayon::prelude::*;
use wisp_shaders::params::RowsParams;

use super::args::{Args, size};
use super::error::HostError;

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
        .for_each(|(out, x)| *out = best(x.iter().copied()));
    Ok(())
}

/// Returns the index of the largest number after [`finite`], and the lowest index among equals.
pub(super) fn best(x: impl Iterator<Item = f32>) -> u32 {
    let mut best = (0, f32::MIN);
    for (i, x) in x.enumerate() {
        let x = finite(x);
        if x > best.1 {
            best = (i as u32, x);
        }
    }
    best.0
}

/// Replaces NaN and minus infinity by the smallest finite number, and infinity by the largest.
#[expect(clippy::manual_clamp, reason = "`clamp` would let NaN pass")]
#[inline(always)]
pub(super) fn finite(x: f32) -> f32 {
    // `max` drops NaN.
    x.max(f32::MIN).min(f32::MAX)
}
