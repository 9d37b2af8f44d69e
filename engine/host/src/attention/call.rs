//! A call of an attention kernel with checked arguments.

use std::ops::Range;

use wisp_shaders::{CacheFormat, params::AttentionParams};

use crate::{cache::decode, paged::Pages};

/// The checked arguments of a call.
pub(super) struct Attention<'a> {
    pub(super) p: AttentionParams,
    pub(super) q: &'a [f32],
    pub(super) k_cache: &'a [f32],
    pub(super) v_cache: &'a [f32],
    pub(super) sinks: Option<&'a [f32]>,
    pub(super) pages: Pages<'a>,
}

impl Attention<'_> {
    pub(super) fn head_dim(&self) -> usize {
        self.p.head_dim as usize
    }

    /// Returns the elements of a value.
    pub(super) fn value_dim(&self) -> usize {
        self.p.value_dim as usize
    }

    /// Returns the number of query heads that share a KV head.
    pub(super) fn group(&self) -> usize {
        (self.p.heads / self.p.kv_heads) as usize
    }

    /// Returns the elements of one token in `q`.
    pub(super) fn token(&self) -> usize {
        self.p.heads as usize * self.head_dim()
    }

    /// Returns the elements of one token in `out`.
    pub(super) fn out_token(&self) -> usize {
        self.p.heads as usize * self.value_dim()
    }

    /// Returns the keys and values of one KV head for `count` positions, from a sequence's position on. `at` is
    /// `[sequence, position, kv_head]`.
    #[inline(always)]
    pub(super) fn keys_and_values<'b>(
        &'b self,
        at: [usize; 3],
        count: usize,
        [for_keys, for_values]: &'b mut [Vec<f32>; 2],
    ) -> [Rows<'b>; 2] {
        let keys = self.rows(self.k_cache, at, count, for_keys);
        // Keys that are values as well are decoded once.
        let values = match std::ptr::eq(self.k_cache, self.v_cache) {
            true => keys,
            false => self.rows(self.v_cache, at, count, for_values),
        };
        [keys, values]
    }

    /// Returns the heads of a cache for [`Self::keys_and_values`]. Formats other than `f32` are decoded to `scratch`.
    #[inline(always)]
    fn rows<'b>(
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

    /// Returns the offset of the head of the `i`th position from `position` on, in words.
    #[inline(always)]
    fn head(&self, [sequence, position, kv_head]: [usize; 3], i: usize) -> usize {
        self.pages.row(sequence as u32, position + i) + kv_head * self.pages.heads.words
    }

    /// Returns the sum of a head's weights with that of its sink. `state` is the largest score and the sum.
    #[inline(always)]
    pub(super) fn total(&self, head: usize, state: [f32; 2]) -> f32 {
        with_sink(self.sinks, head, state)
    }

    /// Splits the tokens into blocks of consecutive positions of one sequence, each with at most
    /// `max_rows` queries per KV head.
    pub(super) fn blocks(&self, max_rows: usize) -> Vec<Range<usize>> {
        let most = (max_rows / self.group()).max(1);
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

/// The keys (or values) of consecutive positions. A value is the beginning of its row.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    call: &'a Attention<'a>,
    cache: &'a [f32],
    at: [usize; 3],
    decoded: Option<&'a [f32]>,
}

impl Rows<'_> {
    /// Returns the key (or value) of the `i`th position.
    #[inline(always)]
    pub(super) fn get(&self, i: usize) -> &[f32] {
        let head_dim = self.call.head_dim();
        match self.decoded {
            None => &self.cache[self.call.head(self.at, i)..][..head_dim],
            Some(decoded) => &decoded[i * head_dim..][..head_dim],
        }
    }
}

/// Adds the weight of a head's sink, a score without a value, to the sum of its weights.
#[inline(always)]
pub(super) fn with_sink(sinks: Option<&[f32]>, head: usize, [row_max, total]: [f32; 2]) -> f32 {
    match sinks {
        Some(sinks) => total + (sinks[head] - row_max).exp(),
        None => total,
    }
}

/// Applies the soft cap to a score; 0 means none.
#[inline(always)]
pub(super) fn cap(score: f32, softcap: f32) -> f32 {
    if softcap == 0.0 {
        score
    } else {
        softcap * (score / softcap).tanh()
    }
}
