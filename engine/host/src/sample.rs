//! `sample`: samples one token from each row of logits. `sample.wgsl` documents the algorithm.

use std::borrow::Cow;

use rayon::prelude::*;
use wisp_shaders::params::{IN_PROMPT, LogitBias, NOT_FORCED, SampleParams, SampleSettings};

use super::argmax::{best, finite};
use super::args::{Args, size};
use super::error::HostError;

/// The twin of `sample.wgsl`. Unlike the kernel, it needs no scratch space in `biases` and leaves the
/// logits unchanged.
pub(super) fn sample(args: &Args) -> Result<(), HostError> {
    let p: SampleParams = args.params()?;
    let (rows, vocab) = (p.rows as usize, p.vocab as usize);
    if vocab == 0 {
        return Err(args.value("vocab", "at least 1", p.vocab));
    }
    let logits: &[f32] = args.read(1, size(&[p.rows, p.vocab]))?;
    let settings: &mut [SampleSettings] = args.write(2, rows)?;
    let counts: &mut [u32] = args.write_all(3)?;
    let tokens: &mut [u32] = args.write(4, rows)?;
    let index: &mut [[u32; 2]] = args.write(5, rows)?;
    let out: &mut [u32] = args.write_all(6)?;
    let biases: &[LogitBias] = args.read_all(7)?;
    let scores: &mut [u32] = args.write_all(8)?;
    let steps = out
        .len()
        .min(scores.len() / (p.logprob_words as usize).max(1))
        / rows.max(1);
    let (batch, words) = (counts.len() / vocab, p.logprob_words as usize);
    for s in settings.iter() {
        if s.sequence as usize >= batch {
            return Err(args.value("a sequence", format!("less than {batch}"), s.sequence));
        }
        if s.step as usize >= steps {
            return Err(args.value("a step", format!("less than {steps}"), s.step));
        }
        let end = (s.sequence as usize + 1).saturating_mul(p.max_biases as usize);
        args.read::<LogitBias>(7, end)?;
        if s.biases > p.max_biases {
            return Err(args.value("biases", format!("at most {}", p.max_biases), s.biases));
        }
        if s.logprobs != 0 && words == 0 {
            return Err(args.value("logprob_words", "at least 1", p.logprob_words));
        }
    }
    let draws = tokens
        .par_iter_mut()
        .zip(logits.par_chunks(vocab))
        .zip(&*settings);
    draws.for_each(|((token, logits), s)| {
        let first = s.sequence as usize * p.max_biases as usize;
        *token = match s.forced_token {
            NOT_FORCED => draw(
                logits,
                &counts[s.sequence as usize * vocab..][..vocab],
                &biases[first..first + s.biases as usize],
                s,
            ),
            token => token.min(p.vocab - 1),
        };
    });
    for (row, (s, logits)) in settings.iter_mut().zip(logits.chunks(vocab)).enumerate() {
        let token = tokens[row];
        let at = s.step as usize * rows + row;
        // The sampled logit is not finite only if no logit is finite or one is infinite; this is
        // reported.
        let is_finite = logits[token as usize].is_finite();
        index[row] = [s.sequence, s.position];
        out[at] = if is_finite { token } else { u32::MAX };
        if s.forced_token == NOT_FORCED && penalises(s) {
            let count = &mut counts[s.sequence as usize * vocab + token as usize];
            *count = count.wrapping_add(1);
        }
        if s.logprobs != 0 {
            score(
                logits,
                token,
                s.logprobs - 1,
                &mut scores[at * words..][..words],
            );
        }
        s.step += 1;
        s.position = s.position.wrapping_add(1);
    }
    Ok(())
}

fn penalises(s: &SampleSettings) -> bool {
    s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0
}

/// Writes the token's log-probability, and the `top` most likely tokens with theirs.
fn score(logits: &[f32], token: u32, top: u32, out: &mut [u32]) {
    let max = logits.iter().fold(f32::MIN, |a, b| a.max(finite(*b)));
    let weight = |l: &f32| f64::from((finite(*l) - max).max(-1000.0)).exp();
    let log_total = logits.iter().map(weight).sum::<f64>().ln() as f32;
    let log_probability = |l: f32| (finite(l) - max - log_total).to_bits();
    out[0] = log_probability(logits[token as usize]);
    // Both zeros compare equal, as in the kernel; the sort is stable, so the lowest index comes first.
    let top = (top as usize).min((out.len() - 1) / 2);
    let mut order: Vec<usize> = (0..if top == 0 { 0 } else { logits.len() }).collect();
    let key = |i: &usize| finite(logits[*i]) + 0.0;
    order.sort_by(|a, b| key(b).total_cmp(&key(a)));
    for (n, pair) in out[1..].chunks_exact_mut(2).take(top).enumerate() {
        let id = order.get(n).copied();
        pair[0] = id.map_or(u32::MAX, |id| id as u32);
        pair[1] = log_probability(logits[id.unwrap_or(logits.len() - 1)]);
    }
}

