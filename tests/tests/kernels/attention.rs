//! Ops on the paged cache: `attention`, `kv_write`, `rope`, `rope_kv_write`.

use std::borrow::Cow;

use proptest::prelude::*;
use wisp_shaders::{
    CacheFormat,
    params::{AttentionParams, KvWriteParams, RopeKvWriteParams, RopeParams},
};
use wisp_tests::kernels::{Case, Memory, cache, case, check, check_fitting, close, exact, noise};

/// A ragged batch over a cache.
#[derive(Debug)]
struct Batch {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    page_size: usize,
    window: u32,
    softcap: f32,
    /// For each sequence: positions before the batch, and tokens in it.
    sequences: Cow<'static, [(usize, usize)]>,
}

const fn batch(
    [heads, kv_heads, head_dim, page_size]: [usize; 4],
    window: u32,
    softcap: f32,
    sequences: &'static [(usize, usize)],
) -> Batch {
    Batch {
        heads,
        kv_heads,
        head_dim,
        page_size,
        window,
        softcap,
        sequences: Cow::Borrowed(sequences),
    }
}

const BATCHES: &[Batch] = &[
    batch([1, 1, 2, 1], 0, 0.0, &[(0, 1)]),
    batch([5, 1, 12, 3], 5, 0.0, &[(0, 9)]),
    batch([7, 1, 20, 16], 0, 5.0, &[(40, 1), (0, 8)]),
    batch([4, 4, 64, 16], 1, 0.0, &[(0, 3), (17, 2), (65, 1)]),
    batch([10, 2, 80, 3], 0, 0.0, &[(33, 5)]),
    batch([7, 1, 128, 16], 5, 5.0, &[(130, 1), (7, 1)]),
    batch([2, 2, 256, 1], 0, 0.0, &[(10, 2)]),
    batch([5, 1, 64, 16], 0, 0.0, &[(0, 65)]),
    batch([6, 2, 7, 3], 0, 0.0, &[(4, 3), (0, 1), (11, 1)]),
];

