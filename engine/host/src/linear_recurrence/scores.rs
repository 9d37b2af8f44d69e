//! `gated_delta_rule_scores` and `mamba2_scan_scores`: what the tokens of a chunk add to each other's results.

use rayon::prelude::*;
use wisp_weights::blocks::simd;

use super::{C, Gates, Sizes, add, inverse_length};
use crate::{args::Args, error::HostError};

/// Numbers of the tokens of a chunk with each other: of token `i` with token `j`.
type Matrix = [[f32; C]; C];

/// The products of the queries and of the keys of a chunk with its keys.
struct Products {
    queries: Matrix,
    keys: Matrix,
}

/// The twin of `linear_recurrence_scores.wgsl`.
pub(crate) fn linear_recurrence_scores(args: &Args) -> Result<(), HostError> {
    let sizes = Sizes::new(args)?;
    let qkv: &[f32] = args.read(1, sizes.input())?;
    let gates = Gates::take(args, sizes)?;
    let scores: &mut [f32] = args.write(5, sizes.scores())?;
    if sizes.tokens == 0 {
        return Ok(());
    }
    let chunks = sizes.tokens.div_ceil(C);
    let group = (sizes.p.v_heads / sizes.p.k_heads) as usize;
    let products = (0..sizes.p.k_heads as usize * chunks).into_par_iter();
    let products: Vec<Products> = products
        .map(|i| multiply(&sizes, qkv, i % chunks * C, i / chunks * group))
        .collect();
    let row = sizes.score_row();
    let heads = scores.par_chunks_exact_mut(sizes.tokens * row).enumerate();
    heads.for_each(|(head, scores)| {
        let products = &products[sizes.k_head(head) * chunks..][..chunks];
        for ((chunk, products), rows) in products.iter().enumerate().zip(scores.chunks_mut(C * row))
        {
            score(&gates, qkv, (chunk * C, head), products, rows);
        }
    });
    Ok(())
}

simd! {
    /// Multiplies the queries and keys of the tokens from `first` on by their keys.
    fn multiply(sizes: &Sizes, qkv: &[f32], first: usize, head: usize) -> Products {
        let count = C.min(sizes.tokens - first);
        let mut transposed = vec![[0f32; C]; sizes.k_dim];
        for j in 0..count {
            let [_, k, _] = sizes.token(qkv, first + j, head);
            for (row, k) in transposed.iter_mut().zip(k) {
                row[j] = *k;
            }
        }
        let mut products = Products {
            queries: [[0.0; C]; C],
            keys: [[0.0; C]; C],
        };
        for i in 0..count {
            let [q, k, _] = sizes.token(qkv, first + i, head);
            let (mut queries, mut keys) = ([0.0; C], [0.0; C]);
            for (row, (q, k)) in transposed.iter().zip(q.iter().zip(k)) {
                add(*q, row, &mut queries);
                if !sizes.is_mamba {
                    add(*k, row, &mut keys);
                }
            }
            products.queries[i] = queries;
            products.keys[i] = keys;
        }
        products
    }
}

/// Writes the rows of the tokens of a chunk of a head, from their products with each other.
fn score(
    gates: &Gates<'_>,
    qkv: &[f32],
    (first, head): (usize, usize),
    products: &Products,
    rows: &mut [f32],
) {
    let Sizes { p, is_mamba, .. } = gates.sizes;
    let mut inverse: Matrix = [[0.0; C]; C];
    // The decay of each earlier token's share up to the current one.
    let mut since = [0f32; C];
    for (i, row) in rows.chunks_exact_mut(gates.sizes.score_row()).enumerate() {
        let [q, k, _] = gates.sizes.token(qkv, first + i, head);
        let [decay, share] = gates.of(first + i, head);
        let (mut k_scale, mut q_scale) = (1.0, p.scale);
        if !is_mamba {
            k_scale = inverse_length(k, p.eps);
            q_scale *= inverse_length(q, p.eps);
        }
        row[..4].copy_from_slice(&[decay, share * k_scale, k_scale, q_scale]);
        since[..i].iter_mut().for_each(|since| *since *= decay);
        since[i] = 1.0;
        for j in 0..C {
            row[4 + j] = match j <= i {
                true => q_scale * since[j] * products.queries[i][j],
                false => 0.0,
            };
        }
        if is_mamba {
            continue;
        }
        let coupling = share * k_scale * k_scale;
        let (earlier, own) = inverse.split_at_mut(i);
        own[0][i] = 1.0;
        for (j, earlier) in earlier.iter().enumerate() {
            let a = coupling * since[j] * products.keys[i][j];
            // Columns up to `j` only, because the others are 0, and `a` may belong to another sequence.
            add(-a, &earlier[..=j], &mut own[0][..=j]);
        }
        row[4 + C..].copy_from_slice(&own[0]);
    }
}
