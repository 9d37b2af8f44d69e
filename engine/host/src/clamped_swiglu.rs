//! `clamped_swiglu`: the gated product of gpt-oss.

use rayon::prelude::*;
use wisp_shaders::params::ClampedSwigluParams;
use wisp_weights::blocks::simd;

use super::args::Args;
use super::error::HostError;
use super::math::exp;

/// Elements of one parallel task.
const CHUNK: usize = 16384;

/// The twin of `clamped_swiglu.wgsl`.
pub(super) fn clamped_swiglu(args: &Args) -> Result<(), HostError> {
    let p: ClampedSwigluParams = args.params()?;
    let gate: &[f32] = args.read(1, p.len as usize)?;
    let up: &[f32] = args.read(2, p.len as usize)?;
    let out: &mut [f32] = args.write(3, p.len as usize)?;
    out.par_chunks_mut(CHUNK)
        .zip(gate.par_chunks(CHUNK).zip(up.par_chunks(CHUNK)))
        .for_each(|(out, (gate, up))| multiply(gate, up, [p.alpha, p.limit], out));
    Ok(())
}

simd! {
    fn multiply(gate: &[f32], up: &[f32], factors: [f32; 2], out: &mut [f32]) {
        let [alpha, limit] = factors;
        for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
            let g = gate.min(limit);
            // Not `clamp`, which panics if a forged program has a negative limit.
            let u = up.max(-limit).min(limit);
            *out = (u + 1.0) * g / (1.0 + exp(-alpha * g));
        }
    }
}
