//! Attention over a paged cache, what is written there, and rotation.

use proptest::prelude::*;
use wisp_shaders::{CacheFormat, params::*};

use super::super::HostBuffer;
use super::super::cache::{Heads, decode};
use super::super::testing::{assert_close, assert_sums_close, buffer, contents, numbers, run, sum};
use super::zeros;

/// A seed that no other numbers of a test have.
fn seed_of_norms(head_dim: usize) -> u32 {
    7000 + head_dim as u32
}

/// A batch over a paged cache, with random shapes.
#[derive(Clone, Debug)]
struct Batch {
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    page_size: usize,
    /// For each sequence: positions before the batch, and tokens in it.
    sequences: Vec<(usize, usize)>,
    rotary: usize,
    interleaved: bool,
    seed: u32,
}

impl Batch {
    const MAX_POSITIONS: usize = 160;

    fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn width(&self) -> usize {
        self.head_dim.next_multiple_of(4)
    }

    fn max_pages(&self) -> usize {
        Self::MAX_POSITIONS.div_ceil(self.page_size)
    }

    fn pages(&self) -> usize {
        self.max_pages() * self.sequences.len()
    }

    /// Element `(sequence, position, head, 0)` of a cache.
    fn row(&self, sequence: usize, position: usize, head: usize) -> usize {
        let page = self.table()[sequence * self.max_pages() + position / self.page_size] as usize;
        ((page * self.page_size + position % self.page_size) * self.kv_heads + head) * self.width()
    }

    fn cache_len(&self) -> usize {
        self.pages() * self.page_size * self.kv_heads * self.width()
    }

    /// Pages in reverse order, so that nothing lies where one would guess it.
    fn table(&self) -> Vec<u32> {
        (0..self.pages() as u32).rev().collect()
    }

    fn index(&self) -> Vec<[u32; 2]> {
        let tokens = |(s, &(before, count)): (usize, &(usize, usize))| {
            (before..before + count).map(move |p| [s as u32, p as u32])
        };
        self.sequences.iter().enumerate().flat_map(tokens).collect()
    }

    fn turns(&self) -> Vec<[f32; 2]> {
        let half = self.rotary / 2;
        (0..Self::MAX_POSITIONS * half)
            .map(|i| {
                let angle = (i / half) as f32 * 0.3 / (1.0 + (i % half) as f32);
                [angle.cos(), angle.sin()]
            })
            .collect()
    }

    /// A head after rotation to `position`.
    fn rotated(&self, head: &[f32], position: usize) -> Vec<f64> {
        let half = self.rotary / 2;
        let turns = self.turns();
        let mut out: Vec<f64> = head.iter().map(|x| f64::from(*x)).collect();
        for i in 0..half {
            let (a, b) = if self.interleaved {
                (2 * i, 2 * i + 1)
            } else {
                (i, i + half)
            };
            let [cos, sin] = turns[position * half + i].map(f64::from);
            let (u, v) = (f64::from(head[a]), f64::from(head[b]));
            (out[a], out[b]) = (u * cos - v * sin, v * cos + u * sin);
        }
        out
    }
}

fn batches() -> impl Strategy<Value = Batch> {
    (
        (1usize..4, 1usize..5, 1usize..70, 1usize..20),
        proptest::collection::vec((0usize..80, 1usize..80), 1..4),
        (0usize..70, any::<bool>(), 0u32..1000),
    )
        .prop_map(
            |((kv_heads, group, head_dim, page_size), sequences, rest)| Batch {
                kv_heads,
                group,
                head_dim,
                page_size,
                sequences,
                rotary: rest.0.min(head_dim) / 2 * 2,
                interleaved: rest.1,
                seed: rest.2,
            },
        )
}

/// The words that a cache's heads take in a format, and the heads as they are stored there.
fn stored(b: &Batch, format: CacheFormat, padded: &[f32]) -> (Vec<u32>, Vec<f32>) {
    let heads = Heads::new(format, b.head_dim as u32);
    let mut words = vec![0; padded.len() / b.width() * heads.words];
    let mut kept = padded.to_vec();
    let each = kept.chunks_exact_mut(b.width());
    for (head, words) in each.zip(words.chunks_exact_mut(heads.words)) {
        heads.encode(&head[..b.head_dim], words);
        decode(heads, words, &[0], &mut head[..b.head_dim]);
    }
    (words, kept)
}