/// Samples the token of one row.
fn draw(logits: &[f32], counts: &[u32], biases: &[LogitBias], s: &SampleSettings) -> u32 {
    let mut biased = Cow::Borrowed(logits);
    for bias in biases {
        biased.to_mut()[(bias.token as usize).min(logits.len() - 1)] += bias.value;
    }
    let penalised = biased.iter().enumerate().map(|(i, &logit)| {
        if !penalises(s) {
            return finite(logit);
        }
        let mut l = match logit > 0.0 {
            _ if counts[i] == 0 => logit,
            true => logit / s.repetition_penalty,
            false => logit * s.repetition_penalty,
        };
        let drawn = counts[i] & !IN_PROMPT;
        if drawn != 0 {
            l = l - s.presence_penalty - drawn as f32 * s.frequency_penalty;
        }
        finite(l)
    });
    // A temperature that is NaN selects greedy sampling, too.
    if !matches!(
        s.temperature.partial_cmp(&0.0),
        Some(std::cmp::Ordering::Greater)
    ) {
        return best(penalised);
    }
    let z: Vec<f32> = penalised.map(|z| finite(z / s.temperature)).collect();
    let max = z.iter().fold(f32::MIN, |a, b| a.max(*b));
    let weight = |z: f32| (z - max).max(-1000.0).exp();
    let mut least = f32::MIN;
    let k = s.top_k as usize;
    if k != 0 && k < z.len() {
        let mut sorted = z.clone();
        least = *sorted
            .select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a))
            .1;
    }
    if s.top_p < 1.0 {
        least = top_p(&z, least, s.top_p, weight);
    }
    let kept = z.iter().enumerate().map(|(i, &z)| {
        if z >= least && (weight(z) >= s.min_p || z == max) {
            z + gumbel(s.seed, s.position, i as u32)
        } else {
            f32::NEG_INFINITY
        }
    });
    best_kept(kept)
}

/// Returns the index of the largest number, and the lowest index among equals. Minus infinity never
/// wins.
fn best_kept(x: impl Iterator<Item = f32>) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, x) in x.enumerate() {
        if x > best.1 {
            best = (i as u32, x);
        }
    }
    best.0
}

/// Returns the largest of the numbers of at least `least` such that the numbers at or above it hold at
/// least `top_p` of the total weight.
fn top_p(z: &[f32], least: f32, top_p: f32, weight: impl Fn(f32) -> f32) -> f32 {
    let mut kept: Vec<f32> = z.iter().copied().filter(|z| *z >= least).collect();
    kept.sort_unstable_by(|a, b| b.total_cmp(a));
    // In f64, because an f32 sum would lose many small weights.
    let mass = |kept: &[f32]| kept.iter().map(|z| f64::from(weight(*z))).sum::<f64>();
    let goal = f64::from(top_p.max(0.0)) * mass(&kept);
    let mut held = 0.0;
    for z in &kept {
        held += f64::from(weight(*z));
        if held >= goal {
            return *z;
        }
    }
    least
}

/// The first word of pcg4d (Jarzynski and Olano 2020).
fn hash([x, y, z, w]: [u32; 4]) -> u32 {
    let [mut x, mut y, mut z, mut w] =
        [x, y, z, w].map(|v| v.wrapping_mul(1664525).wrapping_add(1013904223));
    x = x.wrapping_add(y.wrapping_mul(w));
    y = y.wrapping_add(z.wrapping_mul(x));
    z = z.wrapping_add(x.wrapping_mul(y));
    w = w.wrapping_add(y.wrapping_mul(z));
    [x, y, w] = [x, y, w].map(|v| v ^ v >> 16);
    x.wrapping_add(y.wrapping_mul(w))
}

/// Draws from the standard Gumbel distribution: `-ln(-ln(1 - v))` with `v` uniform in (0, 1).
fn gumbel(seed: u32, position: u32, token: u32) -> f32 {
    let h = hash([seed, position, token, 0]);
    let v = (f64::from(h >> 8) + 0.5) / 16777216.0;
    // ln_1p, because large draws come from a `v` near 0.
    -(-(-v).ln_1p()).ln() as f32
}
