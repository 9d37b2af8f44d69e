//! `route`: selects the experts of each token (Shazeer et al. 2017).

use rayon::prelude::*;
use wisp_shaders::params::RouteParams;

use super::args::{Args, size};
use super::error::HostError;
use super::top_k::descending;

/// The twin of `route.wgsl`.
pub(super) fn route(args: &Args) -> Result<(), HostError> {
    let p: RouteParams = args.params()?;
    if p.experts_per_token > p.experts {
        return Err(args.value(
            "experts_per_token",
            format!("at most {}", p.experts),
            p.experts_per_token,
        ));
    }
    let logits: &[f32] = args.read(1, size(&[p.tokens, p.experts]))?;
    let ids: &mut [u32] = args.write(2, size(&[p.tokens, p.experts_per_token]))?;
    let weights: &mut [f32] = args.write(3, size(&[p.tokens, p.experts_per_token]))?;
    if p.experts_per_token == 0 {
        return Ok(());
    }
    let chosen = p.experts_per_token as usize;
    ids.par_chunks_mut(chosen)
        .zip(weights.par_chunks_mut(chosen))
        .zip(logits.par_chunks(p.experts as usize))
        .for_each(|((ids, weights), logits)| {
            select_experts(logits, p.normalise != 0, ids, weights)
        });
    Ok(())
}

/// Selects the experts of one token and computes their weights.
fn select_experts(logits: &[f32], normalise: bool, ids: &mut [u32], weights: &mut [f32]) {
    let order = descending(logits);
    let max = logits.iter().fold(f32::MIN, |a, b| a.max(*b));
    let exp = |x: f32| (x - max).exp();
    let total: f32 = logits.iter().map(|x| exp(*x)).sum();
    for ((id, weight), from) in ids.iter_mut().zip(weights.iter_mut()).zip(order) {
        *id = from;
        *weight = exp(logits[from as usize]) / total;
    }
    if normalise {
        let sum: f32 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
}
