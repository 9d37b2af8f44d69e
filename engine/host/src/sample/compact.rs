//! `sample_compact`: drops tokens that top-k, top-p and min-p certainly exclude.

use rayon::prelude::*;
use wisp_shaders::params::{SAMPLE_CHUNK, SampleSettings};

use super::{
    gumbel, has_top_k, has_top_p, is_random, params,
    scratch::{Chunk, row_max, row_weight, row_words, split_mut},
    values::add_noise,
    weight,
};
use crate::{argmax::finite, args::Args, error::HostError};

/// The twin of `sample_compact.wgsl`.
pub(crate) fn sample_compact(args: &Args) -> Result<(), HostError> {
    let p = params(args)?;
    let (rows, vocab) = (p.rows as usize, p.vocab as usize);
    let settings: &[SampleSettings] = args.read(1, rows)?;
    let scratch: &mut [u32] = args.write(2, rows.saturating_mul(row_words(vocab)))?;
    for (words, s) in scratch.chunks_mut(row_words(vocab)).zip(settings) {
        if !is_random(s) {
            continue;
        }
        let (chunks, values, ids) = split_mut(words, vocab);
        let max = row_max(chunks);
        let kept = (has_top_k(s, vocab) || has_top_p(s)).then(|| lowest(s, chunks, vocab));
        let values = values.par_chunks_mut(SAMPLE_CHUNK as usize);
        let ids = ids.par_chunks_mut(SAMPLE_CHUNK as usize);
        let chunks = chunks.par_iter_mut().zip(values).zip(ids);
        chunks.enumerate().for_each(|(i, ((chunk, values), ids))| {
            let first = (i * SAMPLE_CHUNK as usize) as u32;
            match kept {
                Some(lowest) => compact(chunk, first, lowest, values, ids),
                None => draw(chunk, first, s, max, values),
            }
        });
    }
    Ok(())
}

/// The value below which those of a row are dropped.
fn lowest(s: &SampleSettings, chunks: &[Chunk], vocab: usize) -> f32 {
    let max = row_max(chunks);
    let mut lowest = f32::MIN;
    if has_top_k(s, vocab) {
        let mut largest: Vec<f32> = chunks.iter().map(|chunk| chunk.max).collect();
        largest.sort_unstable_by(|a, b| b.total_cmp(a));
        lowest = largest.get(s.top_k as usize - 1).copied().unwrap_or(lowest);
    } else if has_top_p(s) {
        let mean = row_weight(chunks, max) as f32 / vocab as f32;
        lowest = finite(max + (0.5 * (1.0 - s.top_p.max(0.0)) * mean).ln());
    }
    if s.min_p > 0.0 && !(has_top_k(s, vocab) && has_top_p(s)) {
        lowest = lowest.max(max + s.min_p.min(1.0).ln() - 0.01);
    }
    lowest.min(max)
}

/// Moves the values of at least `lowest`, and their ids, to the beginning of a chunk.
fn compact(chunk: &mut Chunk, first: u32, lowest: f32, values: &mut [u32], ids: &mut [u32]) {
    let mut to = 0;
    for at in 0..values.len() {
        if f32::from_bits(values[at]) >= lowest {
            values[to] = values[at];
            ids[to] = first + at as u32;
            to += 1;
        }
    }
    chunk.count = to as u32;
}

/// Finds the largest value plus noise of a chunk. Few tokens have a noise that may give them the largest one.
fn draw(chunk: &mut Chunk, first: u32, s: &SampleSettings, max: f32, values: &[u32]) {
    // How far values are below the largest one: between the two, rounding decides whether min-p keeps a value.
    let [kept, dropped] = match s.min_p <= 0.0 {
        true => [f32::NEG_INFINITY; 2],
        false => [0.01, -0.01].map(|off| s.min_p.min(1.0).ln() + off),
    };
    let mut sums = [0.0; SAMPLE_CHUNK as usize];
    let sums = &mut sums[..values.len()];
    let bound = add_noise(values, first, s, max, kept, sums);
    let (mut token, mut most) = (first, None);
    let values = values.iter().map(|z| f32::from_bits(*z));
    for ((id, z), sum) in (first..).zip(values).zip(sums) {
        if *sum < bound || z - max < dropped || !(weight(z, max) >= s.min_p || z == max) {
            continue;
        }
        let z = finite(z + gumbel(s.seed, s.position, id));
        if most.is_none_or(|most| z > most) {
            (token, most) = (id, Some(z));
        }
    }
    (chunk.drawn, chunk.drawn_token) = (most.map_or(0, ordered_key), token);
}

/// A key that increases with the number and is never 0, as in `order.wgsl`.
fn ordered_key(x: f32) -> u32 {
    let bits = (x + 0.0).to_bits();
    match bits >= 1 << 31 {
        true => !bits,
        false => bits | 1 << 31,
    }
}
