//! `rms_norm` (Zhang and Sennrich 2019) and `layer_norm` (Ba et al. 2016), alone and fused with a
//! preceding sum.

use rayon::prelude::*;
use wisp_shaders::params::NormParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::dot;
use super::quantize::quantize_rows;
use wisp_weights::blocks::simd;

/// The kind of norm.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rms,
    Layer,
}

/// The twin of `norm.wgsl`.
pub(super) fn rms_norm(args: &Args) -> Result<(), HostError> {
    norm(args, Kind::Rms).map(drop)
}

/// The twin of `norm.wgsl` with `layer`.
pub(super) fn layer_norm(args: &Args) -> Result<(), HostError> {
    norm(args, Kind::Layer).map(drop)
}

/// The twin of `norm.wgsl` with `add`.
pub(super) fn add_rms_norm(args: &Args) -> Result<(), HostError> {
    add_norm(args, Kind::Rms).map(drop)
}

/// The twin of `norm.wgsl` with `add` and `layer`.
pub(super) fn add_layer_norm(args: &Args) -> Result<(), HostError> {
    add_norm(args, Kind::Layer).map(drop)
}

/// The twin of `norm.wgsl` with `int8`.
pub(super) fn rms_norm_int8(args: &Args) -> Result<(), HostError> {
    let (out, cols) = norm(args, Kind::Rms)?;
    quantize_rows(args, out, cols, [4, 5])
}

/// The twin of `norm.wgsl` with `add` and `int8`.
pub(super) fn add_rms_norm_int8(args: &Args) -> Result<(), HostError> {
    let (out, cols) = add_norm(args, Kind::Rms)?;
    quantize_rows(args, out, cols, [5, 6])
}

/// Returns the normalised rows, and their width.
fn norm<'a>(args: &'a Args, kind: Kind) -> Result<(&'a [f32], usize), HostError> {
    let p: NormParams = args.params()?;
    let cols = (p.cols as usize).max(1);
    let x: &[f32] = args.read(1, size(&[p.rows, p.cols]))?;
    let row = Row::take(args, p, kind, 2, 4)?;
    let out: &mut [f32] = args.write(3, size(&[p.rows, p.cols]))?;
    out.par_chunks_mut(cols)
        .zip(x.par_chunks(cols))
        .for_each(|(out, x)| row.normalise(x, out));
    Ok((out, p.cols as usize))
}

/// Adds in place and returns the normalised rows, and their width.
fn add_norm<'a>(args: &'a Args, kind: Kind) -> Result<(&'a [f32], usize), HostError> {
    let p: NormParams = args.params()?;
    let cols = (p.cols as usize).max(1);
    let x: &mut [f32] = args.write(1, size(&[p.rows, p.cols]))?;
    let y: &[f32] = args.read(2, size(&[p.rows, p.cols]))?;
    let row = Row::take(args, p, kind, 3, 5)?;
    let out: &mut [f32] = args.write(4, size(&[p.rows, p.cols]))?;
    let rows = out.par_chunks_mut(cols).zip(x.par_chunks_mut(cols));
    rows.zip(y.par_chunks(cols)).for_each(|((out, x), y)| {
        for (x, y) in x.iter_mut().zip(y) {
            *x += p.y_scale * y;
        }
        row.normalise(x, out);
    });
    Ok((out, p.cols as usize))
}

simd! {
    fn scale(x: &[f32], factor: f32, weight: &[f32], offset: f32, out: &mut [f32]) {
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * factor * (weight + offset);
        }
    }
}

/// The parameters and weights that normalise every row.
struct Row<'a> {
    params: NormParams,
    kind: Kind,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl<'a> Row<'a> {
    fn take(
        args: &'a Args,
        params: NormParams,
        kind: Kind,
        weight: usize,
        bias: usize,
    ) -> Result<Row<'a>, HostError> {
        let cols = params.cols as usize;
        let has_bias = kind == Kind::Layer && params.has_bias != 0;
        Ok(Row {
            params,
            kind,
            weight: args.read(weight, cols)?,
            bias: has_bias.then(|| args.read(bias, cols)).transpose()?,
        })
    }

    fn normalise(&self, x: &[f32], out: &mut [f32]) {
        let p = self.params;
        match self.kind {
            Kind::Rms => {
                let factor = 1.0 / (dot(x, x) / p.cols as f32 + p.eps).sqrt();
                scale(x, factor, self.weight, p.weight_offset, out);
            }
            Kind::Layer => {
                let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / x.len().max(1) as f64;
                for (out, x) in out.iter_mut().zip(x) {
                    *out = x - mean as f32;
                }
                let factor = 1.0 / (dot(out, out) / p.cols as f32 + p.eps).sqrt();
                for (out, weight) in out.iter_mut().zip(self.weight) {
                    *out *= factor * (weight + p.weight_offset);
                }
            }
        }
        for (out, bias) in out.iter_mut().zip(self.bias.unwrap_or_default()) {
            *out += bias;
        }
    }
}
