//! `sample`: selects one of the tokens that remain.

use wisp_shaders::params::{NOT_FORCED, SAMPLE_CHUNK, SampleSettings};

use super::{
    check_sequence, gumbel, has_top_k, has_top_p, is_random, params, penalises,
    scratch::{Chunk, row_max, row_weight, row_words, split},
    values::total_weight,
    weight,
};
use crate::{
    argmax::finite,
    args::{Args, size},
    error::HostError,
};

/// The twin of `sample.wgsl`.
pub(crate) fn sample(args: &Args) -> Result<(), HostError> {
    let p = params(args)?;
    let (rows, vocab, words) = (p.rows as usize, p.vocab as usize, p.logprob_words as usize);
    let logits: &[f32] = args.read(1, size(&[p.rows, p.vocab]))?;
    let scratch: &[u32] = args.read(2, rows.saturating_mul(row_words(vocab)))?;
    let settings: &mut [SampleSettings] = args.write(3, rows)?;
    let counts: &mut [u32] = args.write_all(4)?;
    let tokens: &mut [u32] = args.write(5, rows)?;
    let index: &mut [[u32; 2]] = args.write(6, rows)?;
    let out: &mut [u32] = args.write_all(7)?;
    let scores: &mut [u32] = args.write_all(8)?;
    let steps = out.len().min(scores.len() / words.max(1)) / rows.max(1);
    let batch = counts.len() / vocab;
    for s in settings.iter() {
        check_sequence(args, s, batch)?;
        if s.step as usize >= steps {
            return Err(args.value("a step", format!("less than {steps}"), s.step));
        }
        if s.logprobs != 0 && words == 0 {
            return Err(args.value("logprob_words", "at least 1", p.logprob_words));
        }
    }
    let values = scratch.chunks(row_words(vocab));
    let rows_of = settings.iter_mut().zip(logits.chunks(vocab)).zip(values);
    for (row, ((s, logits), values)) in rows_of.enumerate() {
        let token = match s.forced_token {
            NOT_FORCED => select(s, values, vocab).min(p.vocab - 1),
            token => token.min(p.vocab - 1),
        };
        let at = s.step as usize * rows + row;
        // The sampled logit is not finite only if no logit is finite or one is infinite; this is
        // reported. The chunk of the sampled token has no allowed one only if the row has none.
        let (chunks, _, _) = split(values, vocab);
        let is_forbidden = s.forced_token == NOT_FORCED
            && s.masked != 0
            && chunks[(token / SAMPLE_CHUNK) as usize].max <= f32::MIN;
        let is_finite = logits[token as usize].is_finite() && !is_forbidden;
        tokens[row] = token;
        index[row] = [s.sequence, s.position];
        out[at] = if is_finite { token } else { u32::MAX };
        if s.forced_token == NOT_FORCED && penalises(s) {
            let count = &mut counts[s.sequence as usize * vocab + token as usize];
            *count = count.wrapping_add(1);
        }
        if s.logprobs != 0 {
            let scores = &mut scores[at * words..][..words];
            score(logits, chunks, token, s.logprobs - 1, scores);
        }
        s.step += 1;
        s.position = s.position.wrapping_add(1);
    }
    Ok(())
}

/// Writes the token's log-probability, and the `top` most likely tokens with theirs.
fn score(logits: &[f32], chunks: &[Chunk], token: u32, top: u32, out: &mut [u32]) {
    let max = chunks
        .iter()
        .fold(f32::MIN, |max, chunk| max.max(chunk.logit_max));
    let of_chunk =
        |chunk: &Chunk| f64::from(chunk.logit_weight) * f64::from(weight(chunk.logit_max, max));
    let log_total = chunks.iter().map(of_chunk).sum::<f64>().ln() as f32;
    let log_probability = |l: f32| (finite(l) - max - log_total).to_bits();
    out[0] = log_probability(logits[token as usize]);
    let top = (top as usize).min((out.len() - 1) / 2);
    let likeliest = likeliest(logits, chunks, top);
    for (n, pair) in out[1..].chunks_exact_mut(2).take(top).enumerate() {
        let id = likeliest.get(n).copied();
        pair[0] = id.map_or(u32::MAX, |id| id as u32);
        pair[1] = log_probability(logits[id.unwrap_or(logits.len() - 1)]);
    }
}