fn check_attention(b: &Batch, format: CacheFormat, window: u32, softcap: f32, bidirectional: bool) {
    let index = b.index();
    let (heads, head_dim) = (b.heads(), b.head_dim);
    let q = numbers(b.seed, index.len() * heads * head_dim);
    let [(k_words, k), (v_words, v)] =
        [1, 2].map(|i| stored(b, format, &numbers(b.seed + i, b.cache_len())));
    let params = AttentionParams {
        tokens: index.len() as u32,
        heads: heads as u32,
        kv_heads: b.kv_heads as u32,
        head_dim: head_dim as u32,
        page_size: b.page_size as u32,
        max_pages: b.max_pages() as u32,
        window,
        scale: 0.7,
        softcap,
    };
    let out = zeros::<f32>(q.len());
    let ends = b.sequences.iter().map(|(before, count)| before + count);
    let lengths: Vec<usize> = ends.collect();
    let words: Vec<u32> = lengths.iter().map(|length| *length as u32).collect();
    let bound = [
        &buffer(&q),
        &buffer(&k_words),
        &buffer(&v_words),
        &buffer(&index),
        &buffer(&b.table()),
        &out,
        &buffer(&words),
    ];
    match bidirectional {
        true => run(&format.op("full_attention"), params, &bound).unwrap(),
        false => run(&format.op("attention"), params, &bound[..6]).unwrap(),
    }
    let mut expected = Vec::new();
    for (t, [sequence, position]) in index.iter().map(|i| i.map(|i| i as usize)).enumerate() {
        for head in 0..heads {
            let q = &q[(t * heads + head) * head_dim..][..head_dim];
            let first = if window == 0 {
                0
            } else {
                (position + 1).saturating_sub(window as usize)
            };
            let end = match (bidirectional, window) {
                (false, _) => position + 1,
                (true, 0) => lengths[sequence],
                (true, window) => lengths[sequence].min(position + window as usize),
            };
            let rows: Vec<usize> = (first..end)
                .map(|p| b.row(sequence, p, head / b.group))
                .collect();
            let mut weights: Vec<f64> = rows
                .iter()
                .map(|row| {
                    let pairs = q.iter().zip(&k[*row..]);
                    let dot: f64 = pairs.map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                    let (score, cap) = (dot * f64::from(0.7f32), f64::from(softcap));
                    if softcap == 0.0 {
                        score
                    } else {
                        cap * (score / cap).tanh()
                    }
                    .exp()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|w| *w /= total);
            for d in 0..head_dim {
                let pairs = weights.iter().zip(&rows);
                expected.push(sum(pairs.map(|(w, row)| w * f64::from(v[row + d]))));
            }
        }
    }
    assert_sums_close(&contents(&out), &expected, 2e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn attention(
        b in batches(),
        window in 0u32..50,
        softcap in 0u32..2,
        bidirectional in any::<bool>(),
    ) {
        for format in CacheFormat::ALL {
            check_attention(&b, format, window.saturating_sub(10), softcap as f32 * 5.0, bidirectional);
        }
    }

    #[test]
    fn rope(b in batches(), pad in [0usize..5, 0usize..5]) {
        let index = b.index();
        let width = b.heads() * b.head_dim;
        let stride = pad[0] + width + pad[1];
        let x = numbers(b.seed, index.len() * stride);
        let params = RopeParams {
            tokens: index.len() as u32,
            heads: b.heads() as u32,
            head_dim: b.head_dim as u32,
            rotary_dim: b.rotary as u32,
            stride: stride as u32,
            offset: pad[0] as u32,
            interleaved: b.interleaved.into(),
        };
        let bound = buffer(&x);
        let table = [b.turns(), vec![[0.0; 2]]].concat();
        run("rope", params, &[&bound, &buffer(&index), &buffer(&table)]).unwrap();
        let mut expected: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        for (t, [_, position]) in index.iter().enumerate() {
            for head in 0..b.heads() {
                let at = t * stride + pad[0] + head * b.head_dim;
                let rotated = b.rotated(&x[at..at + b.head_dim], *position as usize);
                expected[at..at + b.head_dim].copy_from_slice(&rotated);
            }
        }
        assert_close(&contents(&bound), &expected, 1e-6);
    }

    #[test]
    fn cache_writes(b in batches()) {
        let index = b.index();
        let (heads, kv_heads, head_dim) = (b.heads(), b.kv_heads, b.head_dim);
        let width = (heads + 2 * kv_heads) * head_dim;
        let qkv = numbers(b.seed, index.len() * width);
        let old = numbers(b.seed + 1, b.cache_len());
        let expect = |rotate: bool, which: usize| {
            let mut cache: Vec<f64> = old.iter().map(|x| f64::from(*x)).collect();
            for (t, [sequence, position]) in index.iter().map(|i| i.map(|i| i as usize)).enumerate() {
                for head in 0..kv_heads {
                    let at = t * width + (heads + which * kv_heads + head) * head_dim;
                    let from = &qkv[at..at + head_dim];
                    let values = match rotate && which == 0 {
                        true => b.rotated(from, position),
                        false => from.iter().map(|x| f64::from(*x)).collect(),
                    };
                    let row = b.row(sequence, position, head);
                    cache[row..row + b.width()].fill(0.0);
                    cache[row..row + head_dim].copy_from_slice(&values);
                }
            }
            cache
        };
        let params = KvWriteParams {
            tokens: index.len() as u32,
            kv_heads: kv_heads as u32,
            head_dim: head_dim as u32,
            k_stride: width as u32,
            k_offset: (heads * head_dim) as u32,
            v_stride: width as u32,
            v_offset: ((heads + kv_heads) * head_dim) as u32,
            page_size: b.page_size as u32,
            max_pages: b.max_pages() as u32,
        };
        let (x, index_buffer, table) = (buffer(&qkv), buffer(&index), buffer(&b.table()));
        let (k, v) = (buffer(&old), buffer(&old));
        // Keys and values come from one buffer, as after a fused projection.
        run("kv_write.f32", params, &[&x, &x, &index_buffer, &table, &k, &v]).unwrap();
        assert_close(&contents(&k), &expect(false, 0), 0.0);
        assert_close(&contents(&v), &expect(false, 1), 0.0);
        let params = RopeKvWriteParams {
            tokens: index.len() as u32,
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            head_dim: head_dim as u32,
            rotary_dim: b.rotary as u32,
            interleaved: b.interleaved.into(),
            page_size: b.page_size as u32,
            max_pages: b.max_pages() as u32,
            eps: 1e-5,
            weight_offset: 1.0,
        };
        let (k, v) = (buffer(&old), buffer(&old));
        let q = zeros::<f32>(index.len() * heads * head_dim);
        let turns = buffer(&[b.turns(), vec![[0.0; 2]]].concat());
        run("rope_kv_write.f32", params, &[&x, &q, &index_buffer, &turns, &table, &k, &v]).unwrap();
        assert_close(&contents(&k), &expect(true, 0), 1e-6);
        assert_close(&contents(&v), &expect(true, 1), 0.0);
        let queries: Vec<f64> = index.iter().enumerate().flat_map(|(t, [_, position])| {
            let row = &qkv[t * width..][..heads * head_dim];
            row.chunks(head_dim).flat_map(|head| b.rotated(head, *position as usize)).collect::<Vec<_>>()
        }).collect();
        assert_close(&contents(&q), &queries, 1e-6);

        // With norms: as without, of what was normalised before.
        let norms = numbers(seed_of_norms(head_dim), 2 * head_dim);
        let normed: Vec<f32> = qkv.chunks(width).flat_map(|row| {
            row.chunks(head_dim).enumerate().flat_map(|(head, x)| {
                let weights = match head {
                    _ if head < heads => &norms[..head_dim],
                    _ if head < heads + kv_heads => &norms[head_dim..],
                    _ => return x.to_vec(),
                };
                let squares: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
                let scale = 1.0 / (squares / head_dim as f64 + 1e-5).sqrt();
                let normed = x.iter().zip(weights);
                normed.map(|(x, w)| (f64::from(*x) * scale * (f64::from(*w) + 1.0)) as f32).collect()
            }).collect::<Vec<_>>()
        }).collect();
        let made = |op: &str, x: &[f32], more: &[&HostBuffer]| {
            let (k, v, x) = (buffer(&old), buffer(&old), buffer(x));
            let q = zeros::<f32>(index.len() * heads * head_dim);
            let bound = [&[&x, &q, &index_buffer, &turns, &table, &k, &v][..], more].concat();
            run(op, params, &bound).unwrap();
            [q, k, v].map(|buffer| contents::<f32>(&buffer))
        };
        let expected = made("rope_kv_write.f32", &normed, &[]);
        let got = made("norm_rope_kv_write.f32", &qkv, &[&buffer(&norms)]);
        for (got, expected) in got.iter().zip(&expected) {
            let expected: Vec<f64> = expected.iter().map(|x| f64::from(*x)).collect();
            assert_close(got, &expected, 2e-6);
        }
    }
}
