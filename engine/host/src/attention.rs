//! `attention`, `full_attention`: attention of ragged queries over the paged cache.

use std::ops::Range;

use rayon::prelude::*;
use wisp_shaders::{CacheFormat, params::AttentionParams};

use super::args::{Args, size};
use super::cache::{Heads, decode};
use super::error::HostError;
use super::flash;
use super::math::{axpy_in, dot_in, exp_sum};
use super::paged::{Pages, Shape, Sight};
use wisp_weights::blocks::{Simd, simd, with_simd};

/// The widest head, as in the kernels.
pub(super) const MAX_HEAD_DIM: u32 = 256;

/// Attention, its arguments checked.
pub(super) struct Attention<'a> {
    pub(super) p: AttentionParams,
    pub(super) q: &'a [f32],
    pub(super) k_cache: &'a [f32],
    pub(super) v_cache: &'a [f32],
    pub(super) pages: Pages<'a>,
}

/// The twin of `attention.wgsl`.
pub(super) fn attention(args: &Args) -> Result<(), HostError> {
    attend(args, false)
}

/// The twin of `attention.wgsl` with `bidirectional`.
pub(super) fn full_attention(args: &Args) -> Result<(), HostError> {
    attend(args, true)
}

fn attend(args: &Args, bidirectional: bool) -> Result<(), HostError> {
    let p: AttentionParams = args.params()?;
    if p.head_dim == 0 || p.head_dim > MAX_HEAD_DIM {
        let expected = format!("from 1 to {MAX_HEAD_DIM}");
        return Err(args.value("head_dim", expected, p.head_dim));
    }
    if p.kv_heads == 0 || p.heads == 0 || !p.heads.is_multiple_of(p.kv_heads) {
        let expected = format!("a multiple of kv_heads, {}", p.kv_heads);
        return Err(args.value("heads", expected, p.heads));
    }
    let q: &[f32] = args.read(1, size(&[p.tokens, p.heads, p.head_dim]))?;
    let k_cache: &[f32] = args.read_all(2)?;
    let v_cache: &[f32] = args.read_all(3)?;
    let shape = Shape {
        tokens: p.tokens,
        kv_heads: p.kv_heads,
        heads: Heads::new(args.cache_format()?, p.head_dim),
        page_size: p.page_size,
        max_pages: p.max_pages,
    };
    let cache = k_cache.len().min(v_cache.len());
    let sight = Sight {
        window: p.window,
        lengths: bidirectional.then(|| args.read_all(7)).transpose()?,
    };
    let pages = Pages::take(args, [4, 5], shape, cache, sight)?;
    let mut out: &mut [f32] = args.write(6, size(&[p.tokens, p.heads, p.head_dim]))?;
    let call = Attention {
        p,
        q,
        k_cache,
        v_cache,
        pages,
    };
    let mut blocks = Vec::new();
    for tokens in call.blocks() {
        let len = tokens.len() * call.token();
        // The blocks follow each other and cover all tokens.
        let block = out.split_off_mut(..len).unwrap_or_default();
        blocks.push((tokens, block));
    }
    blocks.into_par_iter().for_each(|(tokens, out)| {
        if tokens.len() > 1 {
            flash::block(&call, tokens, out);
        } else {
            let heads = out
                .par_chunks_mut(call.group() * call.head_dim())
                .enumerate();
            heads.for_each(|(kv_head, out)| one_token(&call, tokens.start, kv_head, out));
        }
    });
    Ok(())
}

