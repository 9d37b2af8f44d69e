//! Attention of a single token: each position's key and value is read once for all query heads that
//! share it.

use std::ops::Range;

use rayon::prelude::*;
use wisp_weights::blocks::{Simd, simd};

use super::call::{Attention, cap};
use crate::math::{exp_sum, products_in};

/// Computes one token, `[heads, value_dim]`.
pub(super) fn one_token(call: &Attention, t: usize, out: &mut [f32]) {
    let kv_heads = out.par_chunks_exact_mut(call.group() * call.value_dim());
    let kv_heads = kv_heads.enumerate();
    kv_heads.for_each(|(kv_head, out)| kv_head_of_token(call, [t, kv_head], out));
}

/// Computes the query heads of a KV head for one token. They are divided among threads where KV heads are fewer.
pub(super) fn kv_head_of_token(call: &Attention, [t, kv_head]: [usize; 2], out: &mut [f32]) {
    let group = call.group();
    let parts = rayon::current_num_threads().div_ceil(call.p.kv_heads.max(1) as usize);
    let at_once = group.div_ceil(parts.max(1)).max(LEAST_HEADS.min(group));
    let parts = out.par_chunks_mut(at_once * call.value_dim()).enumerate();
    parts.for_each(|(i, out)| heads_of_token(call, [t, kv_head * group + i * at_once], out));
}

/// The fewest query heads of a KV head for which a thread reads its keys and values once more.
const LEAST_HEADS: usize = 4;

simd! {
    /// Computes some query heads of a KV head, a few positions at a time. `at` is the token and the first head.
    fn heads_of_token(call: &Attention, at: [usize; 2], out: &mut [f32]) where S: Simd {
        let [sequence, position] = call.pages.index[at[0]].map(|i| i as usize);
        let visible = call.pages.visible_range(sequence, position);
        let state = sum_in::<S>(call, at, visible, out);
        for ((out, state), head) in out.chunks_exact_mut(call.value_dim()).zip(state).zip(at[1]..) {
            let total = call.total(head, state);
            out.iter_mut().for_each(|out| *out /= total);
        }
    }
}

simd! {
    /// Sums the weighted values of some positions for one token and query heads of one KV head, of which `at` is the
    /// token and the first head. Returns the largest score and the sum of weights of each head.
    pub(super) fn sum_positions(
        call: &Attention,
        at: [usize; 2],
        positions: Range<usize>,
        out: &mut [f32],
    ) -> Vec<[f32; 2]> where S: Simd {
        sum_in::<S>(call, at, positions, out)
    }
}

/// Positions that are read at once.
const POSITIONS: usize = 64;

#[inline(always)]
fn sum_in<S: Simd>(
    call: &Attention,
    [t, first_head]: [usize; 2],
    positions: Range<usize>,
    out: &mut [f32],
) -> Vec<[f32; 2]> {
    let (head_dim, value_dim) = (call.head_dim(), call.value_dim());
    let heads = out.len() / value_dim;
    let kv_head = first_head / call.group();
    let sequence = call.pages.index[t][0] as usize;
    let q = &call.q[t * call.token() + first_head * head_dim..][..heads * head_dim];
    out.fill(0.0);
    // The largest score and the sum of weights of each head.
    let mut state = vec![[f32::MIN, 0.0]; heads];
    let mut scratch = [const { Vec::new() }; 2];
    for start in positions.clone().step_by(POSITIONS) {
        let count = POSITIONS.min(positions.end - start);
        let at = [sequence, start, kv_head];
        let [all_keys, all_values] = call.keys_and_values(at, count, &mut scratch);
        let (mut keys, mut values) = ([&[][..]; POSITIONS], [&[][..]; POSITIONS]);
        for i in 0..count {
            (keys[i], values[i]) = (all_keys.get(i), all_values.get(i));
            S::prefetch(bytemuck::cast_slice(keys[i]));
        }
        let (keys, values) = (&keys[..count], &values[..count]);
        for values in values {
            S::prefetch(bytemuck::cast_slice(values));
        }
        let heads = out
            .chunks_exact_mut(value_dim)
            .zip(q.chunks_exact(head_dim));
        for ((out, q), [row_max, total]) in heads.zip(&mut state) {
            let mut scores = [0.0; POSITIONS];
            score::<S>(q, keys, &mut scores);
            let scores = &mut scores[..count];
            for score in scores.iter_mut() {
                *score = cap(*score * call.p.scale, call.p.softcap);
            }
            let rescale = exp_sum(scores, row_max, total);
            add_values::<S>(scores, values, rescale, out);
        }
    }
    state
}

/// Computes `scores[i] = dot(q, keys[i])`.
#[inline(always)]
fn score<S: Simd>(q: &[f32], keys: &[&[f32]], scores: &mut [f32; POSITIONS]) {
    let (vectors, _) = scores.as_chunks_mut::<16>();
    for (scores, keys) in vectors.iter_mut().zip(keys.chunks(16)) {
        let mut products = [S::splat(0.0); 16];
        for (products, key) in products.iter_mut().zip(keys) {
            *products = products_in::<S>(q, key);
        }
        S::store(S::reduce_add_each(products), scores);
    }
}

/// Computes `out = rescale * out + sum(weights[i] * values[i])`, some vectors of `out` at a time in registers.
#[inline(always)]
fn add_values<S: Simd>(weights: &[f32], values: &[&[f32]], rescale: f32, out: &mut [f32]) {
    let (fours, rest) = out.as_chunks_mut::<64>();
    for (v, out) in fours.iter_mut().enumerate() {
        add_vectors::<S, 4>(weights, values, rescale, 64 * v, out.as_chunks_mut().0);
    }
    let first = 64 * fours.len();
    let (ones, rest) = rest.as_chunks_mut::<16>();
    for (v, out) in ones.iter_mut().enumerate() {
        add_vectors::<S, 1>(
            weights,
            values,
            rescale,
            first + 16 * v,
            std::slice::from_mut(out),
        );
    }
    let first = first + 16 * ones.len();
    for (d, out) in rest.iter_mut().enumerate() {
        *out *= rescale;
        for (weight, values) in weights.iter().zip(values) {
            *out += weight * values[first + d];
        }
    }
}

/// [`add_values`] for `V` vectors from element `first` of the values on.
#[inline(always)]
fn add_vectors<S: Simd, const V: usize>(
    weights: &[f32],
    values: &[&[f32]],
    rescale: f32,
    first: usize,
    out: &mut [[f32; 16]],
) {
    let mut sums = [S::splat(0.0); V];
    for (sum, out) in sums.iter_mut().zip(&*out) {
        *sum = S::mul(S::load(out), S::splat(rescale));
    }
    for (weight, values) in weights.iter().zip(values) {
        let (vectors, _) = values[first..first + 16 * V].as_chunks();
        for (sum, vector) in sums.iter_mut().zip(vectors) {
            *sum = S::mul_add(S::splat(*weight), S::load(vector), *sum);
        }
    }
    for (sum, out) in sums.iter().zip(out) {
        S::store(*sum, out);
    }
}
