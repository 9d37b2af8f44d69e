//! Attention of a single token: each position's key and value is read once for all query heads that
//! share it.

use std::ops::Range;

use wisp_weights::blocks::{Simd, simd, with_simd};

use super::call::{Attention, cap};
use crate::math::{axpy_in, dot_in, exp_sum};

simd! {
    /// Computes one token and the query heads of one KV head, a few positions at a time.
    pub(super) fn one_token(call: &Attention, t: usize, kv_head: usize, out: &mut [f32]) {
        let [sequence, position] = call.pages.index[t].map(|i| i as usize);
        let visible = call.pages.visible_range(sequence, position);
        let state = with_simd!(S => sum_in::<S>(call, [t, kv_head], visible, out));
        for (out, [_, total]) in out.chunks_exact_mut(call.head_dim()).zip(state) {
            out.iter_mut().for_each(|out| *out /= total);
        }
    }
}

simd! {
    /// Sums the weighted values of some positions for one token and the query heads of one KV head,
    /// `at`. Returns the largest score and the sum of weights of each head.
    pub(super) fn sum_positions(
        call: &Attention,
        at: [usize; 2],
        positions: Range<usize>,
        out: &mut [f32],
    ) -> Vec<[f32; 2]> {
        with_simd!(S => sum_in::<S>(call, at, positions, out))
    }
}

#[inline(always)]
fn sum_in<S: Simd>(
    call: &Attention,
    [t, kv_head]: [usize; 2],
    positions: Range<usize>,
    out: &mut [f32],
) -> Vec<[f32; 2]> {
    const POSITIONS: usize = 64;
    let head_dim = call.head_dim();
    let sequence = call.pages.index[t][0] as usize;
    let q = &call.q[t * call.token() + kv_head * out.len()..][..out.len()];
    out.fill(0.0);
    // The largest score and the sum of weights of each head.
    let mut state = vec![[f32::MIN, 0.0]; call.group()];
    let mut scratch = [const { Vec::new() }; 2];
    for start in positions.clone().step_by(POSITIONS) {
        let count = POSITIONS.min(positions.end - start);
        let at = [sequence, start, kv_head];
        let [for_keys, for_values] = &mut scratch;
        let keys = call.rows(call.k_cache, at, count, for_keys);
        let values = call.rows(call.v_cache, at, count, for_values);
        let heads = out.chunks_exact_mut(head_dim).zip(q.chunks_exact(head_dim));
        for ((out, q), [row_max, total]) in heads.zip(&mut state) {
            let mut scores = [0.0; POSITIONS];
            let scores = &mut scores[..count];
            for (i, score) in scores.iter_mut().enumerate() {
                *score = cap(dot_in::<S>(q, keys.get(i)) * call.p.scale, call.p.softcap);
            }
            let rescale = exp_sum(scores, row_max, total);
            out.iter_mut().for_each(|out| *out *= rescale);
            for (i, weight) in scores.iter().enumerate() {
                axpy_in::<S>(*weight, values.get(i), out);
            }
        }
    }
    state
}