impl Attention<'_> {
    pub(super) fn head_dim(&self) -> usize {
        self.p.head_dim as usize
    }

    /// Query heads that share a KV head.
    pub(super) fn group(&self) -> usize {
        (self.p.heads / self.p.kv_heads) as usize
    }

    /// Elements of a token in `q` and `out`.
    pub(super) fn token(&self) -> usize {
        self.p.heads as usize * self.head_dim()
    }

    /// The keys (or values) of `count` positions from a sequence's position on, of one KV head;
    /// decoded to `scratch` where they must be.
    #[inline(always)]
    pub(super) fn rows<'b>(
        &'b self,
        cache: &'b [f32],
        at: [usize; 3],
        count: usize,
        scratch: &'b mut Vec<f32>,
    ) -> Rows<'b> {
        let heads = self.pages.heads;
        let decoded = if heads.format == CacheFormat::F32 {
            None
        } else {
            let starts: Vec<usize> = (0..count).map(|i| self.head(at, i)).collect();
            scratch.resize(count * heads.head_dim, 0.0);
            decode(heads, bytemuck::cast_slice(cache), &starts, scratch);
            Some(&scratch[..])
        };
        Rows {
            call: self,
            cache,
            at,
            decoded,
        }
    }

    /// Where the head of the `i`th position from here on begins.
    #[inline(always)]
    fn head(&self, [sequence, position, kv_head]: [usize; 3], i: usize) -> usize {
        self.pages.row(sequence as u32, position + i) + kv_head * self.pages.heads.words
    }

    /// The tokens in order, cut where they do not follow each other in one sequence, and so that a
    /// block's queries of one KV head fit into one scratch.
    fn blocks(&self) -> Vec<Range<usize>> {
        let most = (flash::ROWS / self.group()).max(1);
        let mut blocks: Vec<Range<usize>> = Vec::new();
        for (t, [sequence, position]) in self.pages.index.iter().enumerate() {
            if let Some(block) = blocks.last_mut() {
                let [last_sequence, last_position] = self.pages.index[t - 1];
                let follows =
                    *sequence == last_sequence && last_position.checked_add(1) == Some(*position);
                if follows && block.len() < most {
                    block.end = t + 1;
                    continue;
                }
            }
            blocks.push(t..t + 1);
        }
        blocks
    }
}

/// Keys (or values) of positions that follow each other.
pub(super) struct Rows<'a> {
    call: &'a Attention<'a>,
    cache: &'a [f32],
    at: [usize; 3],
    decoded: Option<&'a [f32]>,
}

impl Rows<'_> {
    /// Those of the `i`th position.
    #[inline(always)]
    pub(super) fn get(&self, i: usize) -> &[f32] {
        let head_dim = self.call.head_dim();
        match self.decoded {
            None => &self.cache[self.call.head(self.at, i)..][..head_dim],
            Some(decoded) => &decoded[i * head_dim..][..head_dim],
        }
    }
}

simd! {
    /// One token and the query heads of one KV head; a few positions at a time.
    fn one_token(call: &Attention, t: usize, kv_head: usize, out: &mut [f32]) {
        with_simd!(S => one_token_in::<S>(call, t, kv_head, out))
    }
}

#[inline(always)]
fn one_token_in<S: Simd>(call: &Attention, t: usize, kv_head: usize, out: &mut [f32]) {
    const POSITIONS: usize = 64;
    let head_dim = call.head_dim();
    let [sequence, position] = call.pages.index[t].map(|i| i as usize);
    let q = &call.q[t * call.token() + kv_head * out.len()..][..out.len()];
    out.fill(0.0);
    // The greatest score and the sum of weights of each head.
    let mut state = vec![[f32::MIN, 0.0]; call.group()];
    let seen = call.pages.seen(sequence, position);
    let mut scratch = [const { Vec::new() }; 2];
    for start in seen.clone().step_by(POSITIONS) {
        let count = POSITIONS.min(seen.end - start);
        let at = [sequence, start, kv_head];
        let [for_keys, for_values] = &mut scratch;
        let keys = call.rows(call.k_cache, at, count, for_keys);
        let values = call.rows(call.v_cache, at, count, for_values);
        let heads = out.chunks_exact_mut(head_dim).zip(q.chunks_exact(head_dim));
        for ((out, q), [greatest, total]) in heads.zip(&mut state) {
            let mut scores = [0.0; POSITIONS];
            let scores = &mut scores[..count];
            for (i, score) in scores.iter_mut().enumerate() {
                *score = cap(dot_in::<S>(q, keys.get(i)) * call.p.scale, call.p.softcap);
            }
            let fade = exp_sum(scores, greatest, total);
            out.iter_mut().for_each(|out| *out *= fade);
            for (i, weight) in scores.iter().enumerate() {
                axpy_in::<S>(*weight, values.get(i), out);
            }
        }
    }
    for (out, [_, total]) in out.chunks_exact_mut(head_dim).zip(state) {
        out.iter_mut().for_each(|out| *out /= total);
    }
}

/// Soft-caps a score.
#[inline(always)]
pub(super) fn cap(score: f32, softcap: f32) -> f32 {
    if softcap == 0.0 {
        score
    } else {
        softcap * (score / softcap).tanh()
    }
}
