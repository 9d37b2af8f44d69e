//! Ragged batches over a paged KV cache, which the tests of several ops share.

use std::borrow::Cow;

use wisp_shaders::CacheFormat;
use wisp_tests::kernels::{Case, Memory, cache, noise};

/// A ragged batch over a cache.
#[derive(Debug)]
pub(crate) struct Batch {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Elements of a head that are a value.
    pub value_dim: usize,
    pub page_size: usize,
    pub window: u32,
    /// Whether the window is a chunk.
    pub chunked: bool,
    pub softcap: f32,
    /// Whether heads have sinks.
    pub sinks: bool,
    /// For each sequence: positions before the batch, and tokens in the batch.
    pub sequences: Cow<'static, [(usize, usize)]>,
}

pub(crate) const fn batch(
    sizes: [usize; 4],
    window: u32,
    softcap: f32,
    sequences: &'static [(usize, usize)],
) -> Batch {
    batch_of(sizes, window, softcap, false, sequences)
}

/// A batch whose heads have sinks.
pub(crate) const fn sink_batch(
    sizes: [usize; 4],
    window: u32,
    softcap: f32,
    sequences: &'static [(usize, usize)],
) -> Batch {
    batch_of(sizes, window, softcap, true, sequences)
}

/// A batch whose values are the first `value_dim` elements of a head.
pub(crate) const fn latent_batch(
    [heads, kv_heads, head_dim, value_dim, page_size]: [usize; 5],
    sequences: &'static [(usize, usize)],
) -> Batch {
    Batch {
        heads,
        kv_heads,
        head_dim,
        value_dim,
        page_size,
        window: 0,
        chunked: false,
        softcap: 0.0,
        sinks: false,
        sequences: Cow::Borrowed(sequences),
    }
}

/// A batch whose window is a chunk.
pub(crate) const fn chunked_batch(
    [heads, kv_heads, head_dim, page_size]: [usize; 4],
    chunk: u32,
    sequences: &'static [(usize, usize)],
) -> Batch {
    Batch {
        heads,
        kv_heads,
        head_dim,
        value_dim: head_dim,
        page_size,
        window: chunk,
        chunked: true,
        softcap: 0.0,
        sinks: false,
        sequences: Cow::Borrowed(sequences),
    }
}

const fn batch_of(
    [heads, kv_heads, head_dim, page_size]: [usize; 4],
    window: u32,
    softcap: f32,
    sinks: bool,
    sequences: &'static [(usize, usize)],
) -> Batch {
    Batch {
        heads,
        kv_heads,
        head_dim,
        value_dim: head_dim,
        page_size,
        window,
        chunked: false,
        softcap,
        sinks,
        sequences: Cow::Borrowed(sequences),
    }
}

/// Batches for attention.
pub(crate) const BATCHES: &[Batch] = &[
    batch([1, 1, 2, 1], 0, 0.0, &[(0, 1)]),
    batch([5, 1, 12, 3], 5, 0.0, &[(0, 9)]),
    sink_batch([7, 1, 20, 16], 0, 5.0, &[(40, 1), (0, 8)]),
    batch([4, 4, 64, 16], 1, 0.0, &[(0, 3), (17, 2), (65, 1)]),
    sink_batch([10, 2, 80, 3], 0, 0.0, &[(33, 5)]),
    batch([7, 1, 128, 16], 5, 5.0, &[(130, 1), (7, 1)]),
    batch([2, 2, 256, 1], 0, 0.0, &[(10, 2)]),
    batch([5, 1, 64, 16], 0, 0.0, &[(0, 65)]),
    sink_batch([6, 2, 7, 3], 5, 0.0, &[(4, 3), (0, 1), (11, 1)]),
    chunked_batch([6, 2, 7, 3], 5, &[(3, 9), (0, 1), (14, 1)]),
    latent_batch([6, 2, 24, 18, 3], &[(4, 3), (33, 1)]),
    latent_batch([5, 1, 70, 1, 16], &[(20, 2), (0, 1)]),
];

/// Batches for rotation, and how many elements of a head rotate.
pub(crate) const ROTATED: &[(Batch, usize)] = &[
    (batch([1, 1, 1, 1], 0, 0.0, &[(0, 1)]), 0),
    (batch([3, 1, 5, 3], 0, 0.0, &[(0, 7), (4, 1)]), 4),
    (batch([6, 2, 7, 1], 0, 0.0, &[(2, 3), (9, 1), (0, 2)]), 6),
    (batch([4, 4, 13, 16], 0, 0.0, &[(15, 2), (40, 1)]), 2),
    (
        batch([8, 2, 64, 16], 0, 0.0, &[(30, 5), (0, 1), (17, 1)]),
        64,
    ),
    (batch([5, 5, 80, 3], 0, 0.0, &[(0, 9), (100, 1)]), 20),
    (batch([7, 1, 128, 16], 0, 0.0, &[(0, 33)]), 128),
    (batch([9, 3, 127, 1], 0, 0.0, &[(3, 2), (6, 3)]), 126),
    (batch([2, 1, 256, 3], 0, 0.0, &[(5, 1)]), 64),
];

