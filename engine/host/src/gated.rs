//! `gated`: the gated feed-forward product (Shazeer 2020).

use rayon::prelude::*;
use wisp_shaders::params::GatedParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::exp;
use wisp_weights::blocks::simd;

/// The twin of `gated.wgsl`.
pub(super) fn gated(args: &Args) -> Result<(), HostError> {
    let p: GatedParams = args.params()?;
    let cols = p.cols as usize;
    for (what, stride, offset) in [
        ("gate_stride", p.gate_stride, p.gate_offset),
        ("up_stride", p.up_stride, p.up_offset),
    ] {
        if (stride as usize) < offset as usize + cols {
            let least = format!("at least {}", offset as usize + cols);
            return Err(args.value(what, least, stride));
        }
    }
    let gate: &[f32] = args.read(1, size(&[p.tokens, p.gate_stride]))?;
    let up: &[f32] = args.read(2, size(&[p.tokens, p.up_stride]))?;
    let out: &mut [f32] = args.write(3, size(&[p.tokens, p.cols]))?;
    let multiply =
        multiply(p.activation).ok_or_else(|| args.value("activation", "0 to 3", p.activation))?;
    out.par_chunks_mut(cols.max(1))
        .enumerate()
        .for_each(|(t, out)| {
            let gate = &gate[t * p.gate_stride as usize + p.gate_offset as usize..][..cols];
            let up = &up[t * p.up_stride as usize + p.up_offset as usize..][..cols];
            multiply(gate, up, out);
        });
    Ok(())
}

/// Writes `activation(gate[i]) * up[i]` to its last argument.
pub(super) type Multiply = fn(&[f32], &[f32], &mut [f32]);

/// Returns the product for an activation's number, or `None` if there is no such activation.
pub(super) fn multiply(activation: u32) -> Option<Multiply> {
    match activation {
        0 => Some(silu),
        1 => Some(gelu),
        2 => Some(gelu_tanh),
        3 => Some(relu),
        _ => None,
    }
}

simd! {
    fn silu(gate: &[f32], up: &[f32], out: &mut [f32]) {
        for ((out, x), up) in out.iter_mut().zip(gate).zip(up) {
            *out = x / (1.0 + exp(-x)) * up;
        }
    }
}

simd! {
    fn gelu_tanh(gate: &[f32], up: &[f32], out: &mut [f32]) {
        // sqrt(2 / pi)
        const FACTOR: f64 = 0.797_884_560_802_865_4;
        for ((out, x), up) in out.iter_mut().zip(gate).zip(up) {
            // In f64, because the exponential multiplies the rounding error of a large argument.
            let wide = f64::from(*x);
            let v = -2.0 * FACTOR * wide * (1.0 + 0.044715 * wide * wide);
            let high = v as f32;
            let low = if high.is_finite() { (v - f64::from(high)) as f32 } else { 0.0 };
            // (1 + tanh(u)) / 2 is the logistic function of 2u.
            *out = x / (1.0 + exp(high) * (1.0 + low)) * up;
        }
    }
}

fn relu(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, x), up) in out.iter_mut().zip(gate).zip(up) {
        *out = x.max(0.0) * up;
    }
}

fn gelu(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, x), up) in out.iter_mut().zip(gate).zip(up) {
        // erfc, because 1 + erf cancels for negative x.
        *out = 0.5 * x * libm::erfcf(-x * std::f32::consts::FRAC_1_SQRT_2) * up;
    }
}
