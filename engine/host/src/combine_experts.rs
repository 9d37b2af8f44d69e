//! `combine_experts`: the weighted sum of the outputs of each token's experts.

use rayon::prelude::*;
use wisp_shaders::params::CombineExpertsParams;

use super::args::{Args, size};
use super::error::HostError;

/// The twin of `combine_experts.wgsl`.
pub(super) fn combine_experts(args: &Args) -> Result<(), HostError> {
    let p: CombineExpertsParams = args.params()?;
    let (cols, chosen) = (p.cols as usize, p.experts_per_token as usize);
    let x: &[f32] = args.read(1, size(&[p.tokens, p.experts_per_token, p.cols]))?;
    let weights: &[f32] = args.read(2, size(&[p.tokens, p.experts_per_token]))?;
    let out: &mut [f32] = args.write(3, size(&[p.tokens, p.cols]))?;
    out.par_chunks_mut(cols.max(1))
        .enumerate()
        .for_each(|(t, out)| {
            out.fill(0.0);
            for slot in t * chosen..(t + 1) * chosen {
                for (out, x) in out.iter_mut().zip(&x[slot * cols..][..cols]) {
                    *out += weights[slot] * x;
                }
            }
        });
    Ok(())
}
