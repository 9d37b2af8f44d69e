//! Attention of several consecutive tokens: keys and values are read once for all of them and
//! multiplied as in [`panel`](crate::panel), with an online softmax (FlashAttention, Dao et al. 2022).

use std::ops::Range;

use wisp_weights::blocks::simd;

use super::call::{Attention, cap};
use crate::{
    math::exp_sum,
    panel::{self, Lanes, STRIDE, TOKENS as LANES, add_rows},
    pool::{Pool, lengthen},
};

/// Queries of a block: its tokens times the heads that share a KV head.
pub(super) const ROWS: usize = panel::ROWS;

/// Positions that are processed at a time.
const POSITIONS: usize = 128;

/// The working memory of a KV head of a block. Vectors may be longer, and hold what earlier blocks left.
struct Scratch {
    /// `[ROWS, STRIDE]`: the scaled queries.
    queries: Vec<f32>,
    /// `[ROWS, STRIDE]`: the scores, later the weights, of the current positions.
    scores: Vec<f32>,
    /// Keys of the current positions, as panels `[head_dim, LANES positions]`.
    keys: Vec<Lanes>,
    /// Values of the current positions, as panels `[POSITIONS, LANES elements]`.
    values: Vec<Lanes>,
    /// `[ROWS, value_dim]`: the sums of weighted values.
    sums: Vec<f32>,
    /// Decoded keys and values, `[POSITIONS, head_dim]` each.
    decoded: [Vec<f32>; 2],
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            queries: panel::scratch(),
            scores: panel::scratch(),
            keys: Vec::new(),
            values: Vec::new(),
            sums: Vec::new(),
            decoded: Default::default(),
        }
    }
}

/// The working memory that no block uses.
static SCRATCHES: Pool<Scratch> = Pool::new();

/// Computes attention of one KV head for the tokens of a block; `outs` has the results of its query heads for each token.
pub(super) fn block(
    call: &Attention,
    tokens: Range<usize>,
    kv_head: usize,
    outs: &mut [&mut [f32]],
) {
    let (head_dim, value_dim) = (call.head_dim(), call.value_dim());
    SCRATCHES.lend(|scratch| {
        let Scratch {
            keys, values, sums, ..
        } = scratch;
        lengthen(keys, POSITIONS / LANES * head_dim, Lanes::ZERO);
        lengthen(values, value_dim.div_ceil(LANES) * POSITIONS, Lanes::ZERO);
        lengthen(sums, ROWS * value_dim, 0.0);
        head(call, tokens, kv_head, scratch, outs);
    });
}

simd! {
    /// Computes one KV head. Row `i` of the scratch is query `i % group` of token `i / group`.
    fn head(call: &Attention, tokens: Range<usize>, kv_head: usize, s: &mut Scratch, outs: &mut [&mut [f32]]) {
        let [head_dim, value_dim, group] = [call.head_dim(), call.value_dim(), call.group()];
        let rows = tokens.len() * group;
        let [sequence, position] = call.pages.index[tokens.start].map(|i| i as usize);
        for (i, row) in s.queries.chunks_exact_mut(STRIDE).take(rows).enumerate() {
            let at = (tokens.start + i / group) * call.token() + (kv_head * group + i % group) * head_dim;
            for (row, q) in row.iter_mut().zip(&call.q[at..at + head_dim]) {
                *row = q * call.p.scale;
            }
        }
        s.sums.fill(0.0);
        // The largest score and the sum of weights of each row.
        let mut state = [[f32::MIN, 0.0]; ROWS];
        let first = call.pages.visible_range(sequence, position).start;
        let end = call.pages.visible_range(sequence, position + tokens.len() - 1).end;
        for start in (first..end).step_by(POSITIONS) {
            let count = POSITIONS.min(end - start);
            pack(call, [sequence, start, kv_head], count, s);
            let mut scores: Vec<&mut [f32]> = s.scores.chunks_exact_mut(STRIDE).take(rows).collect();
            scores.iter_mut().for_each(|scores| scores[..count].fill(0.0));
            add_rows(&s.queries, rows, &s.keys, head_dim, count, &mut scores);
            for (i, scores) in scores.into_iter().enumerate() {
                let visible = call.pages.visible_range(sequence, position + i / group);
                let from = visible.start.clamp(start, start + count);
                let visible = from - start..visible.end.clamp(from, start + count) - start;
                scores[..visible.start].fill(0.0);
                scores[visible.end..count].fill(0.0);
                let visible = &mut scores[visible];
                if call.p.softcap != 0.0 {
                    visible.iter_mut().for_each(|score| *score = cap(*score, call.p.softcap));
                }
                let [row_max, total] = &mut state[i];
                let rescale = exp_sum(visible, row_max, total);
                s.sums[i * value_dim..][..value_dim].iter_mut().for_each(|sum| *sum *= rescale);
            }
            let mut sums: Vec<&mut [f32]> = s.sums.chunks_exact_mut(value_dim).take(rows).collect();
            add_rows(&s.scores, rows, &s.values, count, value_dim, &mut sums);
        }
        for (i, sums) in s.sums.chunks_exact(value_dim).take(rows).enumerate() {
            let out = &mut outs[i / group][i % group * value_dim..][..value_dim];
            let total = call.total(kv_head * group + i % group, state[i]);
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = sum / total;
            }
        }
    }
}

/// Packs the keys and values of `count` positions.
#[inline(always)]
fn pack(call: &Attention, at: [usize; 3], count: usize, s: &mut Scratch) {
    let (head_dim, value_dim) = (call.head_dim(), call.value_dim());
    let [all_keys, all_values] = call.keys_and_values(at, count, &mut s.decoded);
    for i in 0..count {
        let keys = &mut s.keys[i / LANES * head_dim..][..head_dim];
        for (lanes, k) in keys.iter_mut().zip(all_keys.get(i)) {
            lanes.0.as_flattened_mut()[i % LANES] = *k;
        }
        for (c, v) in all_values.get(i)[..value_dim].chunks(LANES).enumerate() {
            s.values[c * count + i].0.as_flattened_mut()[..v.len()].copy_from_slice(v);
        }
    }
}
