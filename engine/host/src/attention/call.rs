//! A call of an attention kernel, its arguments checked.

use std::ops::Range;

use wisp_shaders::{CacheFormat, params::AttentionParams};

use crate::{cache::decode, paged::Pages};

/// Attention, its arguments checked.
pub(super) struct Attention<'a> {
    pub(super) p: AttentionParams,
    pub(super) q: &'a [f32],
    pub(super) k_cache: &'a [f32],
    pub(super) v_cache: &'a [f32],
    pub(super) pages: Pages<'a>,
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

    /// The tokens in order, cut where they do not follow each other in one sequence, and so that a block
    /// has at most `max_rows` queries of one KV head.
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

/// Soft-caps a score.
#[inline(always)]
pub(super) fn cap(score: f32, softcap: f32) -> f32 {
    if softcap == 0.0 {
        score
    } else {
        softcap * (score / softcap).tanh()
    }
}
