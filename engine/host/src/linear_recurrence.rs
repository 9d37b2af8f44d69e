//! `gated_delta_rule` and `mamba2_scan`: linear recurrences over the sequences of a batch.

use rayon::prelude::*;
use wisp_shaders::params::LinearRecurrenceParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::exp;
use super::spans::{Span, spans};

/// The inputs of a call.
struct Inputs<'a> {
    p: LinearRecurrenceParams,
    /// `[tokens, 2 * k_heads * k_dim + v_heads * v_dim]`.
    qkv: &'a [f32],
    /// `[tokens, 2, v_heads]`, or `[tokens, v_heads]` for `mamba2_scan`.
    gates: &'a [f32],
    a_log: &'a [f32],
    dt_bias: &'a [f32],
    /// Only for `mamba2_scan`.
    d: Option<&'a [f32]>,
}

/// The twin of `linear_recurrence.wgsl`.
pub(super) fn linear_recurrence(args: &Args) -> Result<(), HostError> {
    let p: LinearRecurrenceParams = args.params()?;
    let is_mamba = args.op() == "mamba2_scan";
    if p.k_heads == 0 || !p.v_heads.is_multiple_of(p.k_heads) || p.v_heads == 0 {
        let expected = format!("a multiple of {} and not 0", p.k_heads);
        return Err(args.value("v_heads", expected, p.v_heads));
    }
    if !(1..=256).contains(&p.k_dim) || p.v_dim == 0 {
        return Err(args.value("k_dim", "1 to 256, and v_dim at least 1", p.k_dim));
    }
    let (tokens, v_dim) = (p.tokens as usize, p.v_dim as usize);
    let keys = size(&[2, p.k_heads, p.k_dim]);
    let values = size(&[p.v_heads, p.v_dim]);
    let inputs = Inputs {
        p,
        qkv: args.read(1, tokens.saturating_mul(keys.saturating_add(values)))?,
        gates: args.read(
            2,
            size(&[p.tokens, if is_mamba { 1 } else { 2 }, p.v_heads]),
        )?,
        a_log: args.read(3, p.v_heads as usize)?,
        dt_bias: args.read(4, p.v_heads as usize)?,
        d: match is_mamba {
            true => Some(args.read(8, p.v_heads as usize)?),
            false => None,
        },
    };
    let state: &mut [f32] = args.write_all(6)?;
    let out: &mut [f32] = args.write(7, tokens.saturating_mul(values))?;
    let matrix = size(&[p.k_dim, p.v_dim]);
    let row = matrix.saturating_mul(p.v_heads as usize);
    let spans = spans(args, 5, p.batch, tokens, state.len() / row)?;
    // The order does not matter: no sequence reads a row that another one writes.
    for span in spans.iter().flatten() {
        match span.read {
            Some(read) if read == span.written => {}
            Some(read) => state.copy_within(read * row..(read + 1) * row, span.written * row),
            None => state[span.written * row..][..row].fill(0.0),
        }
        let heads = state[span.written * row..][..row].par_chunks_exact_mut(matrix);
        let results = heads
            .enumerate()
            .map(|(head, s)| inputs.run(*span, head, s));
        let results: Vec<Vec<f32>> = results.collect();
        for (head, result) in results.iter().enumerate() {
            for (n, from) in result.chunks_exact(v_dim).enumerate() {
                let at = (span.first + n) * values + head * v_dim;
                out[at..at + v_dim].copy_from_slice(from);
            }
        }
    }
    Ok(())
}

impl Inputs<'_> {
    /// Runs the tokens of a span through one head's matrix `[k_dim, v_dim]`. Returns their results,
    /// `[tokens, v_dim]`.
    fn run(&self, span: Span, head: usize, matrix: &mut [f32]) -> Vec<f32> {
        let p = &self.p;
        let [k_heads, v_heads, k_dim, v_dim] =
            [p.k_heads, p.v_heads, p.k_dim, p.v_dim].map(|size| size as usize);
        let (keys, k_head) = (k_heads * k_dim, head / (v_heads / k_heads));
        let stride = 2 * keys + v_heads * v_dim;
        let mut out = vec![0f32; span.len * v_dim];
        let mut added = vec![0f32; v_dim];
        let values = v_heads * v_dim;
        for (t, out) in (span.first..).zip(out.chunks_exact_mut(v_dim)) {
            let token = &self.qkv[t * stride..][..stride];
            let key = k_head * k_dim;
            let [q, k, v] = match self.d {
                None => [key, keys + key, 2 * keys + head * v_dim],
                Some(_) => [values + keys + key, values + key, head * v_dim],
            };
            let (q, k, v) = (
                &token[q..][..k_dim],
                &token[k..][..k_dim],
                &token[v..][..v_dim],
            );
            let gate = match self.d {
                None => (2 * t + 1) * v_heads + head,
                Some(_) => t * v_heads + head,
            };
            let step = softplus(self.gates[gate] + self.dt_bias[head]);
            let decay = exp(-exp(self.a_log[head]) * step);
            let mut q_scale = p.scale;
            match self.d {
                Some(_) => added
                    .iter_mut()
                    .zip(v)
                    .for_each(|(added, v)| *added = step * v),
                None => {
                    q_scale *= inverse_length(q, p.eps);
                    let k_scale = inverse_length(k, p.eps);
                    let beta = 1.0 / (1.0 + exp(-self.gates[gate - v_heads]));
                    added.fill(0.0);
                    for (row, k) in matrix.chunks_exact(v_dim).zip(k) {
                        add(*k, row, &mut added);
                    }
                    for (added, v) in added.iter_mut().zip(v) {
                        *added = beta * (v - decay * *added * k_scale) * k_scale;
                    }
                }
            }
            for ((row, k), q) in matrix.chunks_exact_mut(v_dim).zip(k).zip(q) {
                for (s, added) in row.iter_mut().zip(&added) {
                    *s = *s * decay + k * added;
                }
                add(*q, row, out);
            }
            out.iter_mut().for_each(|x| *x *= q_scale);
            if let Some(d) = self.d {
                add(d[head], v, out);
            }
        }
        out
    }
}

/// Returns the factor that makes a vector's length 1, with `eps` added to its square.
fn inverse_length(x: &[f32], eps: f32) -> f32 {
    1.0 / (x.iter().map(|x| x * x).sum::<f32>() + eps).sqrt()
}

/// Adds `factor * from` to `to`.
fn add(factor: f32, from: &[f32], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

/// Computes `ln(1 + e^x)` without overflow.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + exp(-x.abs()).ln_1p()
}
