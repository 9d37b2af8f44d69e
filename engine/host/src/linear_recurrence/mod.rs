//! `gated_delta_rule` and `mamba2_scan`, linear recurrences over the sequences of a batch: token by token, and in chunks
//! of tokens.

mod chunked;
mod scores;
mod tokens;

use rayon::prelude::*;
use wisp_shaders::params::{CHUNK, LinearRecurrenceParams};

use super::args::{Args, size};
use super::error::HostError;
use super::math::exp;
use super::spans::{Span, spans};

pub(super) use chunked::linear_recurrence_chunked;
pub(super) use scores::linear_recurrence_scores;
pub(super) use tokens::linear_recurrence;

/// Tokens of a chunk.
const C: usize = CHUNK as usize;

/// The sizes of a call.
#[derive(Clone, Copy)]
struct Sizes {
    p: LinearRecurrenceParams,
    is_mamba: bool,
    tokens: usize,
    v_heads: usize,
    k_dim: usize,
    v_dim: usize,
}

impl Sizes {
    /// Reads and checks the sizes.
    fn new(args: &Args) -> Result<Sizes, HostError> {
        let p: LinearRecurrenceParams = args.params()?;
        if p.k_heads == 0 || !p.v_heads.is_multiple_of(p.k_heads) || p.v_heads == 0 {
            let expected = format!("a multiple of {} and not 0", p.k_heads);
            return Err(args.value("v_heads", expected, p.v_heads));
        }
        if !(1..=256).contains(&p.k_dim) || p.v_dim == 0 {
            return Err(args.value("k_dim", "1 to 256, and v_dim at least 1", p.k_dim));
        }
        Ok(Sizes {
            p,
            is_mamba: args.op().starts_with("mamba2_scan"),
            tokens: p.tokens as usize,
            v_heads: p.v_heads as usize,
            k_dim: p.k_dim as usize,
            v_dim: p.v_dim as usize,
        })
    }

    /// Elements of all heads' values of a token.
    fn values(&self) -> usize {
        size(&[self.p.v_heads, self.p.v_dim])
    }

    /// Elements of a token of the input.
    fn width(&self) -> usize {
        size(&[2, self.p.k_heads, self.p.k_dim]).saturating_add(self.values())
    }

    /// Elements of the input.
    fn input(&self) -> usize {
        self.tokens.saturating_mul(self.width())
    }

    /// Elements of a head's matrix.
    fn matrix(&self) -> usize {
        size(&[self.p.k_dim, self.p.v_dim])
    }

    /// Elements of a token's scores of a head: four factors, a row of scores, and of the inverse.
    fn score_row(&self) -> usize {
        4 + if self.is_mamba { C } else { 2 * C }
    }

    /// Elements of all scores.
    fn scores(&self) -> usize {
        let row = self.score_row() as u32;
        size(&[self.p.v_heads, self.p.tokens, row])
    }

    /// The head of keys and queries of a head.
    fn k_head(&self, head: usize) -> usize {
        head / (self.p.v_heads / self.p.k_heads) as usize
    }

    /// Returns a head's query, key and value of a token of the input.
    #[inline(always)]
    fn token<'a>(&self, qkv: &'a [f32], t: usize, head: usize) -> [&'a [f32]; 3] {
        let keys = self.p.k_heads as usize * self.k_dim;
        let (key, value) = (self.k_head(head) * self.k_dim, head * self.v_dim);
        let [q, k, v] = match self.is_mamba {
            false => [key, keys + key, 2 * keys + value],
            true => {
                let values = self.values();
                [values + keys + key, values + key, value]
            }
        };
        let token = &qkv[t * self.width()..][..self.width()];
        [
            &token[q..][..self.k_dim],
            &token[k..][..self.k_dim],
            &token[v..][..self.v_dim],
        ]
    }
}