/// Returns the `top` tokens with the largest logits, the first ones among equals.
fn likeliest(logits: &[f32], chunks: &[Chunk], top: usize) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::with_capacity(top + 1);
    let Some(last) = top.checked_sub(1) else {
        return found;
    };
    // Both zeros compare equal, as in the kernel.
    let key = |i: usize| finite(logits[i]) + 0.0;
    let width = SAMPLE_CHUNK as usize;
    for (chunk, first) in chunks.iter().zip((0..).step_by(width)) {
        let is_found = |found: &[usize], z: f32| found.get(last).is_none_or(|last| z > key(*last));
        if !is_found(&found, chunk.logit_max) {
            continue;
        }
        for i in first..logits.len().min(first + width) {
            if is_found(&found, key(i)) {
                let at = found.partition_point(|other| key(*other) >= key(i));
                found.insert(at, i);
                found.truncate(top);
            }
        }
    }
    found
}

/// Selects the token of a row that is not forced.
fn select(s: &SampleSettings, words: &[u32], vocab: usize) -> u32 {
    let (chunks, values, ids) = split(words, vocab);
    if !is_random(s) {
        return best_token(chunks.iter().map(|chunk| (chunk.max, chunk.max_token)));
    }
    if !has_top_k(s, vocab) && !has_top_p(s) {
        // Keys are ordered as their numbers are.
        let mut best = (0, 0);
        for chunk in chunks {
            if chunk.drawn > best.0 {
                best = (chunk.drawn, chunk.drawn_token);
            }
        }
        return best.1;
    }
    let width = SAMPLE_CHUNK as usize;
    let rows = chunks
        .iter()
        .zip(values.chunks(width).zip(ids.chunks(width)));
    let remaining = rows.flat_map(|(chunk, (values, ids))| {
        let pairs = ids.iter().zip(values.iter().map(|z| f32::from_bits(*z)));
        pairs.take(chunk.count as usize)
    });
    let remaining: Vec<(&u32, f32)> = remaining.collect();
    let max = row_max(chunks);
    let mut least = f32::MIN;
    if has_top_k(s, vocab) {
        let mut sorted: Vec<f32> = remaining.iter().map(|(_, z)| *z).collect();
        let k = s.top_k as usize;
        if k <= sorted.len() {
            least = *sorted
                .select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a))
                .1;
        }
    }
    if has_top_p(s) {
        let mut kept: Vec<f32> = remaining.iter().map(|(_, z)| *z).collect();
        kept.retain(|z| *z >= least);
        let all = match has_top_k(s, vocab) {
            true => total_weight(&kept, max),
            false => row_weight(chunks, max),
        };
        least = top_p(kept, least, f64::from(s.top_p.max(0.0)) * all, max);
    }
    let kept = remaining
        .into_iter()
        .filter(|(_, z)| *z >= least && (weight(*z, max) >= s.min_p || *z == max));
    best_token(kept.map(|(id, z)| (z + gumbel(s.seed, s.position, *id), *id)))
}

/// Returns the token with the largest number, the first one among equals. Minus infinity never wins.
fn best_token(tokens: impl Iterator<Item = (f32, u32)>) -> u32 {
    let mut best = (f32::NEG_INFINITY, 0);
    for (z, token) in tokens {
        if z > best.0 {
            best = (z, token);
        }
    }
    best.1
}

/// Returns the largest of the numbers such that the numbers at or above it have a weight of at least `goal`;
/// `least` if all of them have less.
fn top_p(mut kept: Vec<f32>, least: f32, goal: f64, max: f32) -> f32 {
    let mut rest = &mut kept[..];
    let mut held = 0.0;
    // The largest ones are often enough, so they are sorted first.
    let mut count = 64;
    while !rest.is_empty() {
        count = rest.len().min(4 * count);
        rest.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
        let (largest, others) = rest.split_at_mut(count);
        largest.sort_unstable_by(|a, b| b.total_cmp(a));
        for z in largest {
            held += f64::from(weight(*z, max));
            if held >= goal {
                return *z;
            }
        }
        rest = others;
    }
    least
}
