//! `softmax` of each row.

use rayon::prelude::*;
use wisp_shaders::params::RowsParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::exp;
use wisp_weights::blocks::simd;

/// The twin of `softmax.wgsl`.
pub(super) fn softmax(args: &Args) -> Result<(), HostError> {
    let p: RowsParams = args.params()?;
    let cols = (p.cols as usize).max(1);
    let x: &[f32] = args.read(1, size(&[p.rows, p.cols]))?;
    let out: &mut [f32] = args.write(2, size(&[p.rows, p.cols]))?;
    out.par_chunks_mut(cols)
        .zip(x.par_chunks(cols))
        .for_each(|(out, x)| softmax_row(x, out));
    Ok(())
}

simd! {
    fn softmax_row(x: &[f32], out: &mut [f32]) {
        let largest = x.iter().fold(f32::MIN, |largest, x| largest.max(*x));
        let mut total = 0.0;
        for (out, x) in out.iter_mut().zip(x) {
            *out = exp(x - largest);
        }
        for out in out.iter() {
            total += out;
        }
        for out in out {
            *out /= total;
        }
    }
}
