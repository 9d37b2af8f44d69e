//! `rms_norm` and `add_rms_norm` (Zhang and Sennrich 2019).

use rayon::prelude::*;
use wisp_shaders::params::RmsNormParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::dot;
use crate::weights::encodings::simd;

/// The twin of `rms_norm.wgsl`.
pub(super) fn rms_norm(args: &Args) -> Result<(), HostError> {
    let p: RmsNormParams = args.params()?;
    let cols = (p.cols as usize).max(1);
    let x: &[f32] = args.read(1, size(&[p.rows, p.cols]))?;
    let weight: &[f32] = args.read(2, p.cols as usize)?;
    let out: &mut [f32] = args.write(3, size(&[p.rows, p.cols]))?;
    out.par_chunks_mut(cols)
        .zip(x.par_chunks(cols))
        .for_each(|(out, x)| {
            normalise(p, x, weight, out);
        });
    Ok(())
}

/// The twin of `rms_norm.wgsl` with `add`.
pub(super) fn add_rms_norm(args: &Args) -> Result<(), HostError> {
    let p: RmsNormParams = args.params()?;
    let cols = (p.cols as usize).max(1);
    let x: &mut [f32] = args.write(1, size(&[p.rows, p.cols]))?;
    let y: &[f32] = args.read(2, size(&[p.rows, p.cols]))?;
    let weight: &[f32] = args.read(3, p.cols as usize)?;
    let out: &mut [f32] = args.write(4, size(&[p.rows, p.cols]))?;
    let rows = out.par_chunks_mut(cols).zip(x.par_chunks_mut(cols));
    rows.zip(y.par_chunks(cols)).for_each(|((out, x), y)| {
        for (x, y) in x.iter_mut().zip(y) {
            *x += y;
        }
        normalise(p, x, weight, out);
    });
    Ok(())
}

simd! {
    fn scale(x: &[f32], factor: f32, weight: &[f32], offset: f32, out: &mut [f32]) {
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * factor * (weight + offset);
        }
    }
}

/// One row.
fn normalise(p: RmsNormParams, x: &[f32], weight: &[f32], out: &mut [f32]) {
    let mean = dot(x, x) / p.cols as f32;
    scale(x, 1.0 / (mean + p.eps).sqrt(), weight, p.weight_offset, out);
}
