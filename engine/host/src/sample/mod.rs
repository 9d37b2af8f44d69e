//! `sample_scan`, `sample_compact` and `sample`: three calls that sample one token from each row of logits.
//! `sample.wgsl` documents the algorithm.

mod compact;
mod scan;
mod scratch;
mod select;
mod values;

pub(super) use compact::sample_compact;
pub(super) use scan::sample_scan;
pub(super) use select::sample;

use wisp_shaders::params::{
    NOT_FORCED, SAMPLE_CHUNK, SAMPLE_MAX_CHUNKS, SampleParams, SampleSettings,
};

use super::args::Args;
use super::error::HostError;
use super::math::exp;

/// Reads the parameters, and checks the size of the vocabulary.
fn params(args: &Args) -> Result<SampleParams, HostError> {
    let p: SampleParams = args.params()?;
    let most = SAMPLE_CHUNK * SAMPLE_MAX_CHUNKS;
    match (1..=most).contains(&p.vocab) {
        true => Ok(p),
        false => Err(args.value("vocab", format!("from 1 to {most}"), p.vocab)),
    }
}

fn check_sequence(args: &Args, s: &SampleSettings, batch: usize) -> Result<(), HostError> {
    match (s.sequence as usize) < batch {
        true => Ok(()),
        false => Err(args.value("a sequence", format!("less than {batch}"), s.sequence)),
    }
}

fn penalises(s: &SampleSettings) -> bool {
    s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0
}

/// A temperature that is NaN selects greedy sampling, too.
fn is_random(s: &SampleSettings) -> bool {
    s.forced_token == NOT_FORCED && s.temperature > 0.0
}

fn has_top_k(s: &SampleSettings, vocab: usize) -> bool {
    s.top_k != 0 && (s.top_k as usize) < vocab
}

fn has_top_p(s: &SampleSettings) -> bool {
    s.top_p < 1.0
}

/// The weight of a value relative to the largest one.
fn weight(z: f32, max: f32) -> f32 {
    exp(z - max)
}

/// The first word of pcg4d (Jarzynski and Olano 2020).
#[inline(always)]
fn hash([x, y, z, w]: [u32; 4]) -> u32 {
    let mut v = [x, y, z, w];
    for v in &mut v {
        *v = v.wrapping_mul(1664525).wrapping_add(1013904223);
    }
    let [mut x, mut y, mut z, mut w] = v;
    x = x.wrapping_add(y.wrapping_mul(w));
    y = y.wrapping_add(z.wrapping_mul(x));
    z = z.wrapping_add(x.wrapping_mul(y));
    w = w.wrapping_add(y.wrapping_mul(z));
    (x, y, w) = (x ^ x >> 16, y ^ y >> 16, w ^ w >> 16);
    x.wrapping_add(y.wrapping_mul(w))
}

/// Draws from the standard Gumbel distribution: `-ln(-ln(1 - v))` with `v` uniform in (0, 1).
fn gumbel(seed: u32, position: u32, token: u32) -> f32 {
    let h = hash([seed, position, token, 0]);
    let v = (f64::from(h >> 8) + 0.5) / 16777216.0;
    // ln_1p, because large draws come from a `v` near 0.
    -(-(-v).ln_1p()).ln() as f32
}
