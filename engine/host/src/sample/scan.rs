//! `sample_scan`: the value of each token, and a summary of each chunk of tokens.

use rayon::prelude::*;
use wisp_shaders::params::{IN_PROMPT, LogitBias, NOT_FORCED, SAMPLE_CHUNK, SampleSettings};

use super::{
    check_sequence, is_random, params, penalises,
    scratch::{Chunk, row_words, split_mut},
    values::{scale, total_weight},
};
use crate::{
    argmax::best,
    args::{Args, size},
    error::HostError,
};

/// The least value of a token that a mask allows: above that of all that it forbids, the lowest finite float.
const LEAST_ALLOWED: f32 = f32::MIN / 2.0;

/// The twin of `sample_scan.wgsl`.
pub(crate) fn sample_scan(args: &Args) -> Result<(), HostError> {
    let p = params(args)?;
    let (rows, vocab) = (p.rows as usize, p.vocab as usize);
    let logits: &[f32] = args.read(1, size(&[p.rows, p.vocab]))?;
    let settings: &[SampleSettings] = args.read(2, rows)?;
    let counts: &[u32] = args.read_all(3)?;
    let biases: &[LogitBias] = args.read_all(4)?;
    let masks: &[u32] = args.read_all(5)?;
    let scratch: &mut [u32] = args.write(6, rows.saturating_mul(row_words(vocab)))?;
    let batch = counts.len() / vocab;
    let mask_words = vocab.div_ceil(32);
    for s in settings {
        check_sequence(args, s, batch)?;
        let end = (s.sequence as usize + 1).saturating_mul(p.max_biases as usize);
        args.read::<LogitBias>(4, end)?;
        args.read::<u32>(5, (s.sequence as usize + 1).saturating_mul(mask_words))?;
        if s.biases > p.max_biases {
            return Err(args.value("biases", format!("at most {}", p.max_biases), s.biases));
        }
    }
    let all = scratch.chunks_mut(row_words(vocab)).zip(settings);
    for ((words, s), logits) in all.zip(logits.chunks(vocab)) {
        let first_bias = s.sequence as usize * p.max_biases as usize;
        let scan = Scan {
            s,
            counts: &counts[s.sequence as usize * vocab..][..vocab],
            biases: &biases[first_bias..first_bias + s.biases as usize],
            mask: &masks[s.sequence as usize * mask_words..][..mask_words],
        };
        let (chunks, values, _) = split_mut(words, vocab);
        let logits = logits.par_chunks(SAMPLE_CHUNK as usize);
        let values = values.par_chunks_mut(SAMPLE_CHUNK as usize);
        let chunks = chunks.par_iter_mut().zip(logits).zip(values).enumerate();
        chunks.for_each(|(i, ((chunk, logits), values))| scan.chunk(i, logits, chunk, values));
    }
    Ok(())
}

/// What the values of a row's tokens depend on.
struct Scan<'a> {
    s: &'a SampleSettings,
    /// How often the sequence has each token, `[vocab]`.
    counts: &'a [u32],
    biases: &'a [LogitBias],
    /// Which tokens are allowed, if the settings say that a mask applies: bit i % 32 of word i / 32.
    mask: &'a [u32],
}

impl Scan<'_> {
    /// Computes the values of chunk `at` and its summary.
    fn chunk(&self, at: usize, logits: &[f32], chunk: &mut Chunk, values: &mut [u32]) {
        if self.s.logprobs != 0 {
            (_, chunk.logit_max) = best(logits);
            chunk.logit_weight = total_weight(logits, chunk.logit_max) as f32;
        }
        if self.s.forced_token != NOT_FORCED {
            return;
        }
        let first = at * SAMPLE_CHUNK as usize;
        let mut z = logits.to_vec();
        for bias in self.biases {
            let token = (bias.token as usize).min(self.counts.len() - 1);
            if let Some(z) = token.checked_sub(first).and_then(|at| z.get_mut(at)) {
                *z += bias.value;
            }
        }
        if penalises(self.s) {
            for (z, count) in z.iter_mut().zip(&self.counts[first..]) {
                *z = self.penalised(*z, *count);
            }
        }
        scale(&mut z, self.s.temperature);
        if self.s.masked != 0 {
            for (z, token) in z.iter_mut().zip(first..) {
                *z = match self.mask[token / 32] >> (token % 32) & 1 {
                    0 => f32::MIN,
                    _ => z.max(LEAST_ALLOWED),
                };
            }
        }
        let (token, max) = best(&z);
        (chunk.max, chunk.max_token, chunk.count) = (max, (first + token) as u32, 0);
        if is_random(self.s) {
            chunk.weight = total_weight(&z, max) as f32;
            values.copy_from_slice(bytemuck::cast_slice(&z));
        }
    }

    /// The logit of a token with penalties, whose logit, with its bias, is `logit`.
    fn penalised(&self, logit: f32, count: u32) -> f32 {
        let s = self.s;
        let l = match logit > 0.0 {
            _ if count == 0 => logit,
            true => logit / s.repetition_penalty,
            false => logit * s.repetition_penalty,
        };
        match count & !IN_PROMPT {
            0 => l,
            sampled => l - s.presence_penalty - sampled as f32 * s.frequency_penalty,
        }
    }
}
