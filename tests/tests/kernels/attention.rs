//! Ops on the paged cache: `attention`, `kv_write`, `rope`.

use wisp_shaders::params::{AttentionParams, KvWriteParams, RopeParams};
use wisp_tests::kernels::{Case, case, check, close, exact, noise};

/// A ragged batch over a cache.
struct Batch {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    page_size: usize,
    window: u32,
    softcap: f32,
    /// For each sequence: positions before the batch, and tokens in it.
    sequences: &'static [(usize, usize)],
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
        sequences,
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
];

impl Batch {
    fn max_pages(&self) -> usize {
        let most = self
            .sequences
            .iter()
            .map(|(before, count)| before + count)
            .max();
        most.unwrap_or(0).div_ceil(self.page_size)
    }

    /// Pages in reverse order, so that nothing lies where one would guess it.
    fn table(&self) -> Vec<u32> {
        (0..(self.max_pages() * self.sequences.len()) as u32)
            .rev()
            .collect()
    }

    /// Sequence and position of each token.
    fn index(&self) -> Vec<[u32; 2]> {
        let tokens = |(s, &(before, count)): (usize, &(usize, usize))| {
            (before..before + count).map(move |p| [s as u32, p as u32])
        };
        self.sequences.iter().enumerate().flat_map(tokens).collect()
    }

    fn cache(&self, seed: u32) -> Vec<f32> {
        let width = self.head_dim.next_multiple_of(4);
        noise(
            seed,
            self.table().len() * self.page_size * self.kv_heads * width,
        )
    }
}

fn attention(b: &Batch) -> Case {
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
        exact(&b.cache(2)),
        exact(&b.cache(3)),
        exact(&b.index()),
        exact(&b.table()),
        close(len, 4e-6),
    ];
    case(params, memory, [b.heads, tokens], b.head_dim)
}

fn kv_write(b: &Batch) -> Case {
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
        exact(&b.cache(3)),
        exact(&b.cache(4)),
    ];
    case(
        params,
        memory,
        [b.kv_heads * b.head_dim.div_ceil(4), tokens],
        b.head_dim,
    )
}

fn rope(b: &Batch) -> Case {
    let tokens = b.index().len();
    let half = b.head_dim / 2;
    let stride = b.heads * b.head_dim + 3;
    let params = RopeParams {
        tokens: tokens as u32,
        heads: b.heads as u32,
        head_dim: b.head_dim as u32,
        rotary_dim: 2 * half as u32,
        stride: stride as u32,
        offset: 1,
        interleaved: b.window % 2,
    };
    let positions = b.max_pages() * b.page_size;
    let memory = vec![
        close(tokens * stride, 1e-6),
        exact(&b.index()),
        exact(&noise(5, positions * half * 2)),
    ];
    case(params, memory, [half * b.heads, tokens], b.head_dim)
}

#[test]
fn ropes() {
    check("rope", &BATCHES.iter().map(rope).collect::<Vec<_>>());
}

#[test]
fn attentions() {
    check(
        "attention",
        &BATCHES.iter().map(attention).collect::<Vec<_>>(),
    );
}

#[test]
fn kv_writes() {
    check(
        "kv_write",
        &BATCHES.iter().map(kv_write).collect::<Vec<_>>(),
    );
}