/// The cases of [`ROTATED`], each with both kinds of pairs.
pub(crate) fn rotated(of: impl Fn(&Batch, usize, u32) -> Case) -> Vec<Case> {
    let both = |(b, rotary_dim): &(Batch, usize)| [0, 1].map(|i| of(b, *rotary_dim, i));
    ROTATED.iter().flat_map(both).collect()
}

/// The bound on what is stored in a format if its elements are within `bound`: a device may round a half
/// up or down, and an element between two steps of q8_0 may fall to either side.
pub(crate) fn stored_bound(format: CacheFormat, bound: Option<f64>) -> Option<f64> {
    match format {
        CacheFormat::F32 => bound,
        CacheFormat::F16 | CacheFormat::Q8_0 => Some(1e-3),
    }
}

impl Batch {
    pub(crate) fn max_pages(&self) -> usize {
        let most = self
            .sequences
            .iter()
            .map(|(before, count)| before + count)
            .max();
        most.unwrap_or(0).div_ceil(self.page_size)
    }

    /// The page table, with pages in a random order, so that no page is where its number suggests.
    pub(crate) fn table(&self) -> Vec<u32> {
        let order = noise(6, self.max_pages() * self.sequences.len());
        let mut pages: Vec<u32> = (0..order.len() as u32).collect();
        pages.sort_by(|a, b| order[*b as usize].total_cmp(&order[*a as usize]));
        pages
    }

    /// Sequence and position of each token.
    pub(crate) fn index(&self) -> Vec<[u32; 2]> {
        let tokens = |(s, &(before, count)): (usize, &(usize, usize))| {
            (before..before + count).map(move |p| [s as u32, p as u32])
        };
        self.sequences.iter().enumerate().flat_map(tokens).collect()
    }

    /// Elements of a cache.
    pub(crate) fn cache_len(&self) -> usize {
        let width = self.head_dim.next_multiple_of(4);
        self.table().len() * self.page_size * self.kv_heads * width
    }

    pub(crate) fn cache(&self, format: CacheFormat, seed: u32, bound: Option<f64>) -> Memory {
        let heads = noise(seed, self.cache_len());
        cache(format, self.head_dim, &heads, bound)
    }

    /// Cosine and sine of every position's pairs: `[positions, rotary_dim / 2, 2]`.
    pub(crate) fn rope_table(&self, rotary_dim: usize) -> Vec<f32> {
        let positions = self.max_pages() * self.page_size;
        // A binding is not empty, even if nothing rotates.
        let len = (positions * rotary_dim / 2).max(1);
        let cos_sin = |angle: &f32| [(angle * 3.2).cos(), (angle * 3.2).sin()];
        noise(5, len).iter().flat_map(cos_sin).collect()
    }

    /// Bytes of a page of the cache.
    pub(crate) fn page_bytes(&self, format: CacheFormat) -> usize {
        let words = format.head_words(self.head_dim as u32) as usize;
        4 * self.page_size * self.kv_heads * words
    }
}

/// A batch of single tokens, half of which hostile tests make invalid: tokens with odd numbers.
///
/// The valid tokens are in sequences 0 and 1 at positions below [`HALF`]. A reference moves the invalid
/// ones to sequence 2, each to a separate page at positions from [`HALF`] on, where no valid token
/// reads or writes.
pub(crate) const HOSTILE_BATCH: Batch = batch([4, 2, 6, 2], 0, 0.0, &[(0, 32), (0, 32), (0, 32)]);

/// Half of the positions that a sequence of [`HOSTILE_BATCH`] has room for: valid tokens use the lower half.
pub(crate) const HALF: usize = 16;

/// Tokens of [`HOSTILE_BATCH`].
pub(crate) const HOSTILE_TOKENS: usize = 16;

/// The tokens of [`HOSTILE_BATCH`]; those with odd numbers are as `invalid` says, given their place among
/// these.
pub(crate) fn hostile_index(invalid: impl Fn(usize) -> [u32; 2]) -> Vec<[u32; 2]> {
    let token = |t: usize| match t % 2 {
        0 => [(t / 2 % 2) as u32, (t / 4) as u32],
        _ => invalid(t / 2),
    };
    (0..HOSTILE_TOKENS).map(token).collect()
}

/// The tokens of [`HOSTILE_BATCH`] with the invalid ones moved to sequence 2.
pub(crate) fn moved_index() -> Vec<[u32; 2]> {
    hostile_index(|i| [2, (HALF + 2 * i) as u32])
}

/// The pages that the moved tokens of [`moved_index`] write.
pub(crate) fn moved_pages() -> Vec<usize> {
    let b = &HOSTILE_BATCH;
    let (table, first) = (b.table(), 2 * b.max_pages() + HALF / b.page_size);
    (0..HOSTILE_TOKENS / 2)
        .map(|i| table[first + i] as usize)
        .collect()
}
