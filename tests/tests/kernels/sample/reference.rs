//! The algorithm of the calls that sample, as `sample.wgsl` states it, over all tokens of a row at once.

use std::borrow::Cow;

use wisp_shaders::params::{IN_PROMPT, LogitBias, SampleSettings};

/// The least value of a token that a mask allows.
const LEAST_ALLOWED: f32 = f32::MIN / 2.0;

fn penalises(s: &SampleSettings) -> bool {
    s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0
}

/// Samples the token of one row.
pub(super) fn draw(
    logits: &[f32],
    counts: &[u32],
    biases: &[LogitBias],
    mask: &[u32],
    s: &SampleSettings,
) -> u32 {
    let masked = |i: usize, z: f32| match mask[i / 32] >> (i % 32) & 1 {
        _ if s.masked == 0 => z,
        0 => f32::MIN,
        _ => z.max(LEAST_ALLOWED),
    };
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
        return best_kept(penalised.enumerate().map(|(i, z)| masked(i, z)));
    }
    let tempered = penalised.map(|z| finite(z / s.temperature)).enumerate();
    let z: Vec<f32> = tempered.map(|(i, z)| masked(i, z)).collect();
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

/// Replaces NaN and minus infinity by the smallest finite number, and infinity by the largest.
fn finite(x: f32) -> f32 {
    match x {
        x if x.is_nan() => f32::MIN,
        x => x.clamp(f32::MIN, f32::MAX),
    }
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
