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
            let (high, low) = split(v);
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

simd! {
    fn gelu(gate: &[f32], up: &[f32], out: &mut [f32]) {
        for ((out, x), up) in out.iter_mut().zip(gate).zip(up) {
            // erfc, because 1 + erf cancels for negative x.
            let tail = erfc_tail(*x);
            let erfc = if *x < 0.0 { tail } else { 2.0 - tail };
            *out = 0.5 * x * erfc * up;
        }
    }
}

/// Computes `erfc(|x| / sqrt(2))` to within 4e-7 of its magnitude; 0 where it is subnormal.
///
/// By the Chebyshev fit of Press et al., Numerical Recipes, 6.2, whose relative error is 1.2e-7. Its exponent is computed in
/// f64, because the exponential multiplies the rounding error of a large one.
#[inline(always)]
fn erfc_tail(x: f32) -> f32 {
    let x = f64::from(x.abs());
    let t = 1.0 / (1.0 + 0.5 * std::f64::consts::FRAC_1_SQRT_2 * x);
    let mut series = 0.17087277;
    for c in [
        -0.82215223,
        1.48851587,
        -1.13520398,
        0.27886807,
        -0.18628806,
        0.09678418,
        0.37409196,
        1.00002368,
        -1.26551223,
    ] {
        series = series * t + c;
    }
    let exponent = series - 0.5 * x * x;
    let (high, low) = split(exponent);
    t as f32 * exp(high) * (1.0 + low)
}

/// Splits a number into the nearest `f32` and the rest, which is 0 if the first is not finite.
#[inline(always)]
fn split(x: f64) -> (f32, f32) {
    let high = x as f32;
    let low = if high.is_finite() {
        (x - f64::from(high)) as f32
    } else {
        0.0
    };
    (high, low)
}