/// Batches, and how many elements of a head rotate.
const ROTATED: &[(Batch, usize)] = &[
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

/// How close what is written in a format must come, if its elements are as close as this: a device
/// may round a half up or down, and what lies between two steps may fall to either side.
fn written(format: CacheFormat, bound: Option<f64>) -> Option<f64> {
    match format {
        CacheFormat::F32 => bound,
        CacheFormat::F16 | CacheFormat::Q8_0 => Some(1e-3),
    }
}

impl Batch {
    fn max_pages(&self) -> usize {
        let most = self
            .sequences
            .iter()
            .map(|(before, count)| before + count)
            .max();
        most.unwrap_or(0).div_ceil(self.page_size)
    }

    /// Pages in a random order, so that nothing lies where one would guess it.
    fn table(&self) -> Vec<u32> {
        let order = noise(6, self.max_pages() * self.sequences.len());
        let mut pages: Vec<u32> = (0..order.len() as u32).collect();
        pages.sort_by(|a, b| order[*b as usize].total_cmp(&order[*a as usize]));
        pages
    }

    /// Sequence and position of each token.
    fn index(&self) -> Vec<[u32; 2]> {
        let tokens = |(s, &(before, count)): (usize, &(usize, usize))| {
            (before..before + count).map(move |p| [s as u32, p as u32])
        };
        self.sequences.iter().enumerate().flat_map(tokens).collect()
    }

    fn cache_len(&self) -> usize {
        let width = self.head_dim.next_multiple_of(4);
        self.table().len() * self.page_size * self.kv_heads * width
    }

    fn cache(&self, format: CacheFormat, seed: u32, bound: Option<f64>) -> Memory {
        let heads = noise(seed, self.cache_len());
        cache(format, self.head_dim, &heads, bound)
    }

    /// Cosines and sines of every position.
    fn turns(&self, rotary_dim: usize) -> Vec<f32> {
        let positions = self.max_pages() * self.page_size;
        // A binding is not empty, even if nothing rotates.
        let len = (positions * rotary_dim / 2).max(1);
        let turn = |angle: &f32| [(angle * 3.2).cos(), (angle * 3.2).sin()];
        noise(5, len).iter().flat_map(turn).collect()
    }
}

fn attention(b: &Batch, format: CacheFormat) -> Case {
    let tokens = b.index().len();
    let params = AttentionParams {
        tokens: tokens as u32,
        heads: b.heads as u32,
        kv_heads: b.kv_heads as u32,
        head_dim: b.head_dim as u32,
        page_size: b.page_size as u32,
        max_pages: b.max_pages() as u32,
        window: b.window,
        scale: 1.0 / (b.head_dim as f32).sqrt(),
        softcap: b.softcap,
    };
    let len = tokens * b.heads * b.head_dim;
    let memory = vec![
        exact(&noise(1, len)),
        b.cache(format, 2, None),
        b.cache(format, 3, None),
        exact(&b.index()),
        exact(&b.table()),
        close(len, 4e-6),
    ];
    case(params, memory, &[b.heads, tokens], b.head_dim)
}

fn kv_write(b: &Batch, format: CacheFormat) -> Case {
    let tokens = b.index().len();
    let width = b.kv_heads * b.head_dim;
    let params = KvWriteParams {
        tokens: tokens as u32,
        kv_heads: b.kv_heads as u32,
        head_dim: b.head_dim as u32,
        k_stride: width as u32 + 3,
        k_offset: 1,
        v_stride: width as u32 + 2,
        v_offset: 2,
        page_size: b.page_size as u32,
        max_pages: b.max_pages() as u32,
    };
    let memory = vec![
        exact(&noise(1, tokens * (width + 3))),
        exact(&noise(2, tokens * (width + 2))),
        exact(&b.index()),
        exact(&b.table()),
        b.cache(format, 3, written(format, None)),
        b.cache(format, 4, written(format, None)),
    ];
    let units = format.head_units(b.head_dim as u32) as usize;
    case(params, memory, &[b.kv_heads * units, tokens], b.head_dim)
}

fn rope(b: &Batch, rotary_dim: usize, interleaved: u32) -> Case {
    let tokens = b.index().len();
    let stride = b.heads * b.head_dim + 3;
    let params = RopeParams {
        tokens: tokens as u32,
        heads: b.heads as u32,
        head_dim: b.head_dim as u32,
        rotary_dim: rotary_dim as u32,
        stride: stride as u32,
        offset: 1,
        interleaved,
    };
    let memory = vec![
        close(tokens * stride, 1e-6),
        exact(&b.index()),
        exact(&b.turns(rotary_dim)),
    ];
    let grid = [rotary_dim / 2 * b.heads, tokens];
    case(params, memory, &grid, b.head_dim)
}

fn rope_kv_write(
    b: &Batch,
    rotary_dim: usize,
    interleaved: u32,
    format: CacheFormat,
    bound: f64,
) -> Case {
    let tokens = b.index().len();
    let heads = b.heads + 2 * b.kv_heads;
    let params = RopeKvWriteParams {
        tokens: tokens as u32,
        heads: b.heads as u32,
        kv_heads: b.kv_heads as u32,
        head_dim: b.head_dim as u32,
        rotary_dim: rotary_dim as u32,
        interleaved,
        page_size: b.page_size as u32,
        max_pages: b.max_pages() as u32,
        eps: 1e-5,
        weight_offset: (b.heads % 2) as f32,
    };
    let memory = vec![
        exact(&noise(1, tokens * heads * b.head_dim)),
        close(tokens * b.heads * b.head_dim, bound),
        exact(&b.index()),
        exact(&b.turns(rotary_dim)),
        exact(&b.table()),
        b.cache(format, 3, written(format, Some(bound))),
        // Values are only copied.
        b.cache(format, 4, written(format, None)),
    ];
    let grid = [
        heads * format.head_units(b.head_dim as u32) as usize,
        tokens,
    ];
    case(params, memory, &grid, b.head_dim)
}

fn rotated(of: impl Fn(&Batch, usize, u32) -> Case) -> Vec<Case> {
    let both = |(b, rotary_dim): &(Batch, usize)| [0, 1].map(|i| of(b, *rotary_dim, i));
    ROTATED.iter().flat_map(both).collect()
}

#[test]
fn ropes() {
    // A grid of nothing is not dispatched.
    let mut cases = rotated(rope);
    cases.retain(|case| case.grid[0] > 0);
    check("rope", &cases);
}

#[test]
fn rope_kv_writes() {
    for format in CacheFormat::ALL {
        let of = |b: &Batch, rotary_dim, i| rope_kv_write(b, rotary_dim, i, format, 1e-6);
        check(&format.op("rope_kv_write"), &rotated(of));
    }
}

#[test]
fn norm_rope_kv_writes() {
    for format in CacheFormat::ALL {
        let of = |b: &Batch, rotary_dim, interleaved| {
            let mut case = rope_kv_write(b, rotary_dim, interleaved, format, 2e-6);
            case.memory.push(exact(&noise(6, 2 * b.head_dim)));
            case
        };
        check(&format.op("norm_rope_kv_write"), &rotated(of));
    }
}

#[test]
fn attentions() {
    for format in CacheFormat::ALL {
        let cases: Vec<_> = BATCHES.iter().map(|b| attention(b, format)).collect();
        check(&format.op("attention"), &cases);
    }
}

/// Attention of whole sequences, in which tokens also see what follows them.
fn full_attention(b: &Batch, format: CacheFormat) -> Case {
    let mut case = attention(b, format);
    let ends = b.sequences.iter();
    let lengths: Vec<u32> = ends
        .map(|(before, count)| (before + count) as u32)
        .collect();
    case.memory.push(exact(&lengths));
    case
}

#[test]
fn full_attentions() {
    for format in CacheFormat::ALL {
        let cases: Vec<_> = BATCHES.iter().map(|b| full_attention(b, format)).collect();
        check(&format.op("full_attention"), &cases);
    }
}

#[test]
fn kv_writes() {
    for format in CacheFormat::ALL {
        let batches = BATCHES.iter().chain(ROTATED.iter().map(|(b, _)| b));
        let cases: Vec<_> = batches.map(|b| kv_write(b, format)).collect();
        check(&format.op("kv_write"), &cases);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn attentions_of_any_size(
        (group, kv_heads) in (1usize..6, 1usize..4),
        head_dim in 1usize..=256,
        page_size in prop::sample::select(vec![1usize, 3, 16]),
        (window, softcap) in (0u32..9, prop::sample::select(vec![0.0f32, 5.0])),
        sequences in prop::collection::vec((0usize..100, 1usize..20), 1..4),
    ) {
        let batch = Batch {
            heads: group * kv_heads,
            kv_heads,
            head_dim,
            page_size,
            window,
            softcap,
            sequences: Cow::Owned(sequences),
        };
        for format in CacheFormat::ALL {
            check_fitting(&format.op("attention"), &[attention(&batch, format)]);
            check_fitting(&format.op("full_attention"), &[full_attention(&batch, format)]);
            check_fitting(&format.op("kv_write"), &[kv_write(&batch, format)]);
        }
    }
}