/// Runs the spans of a call, whose binding is `spans_at`, over its states and results, which are bound after them.
/// `run` computes the tokens of a span with one head's matrix `[k_dim, v_dim]`, and returns their results, `[tokens, v_dim]`.
fn run_spans(
    args: &Args,
    sizes: &Sizes,
    spans_at: usize,
    run: impl Fn(Span, usize, &mut [f32]) -> Vec<f32> + Sync,
) -> Result<(), HostError> {
    let (matrix, values) = (sizes.matrix(), sizes.values());
    let state: &mut [f32] = args.write_all(spans_at + 1)?;
    let out: &mut [f32] = args.write(spans_at + 2, sizes.tokens.saturating_mul(values))?;
    let row = matrix.saturating_mul(sizes.v_heads);
    let spans = spans(
        args,
        spans_at,
        sizes.p.batch,
        sizes.tokens,
        state.len() / row,
    )?;
    // The order does not matter: no sequence reads a row that another one writes.
    for span in spans.iter().flatten() {
        match span.read {
            Some(read) if read == span.written => {}
            Some(read) => state.copy_within(read * row..(read + 1) * row, span.written * row),
            None => state[span.written * row..][..row].fill(0.0),
        }
    }
    // No two sequences write the same row.
    let mut rows: Vec<_> = state.chunks_exact_mut(row).map(Some).collect();
    let spans = spans.into_iter().flatten();
    let tasks = spans.filter_map(|span| Some((span, rows[span.written].take()?)));
    let tasks = tasks.flat_map(|(span, row)| {
        let heads = row.chunks_exact_mut(matrix).enumerate();
        heads.map(move |(head, matrix)| (span, head, matrix))
    });
    let tasks: Vec<(Span, usize, &mut [f32])> = tasks.collect();
    let results = tasks.into_par_iter();
    let results = results.map(|(span, head, matrix)| (span, head, run(span, head, matrix)));
    let results: Vec<(Span, usize, Vec<f32>)> = results.collect();
    for (span, head, result) in &results {
        for (n, from) in result.chunks_exact(sizes.v_dim).enumerate() {
            let at = (span.first + n) * values + head * sizes.v_dim;
            out[at..at + sizes.v_dim].copy_from_slice(from);
        }
    }
    Ok(())
}

/// The gates of a call.
struct Gates<'a> {
    sizes: Sizes,
    /// `[tokens, 2, v_heads]`, or `[tokens, v_heads]` for `mamba2_scan`.
    gates: &'a [f32],
    a_log: &'a [f32],
    dt_bias: &'a [f32],
}

impl Gates<'_> {
    /// Takes the gates of a call from bindings 2 to 4.
    fn take<'a>(args: &'a Args, sizes: Sizes) -> Result<Gates<'a>, HostError> {
        let gates = if sizes.is_mamba { 1 } else { 2 };
        Ok(Gates {
            sizes,
            gates: args.read(2, size(&[sizes.p.tokens, gates, sizes.p.v_heads]))?,
            a_log: args.read(3, sizes.v_heads)?,
            dt_bias: args.read(4, sizes.v_heads)?,
        })
    }

    /// Returns a token's decay, and its step (`mamba2_scan`) or how far it moves what the state answers to its key.
    fn of(&self, t: usize, head: usize) -> [f32; 2] {
        let heads = self.sizes.v_heads;
        let at = match self.sizes.is_mamba {
            false => (2 * t + 1) * heads + head,
            true => t * heads + head,
        };
        let step = softplus(self.gates[at] + self.dt_bias[head]);
        let decay = exp(-exp(self.a_log[head]) * step);
        match self.sizes.is_mamba {
            false => [decay, 1.0 / (1.0 + exp(-self.gates[at - heads]))],
            true => [decay, step],
        }
    }
}

/// Returns the factor that makes a vector's length 1, with `eps` added to its square.
fn inverse_length(x: &[f32], eps: f32) -> f32 {
    1.0 / (x.iter().map(|x| x * x).sum::<f32>() + eps).sqrt()
}

/// Adds `factor * from` to `to`.
#[inline(always)]
fn add(factor: f32, from: &[f32], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

/// Computes `ln(1 + e^x)` without overflow.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + exp(-x.abs()).ln_1p()
}
