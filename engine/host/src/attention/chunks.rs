//! Attention with what a token sees split into chunks, and the merge of their results.

use rayon::prelude::*;
use wisp_shaders::params::{AttentionParams, CHUNK_STEP, MAX_PARTS};

use super::{
    call::with_sink,
    checked, sinks,
    token::{one_token, sum_positions},
};
use crate::{
    args::{Args, size},
    error::HostError,
};

/// Elements of parts that a task of `attention_combine` reads at least.
const COMBINED: usize = 16384;

/// How what a token sees is divided, as in `attention_chunks.wgsl`.
struct Chunks {
    /// The positions of a chunk.
    positions: u32,
    /// The number of chunks of each token.
    count: u32,
}

impl Chunks {
    fn of(p: &AttentionParams) -> Chunks {
        let pages = p.max_pages.min((i32::MAX as u32) / p.page_size.max(1));
        let capacity = pages * p.page_size;
        let reach = match p.window {
            0 => capacity,
            window => window.min(capacity),
        };
        let most = (MAX_PARTS / p.tokens.max(1)).max(1);
        let chunks = (reach / CHUNK_STEP).clamp(1, most);
        let positions = reach.div_ceil(chunks).next_multiple_of(CHUNK_STEP);
        let count = reach.div_ceil(positions.max(1)).max(1);
        Chunks { positions, count }
    }

    /// Returns the number of words of all parts. A part is a sum of values, padded to vectors of 4, and a
    /// vector with the largest score and the sum of weights.
    fn part_words(p: &AttentionParams) -> usize {
        p.value_dim.next_multiple_of(4) as usize + 4
    }

    /// Returns the number of words of the parts of all tokens; 0 if there is one chunk.
    fn words(&self, p: &AttentionParams) -> usize {
        match self.count {
            1 => 0,
            count => size(&[p.tokens, count, p.heads]).saturating_mul(Self::part_words(p)),
        }
    }
}

/// The twin of `attention_split.wgsl`.
pub(crate) fn attention_split(args: &Args) -> Result<(), HostError> {
    let call = checked(args, false)?;
    let p = &call.p;
    let out: &mut [f32] = args.write(6, size(&[p.tokens, p.heads, p.value_dim]))?;
    let chunks = Chunks::of(p);
    let parts: &mut [f32] = args.write(8, chunks.words(p))?;
    let (group, part_words) = (call.group(), Chunks::part_words(p));
    if chunks.count == 1 {
        let tokens = out.par_chunks_exact_mut(call.out_token()).enumerate();
        tokens.for_each(|(t, out)| one_token(&call, t, out));
        return Ok(());
    }
    // In the order of the parts: tokens, chunks, KV heads, the query heads of a KV head.
    let of_kv_heads = parts.par_chunks_exact_mut(group * part_words).enumerate();
    let sums = || vec![0.0; group * call.value_dim()];
    of_kv_heads.for_each_init(sums, |sums, (i, parts)| {
        let (kv_heads, count) = (p.kv_heads as usize, chunks.count as usize);
        let [t, chunk, kv_head] = [i / kv_heads / count, i / kv_heads % count, i % kv_heads];
        let [sequence, position] = call.pages.index[t].map(|i| i as usize);
        let visible = call.pages.visible_range(sequence, position);
        let positions = chunks.positions as usize;
        let start = (visible.start + chunk * positions).min(visible.end);
        let end = (start + positions).min(visible.end);
        if start == end {
            return parts.fill(0.0);
        }
        let state = sum_positions(&call, [t, kv_head * group], start..end, sums);
        let heads = sums.chunks_exact(call.value_dim()).zip(state);
        for (part, (sums, [row_max, total])) in parts.chunks_exact_mut(part_words).zip(heads) {
            part.fill(0.0);
            part[..sums.len()].copy_from_slice(sums);
            // True for NaN too, so that it reaches the result.
            if total != 0.0 {
                part[part_words - 4..part_words - 2].copy_from_slice(&[row_max, total]);
            }
        }
    });
    Ok(())
}

/// The twin of `attention_combine.wgsl`.
pub(crate) fn attention_combine(args: &Args) -> Result<(), HostError> {
    let p: AttentionParams = args.params()?;
    let chunks = Chunks::of(&p);
    let parts: &[f32] = args.read(1, chunks.words(&p))?;
    let out: &mut [f32] = args.write(2, size(&[p.tokens, p.heads, p.value_dim]))?;
    let sinks = sinks(args, &p, 3)?;
    if chunks.count == 1 || p.value_dim == 0 {
        return Ok(());
    }
    let (heads, value_dim) = (p.heads as usize, p.value_dim as usize);
    let (count, part_words) = (chunks.count as usize, Chunks::part_words(&p));
    let outs = out.par_chunks_exact_mut(value_dim).enumerate();
    let outs = outs.with_min_len((COMBINED / (count * value_dim)).max(1));
    outs.for_each(|(i, out)| {
        let first = i / heads * count * heads + i % heads;
        let parts =
            (0..count).map(|chunk| &parts[(first + chunk * heads) * part_words..][..part_words]);
        let [row_max, total] = combine(parts, out);
        let total = with_sink(sinks, i % heads, [row_max, total]);
        if total != 0.0 {
            out.iter_mut().for_each(|out| *out /= total);
        }
    });
    Ok(())
}

/// Sums the values of a head's parts. Returns the largest score and the sum of weights.
fn combine<'a>(parts: impl Iterator<Item = &'a [f32]> + Clone, out: &mut [f32]) -> [f32; 2] {
    let state = |part: &[f32]| [part[part.len() - 4], part[part.len() - 3]];
    // The sum of weights of an empty chunk is 0. The comparison is true for NaN.
    let parts = parts.filter(|part| state(part)[1] != 0.0);
    let maxima = parts.clone().map(|part| state(part)[0]);
    let row_max = maxima.fold(f32::MIN, f32::max);
    let mut all = 0.0;
    out.fill(0.0);
    for part in parts {
        let [max, total] = state(part);
        let weight = (max - row_max).exp();
        all += weight * total;
        for (out, sum) in out.iter_mut().zip(part) {
            *out += weight * sum;
        }
    }
    [row_max, all]
}
