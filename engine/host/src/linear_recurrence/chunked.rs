//! `gated_delta_rule_chunked` and `mamba2_scan_chunked`: the tokens of a chunk at a time, from their scores.

use wisp_weights::blocks::simd;

use super::{C, Sizes, run_spans};
use crate::{args::Args, error::HostError, spans::Span};

/// Columns of a matrix that are computed at once, so that they stay in the innermost cache.
const COLUMNS: usize = 32;

/// A row of a tile: some columns.
type Row = [f32; COLUMNS];

/// The inputs of a call.
struct Inputs<'a> {
    sizes: Sizes,
    /// `[tokens, 2 * k_heads * k_dim + v_heads * v_dim]`.
    qkv: &'a [f32],
    /// `[v_heads, tokens, 4 + C]`, or `[v_heads, tokens, 4 + 2 * C]`.
    scores: &'a [f32],
    /// Only for `mamba2_scan_chunked`.
    d: Option<&'a [f32]>,
}

/// The tokens of a sequence in a chunk.
#[derive(Clone, Copy)]
struct Part {
    /// The first token of the chunk.
    first: usize,
    /// Those of the sequence, counted from there.
    begin: usize,
    end: usize,
}

/// The twin of `linear_recurrence_chunked.wgsl`.
pub(crate) fn linear_recurrence_chunked(args: &Args) -> Result<(), HostError> {
    let sizes = Sizes::new(args)?;
    let inputs = Inputs {
        sizes,
        qkv: args.read(1, sizes.input())?,
        scores: args.read(2, sizes.scores())?,
        d: match sizes.is_mamba {
            true => Some(args.read(6, sizes.v_heads)?),
            false => None,
        },
    };
    run_spans(args, &sizes, 3, |span, head, matrix| {
        let mut out = vec![0f32; span.len * sizes.v_dim];
        for column in (0..sizes.v_dim).step_by(COLUMNS) {
            run_columns(&inputs, span, (head, column), matrix, &mut out);
        }
        out
    })
}

impl<'a> Inputs<'a> {
    /// Returns the factors of a token of a head, its scores, and its row of the inverse, which is empty for `mamba2_scan`.
    #[inline(always)]
    fn scores(&self, t: usize, head: usize) -> ([f32; 4], &'a [f32], &'a [f32]) {
        let row = self.sizes.score_row();
        let row = &self.scores[(head * self.sizes.tokens + t) * row..][..row];
        let (scores, inverse) = row[4..].split_at(C);
        ([row[0], row[1], row[2], row[3]], scores, inverse)
    }
}

simd! {
    /// Runs the tokens of a span through some columns of a head's matrix `[k_dim, v_dim]`, and writes them to their results,
    /// `[tokens, v_dim]`.
    fn run_columns(
        inputs: &Inputs<'_>,
        span: Span,
        at: (usize, usize),
        matrix: &mut [f32],
        out: &mut [f32],
    ) {
        let (head, column) = at;
        let v_dim = inputs.sizes.v_dim;
        let count = COLUMNS.min(v_dim - column);
        let mut tile = vec![[0f32; COLUMNS]; inputs.sizes.k_dim];
        for (tile, row) in tile.iter_mut().zip(matrix.chunks_exact(v_dim)) {
            tile[..count].copy_from_slice(&row[column..][..count]);
        }
        let end = span.first + span.len;
        for first in (span.first / C * C..end).step_by(C) {
            let part = Part {
                first,
                begin: first.max(span.first) - first,
                end: C.min(end - first),
            };
            let results = run_chunk(inputs, part, (head, column), &mut tile);
            for (i, result) in (part.begin..part.end).zip(&results[part.begin..]) {
                let at = (first + i - span.first) * v_dim + column;
                out[at..at + count].copy_from_slice(&result[..count]);
            }
        }
        for (tile, row) in tile.iter().zip(matrix.chunks_exact_mut(v_dim)) {
            row[column..][..count].copy_from_slice(&tile[..count]);
        }
    }
}

/// Computes the results of the tokens of a chunk, and replaces the columns by those after it.
#[inline(always)]
fn run_chunk(
    inputs: &Inputs<'_>,
    part: Part,
    (head, column): (usize, usize),
    tile: &mut [Row],
) -> [Row; C] {
    let sizes = &inputs.sizes;
    let (mut added, mut results) = ([[0f32; COLUMNS]; C], [[0f32; COLUMNS]; C]);
    // From the chunk's beginning up to each token.
    let mut decay = 1.0;
    for i in part.begin..part.end {
        let t = part.first + i;
        let [q, k, v] = sizes.token(inputs.qkv, t, head);
        let ([own, share, k_scale, q_scale], ..) = inputs.scores(t, head);
        decay *= own;
        let v = &v[column..];
        match inputs.d {
            Some(d) => {
                let [read] = read([q], tile);
                for (c, v) in v.iter().take(COLUMNS).enumerate() {
                    added[i][c] = share * v;
                    results[i][c] = decay * q_scale * read[c] + d[head] * v;
                }
            }
            None => {
                let [read, answer] = read([q, k], tile);
                for (c, v) in v.iter().take(COLUMNS).enumerate() {
                    added[i][c] = share * (v - decay * k_scale * answer[c]);
                    results[i][c] = decay * q_scale * read[c];
                }
            }
        }
    }
    if inputs.d.is_none() {
        let alone = added;
        for i in part.begin..part.end {
            let (_, _, inverse) = inputs.scores(part.first + i, head);
            added[i] = weighted(
                [0.0; COLUMNS],
                &inverse[part.begin..=i],
                &alone[part.begin..],
            );
        }
    }
    // From each token up to the chunk's end.
    let mut after = 1.0;
    let mut left = added;
    for i in (part.begin..part.end).rev() {
        let (factors, scores, _) = inputs.scores(part.first + i, head);
        results[i] = weighted(results[i], &scores[part.begin..=i], &added[part.begin..]);
        left[i].iter_mut().for_each(|x| *x *= after);
        after *= factors[0];
    }
    let mut keys: [&[f32]; C] = [&[]; C];
    for (i, key) in keys.iter_mut().enumerate().take(part.end).skip(part.begin) {
        [_, *key, _] = sizes.token(inputs.qkv, part.first + i, head);
    }
    let (keys, left) = (&keys[part.begin..part.end], &left[part.begin..]);
    for (k, row) in tile.iter_mut().enumerate() {
        let mut sum = row.map(|x| x * decay);
        for (key, left) in keys.iter().zip(left) {
            add_row(key[k], left, &mut sum);
        }
        *row = sum;
    }
    results
}

/// Multiplies vectors by the columns of a tile.
#[inline(always)]
fn read<const N: usize>(vectors: [&[f32]; N], tile: &[Row]) -> [Row; N] {
    let mut sums = [[0f32; COLUMNS]; N];
    for (k, row) in tile.iter().enumerate() {
        for (sum, vector) in sums.iter_mut().zip(vectors) {
            add_row(vector[k], row, sum);
        }
    }
    sums
}

/// Adds the sum of rows with weights.
#[inline(always)]
fn weighted(mut sum: Row, weights: &[f32], rows: &[Row]) -> Row {
    for (weight, row) in weights.iter().zip(rows) {
        add_row(*weight, row, &mut sum);
    }
    sum
}

#[inline(always)]
fn add_row(factor: f32, from: &Row, to: &mut Row) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}
