//! `sample`: draws one token for each row of logits; `sample.wgsl` tells the algorithm.

use rayon::prelude::*;
use wisp_shaders::params::{SampleParams, SampleSettings};

use super::argmax::{best, finite};
use super::args::{Args, size};
use super::error::HostError;

/// The twin of `sample.wgsl`.
pub(super) fn sample(args: &Args) -> Result<(), HostError> {
    let p: SampleParams = args.params()?;
    let (rows, vocab, batch) = (p.rows as usize, p.vocab as usize, p.batch as usize);
    if vocab == 0 {
        return Err(args.value("vocab", "at least 1", p.vocab));
    }
    let words = vocab.div_ceil(32);
    let logits: &[f32] = args.read(1, size(&[p.rows, p.vocab]))?;
    let settings: &mut [SampleSettings] = args.write(2, rows)?;
    let seen: &mut [u32] = args.write(3, words.saturating_mul(batch))?;
    let tokens: &mut [u32] = args.write(4, rows)?;
    let index: &mut [[u32; 2]] = args.write(5, rows)?;
    let out: &mut [u32] = args.write_all(6)?;
    for s in settings.iter() {
        if s.sequence >= p.batch {
            return Err(args.value("a sequence", format!("less than {batch}"), s.sequence));
        }
        if s.step as usize >= out.len() / batch {
            return Err(args.value("a step", format!("less than {}", out.len() / batch), s.step));
        }
    }
    let drawn = tokens
        .par_iter_mut()
        .zip(logits.par_chunks(vocab))
        .zip(&*settings);
    drawn.for_each(|((token, logits), s)| {
        *token = draw(logits, &seen[s.sequence as usize * words..][..words], s);
    });
    for (((token, index), s), logits) in tokens
        .iter()
        .zip(index)
        .zip(settings)
        .zip(logits.chunks(vocab))
    {
        let sequence = s.sequence as usize;
        // Only where no logit is finite, or one is infinite, is the drawn one not: that is reported.
        let finite = logits[*token as usize].is_finite();
        *index = [s.sequence, s.position];
        out[s.step as usize * batch + sequence] = if finite { *token } else { u32::MAX };
        seen[sequence * words + *token as usize / 32] |= 1 << (token % 32);
        s.step += 1;
        s.position = s.position.wrapping_add(1);
    }
    Ok(())
}

/// One row's token.
fn draw(logits: &[f32], seen: &[u32], s: &SampleSettings) -> u32 {
    let penalised = logits.iter().enumerate().map(|(i, &logit)| {
        let was_seen = seen[i / 32] >> (i % 32) & 1 != 0;
        finite(match logit > 0.0 {
            _ if !was_seen => logit,
            true => logit / s.repetition_penalty,
            false => logit * s.repetition_penalty,
        })
    });
    // NaN is no temperature either.
    if !matches!(
        s.temperature.partial_cmp(&0.0),
        Some(std::cmp::Ordering::Greater)
    ) {
        return best(penalised);
    }
    let z: Vec<f32> = penalised.map(|z| finite(z / s.temperature)).collect();
    let greatest = z.iter().fold(f32::MIN, |a, b| a.max(*b));
    let weight = |z: f32| (z - greatest).max(-1000.0).exp();
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
        if z >= least && (weight(z) >= s.min_p || z == greatest) {
            z + gumbel(s.seed, s.position, i as u32)
        } else {
            f32::NEG_INFINITY
        }
    });
    best_kept(kept)
}

/// The index of the greatest number that is not minus infinity, the lowest of equals.
fn best_kept(x: impl Iterator<Item = f32>) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, x) in x.enumerate() {
        if x > best.1 {
            best = (i as u32, x);
        }
    }
    best.0
}

/// The greatest of the numbers from `least` on such that the weights of those at or above it are
/// at least `top_p` of all.
fn top_p(z: &[f32], least: f32, top_p: f32, weight: impl Fn(f32) -> f32) -> f32 {
    let mut kept: Vec<f32> = z.iter().copied().filter(|z| *z >= least).collect();
    kept.sort_unstable_by(|a, b| b.total_cmp(a));
    // In f64: of many small weights a sum in f32 would lose some.
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

/// pcg4d (Jarzynski and Olano 2020), its first word.
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

/// A draw of the standard Gumbel distribution: `-ln(-ln(1 - v))` with `v` uniform in (0, 1).
fn gumbel(seed: u32, position: u32, token: u32) -> f32 {
    let h = hash([seed, position, token, 0]);
    let v = (f64::from(h >> 8) + 0.5) / 16777216.0;
    // ln_1p, because the large draws come from a `v` near 0.
    -(-(-v).ln_1p()).ln() as f32
}
