//! Attention over a paged cache, writes to it, and rotary embeddings.

use proptest::prelude::*;
use wisp_shaders::{CacheFormat, params::*};

use super::zeros;
use crate::cache::{Heads, decode};
use crate::support::{assert_close, assert_sums_close, buffer, contents, numbers, run, sum};
use wisp_host::HostBuffer;

/// A seed for norm weights that is distinct from all other seeds of a test.
fn seed_of_norms(head_dim: usize) -> u32 {
    7000 + head_dim as u32
}

/// A batch over a paged cache, with random shapes.
#[derive(Clone, Debug)]
struct Batch {
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    /// Elements of a head that are a value.
    value_dim: usize,
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

    /// The index of element `(sequence, position, head, 0)` of a cache.
    fn row(&self, sequence: usize, position: usize, head: usize) -> usize {
        let page = self.table()[sequence * self.max_pages() + position / self.page_size] as usize;
        ((page * self.page_size + position % self.page_size) * self.kv_heads + head) * self.width()
    }

    fn cache_len(&self) -> usize {
        self.pages() * self.page_size * self.kv_heads * self.width()
    }

    /// The block table, `[sequences, max_pages]`: pages in reverse order, so that an identity mapping fails.
    fn table(&self) -> Vec<u32> {
        (0..self.pages() as u32).rev().collect()
    }

    fn index(&self) -> Vec<[u32; 2]> {
        let tokens = |(s, &(before, count)): (usize, &(usize, usize))| {
            (before..before + count).map(move |p| [s as u32, p as u32])
        };
        self.sequences.iter().enumerate().flat_map(tokens).collect()
    }

    /// Cosine and sine of each angle, `[positions, rotary / 2]`.
    fn rotations(&self) -> Vec<[f32; 2]> {
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
        let rotations = self.rotations();
        let mut out: Vec<f64> = head.iter().map(|x| f64::from(*x)).collect();
        for i in 0..half {
            let (a, b) = if self.interleaved {
                (2 * i, 2 * i + 1)
            } else {
                (i, i + half)
            };
            let [cos, sin] = rotations[position * half + i].map(f64::from);
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
        (0usize..70, any::<bool>(), 0u32..1000, 0usize..100),
    )
        .prop_map(
            |((kv_heads, group, head_dim, page_size), sequences, rest)| Batch {
                kv_heads,
                group,
                head_dim,
                value_dim: head_dim.saturating_sub(rest.3).max(1),
                page_size,
                sequences,
                rotary: rest.0.min(head_dim) / 2 * 2,
                interleaved: rest.1,
                seed: rest.2,
            },
        )
}

/// The words of a cache in a format, and its heads after a round trip through that format.
fn stored(b: &Batch, format: CacheFormat, padded: &[f32]) -> (Vec<u32>, Vec<f32>) {
    let heads = Heads::new(format, b.head_dim as u32);
    let mut words = vec![0; padded.len() / b.width() * heads.words];
    let mut decoded = padded.to_vec();
    let each = decoded.chunks_exact_mut(b.width());
    for (head, words) in each.zip(words.chunks_exact_mut(heads.words)) {
        heads.encode(&head[..b.head_dim], words);
        decode(heads, words, &[0], &mut head[..b.head_dim]);
    }
    (words, decoded)
}

/// What an attention may have.
#[derive(Clone, Copy, Debug)]
struct Options {
    window: u32,
    chunked: bool,
    softcap: f32,
    bidirectional: bool,
    sinks: bool,
    /// Whether keys and values are in one buffer.
    one_cache: bool,
}

fn check_attention(b: &Batch, format: CacheFormat, options: Options) {
    let Options {
        window,
        chunked,
        softcap,
        bidirectional,
        sinks: has_sinks,
        one_cache,
    } = options;
    let index = b.index();
    let (heads, head_dim, value_dim) = (b.heads(), b.head_dim, b.value_dim);
    let q = numbers(b.seed, index.len() * heads * head_dim);
    let [(k_words, k), (v_words, v)] = [1, if one_cache { 1 } else { 2 }]
        .map(|i| stored(b, format, &numbers(b.seed + i, b.cache_len())));
    let params = AttentionParams {
        tokens: index.len() as u32,
        heads: heads as u32,
        kv_heads: b.kv_heads as u32,
        head_dim: head_dim as u32,
        value_dim: value_dim as u32,
        page_size: b.page_size as u32,
        max_pages: b.max_pages() as u32,
        window,
        chunked: chunked.into(),
        scale: 0.7,
        softcap,
        has_sinks: has_sinks.into(),
    };
    let sinks = numbers(b.seed + 3, heads);
    let out = zeros::<f32>(index.len() * heads * value_dim);
    let ends = b.sequences.iter().map(|(before, count)| before + count);
    let lengths: Vec<usize> = ends.collect();
    let words: Vec<u32> = lengths.iter().map(|length| *length as u32).collect();
    let [k_cache, v_cache] = [buffer(&k_words), buffer(&v_words)];
    let bound = [
        &buffer(&q),
        &k_cache,
        if one_cache { &k_cache } else { &v_cache },
        &buffer(&index),
        &buffer(&b.table()),
        &out,
        &buffer(&sinks),
        &buffer(&words),
    ];
    match bidirectional {
        true => run(&format.op("full_attention"), params, &bound).unwrap(),
        false => run(&format.op("attention"), params, &bound[..7]).unwrap(),
    }
    let mut expected = Vec::new();
    for (t, [sequence, position]) in index.iter().map(|i| i.map(|i| i as usize)).enumerate() {
        for head in 0..heads {
            let q = &q[(t * heads + head) * head_dim..][..head_dim];
            let first = match (window as usize, chunked) {
                (0, _) => 0,
                (chunk, true) => position / chunk * chunk,
                (window, false) => (position + 1).saturating_sub(window),
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
            let mut total: f64 = weights.iter().sum();
            if has_sinks {
                total += f64::from(sinks[head]).exp();
            }
            weights.iter_mut().for_each(|w| *w /= total);
            for d in 0..value_dim {
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
    fn attention_matches_f64_arithmetic_in_every_cache_format(
        b in batches(),
        window in 0u32..50,
        softcap in 0u32..2,
        bidirectional in any::<bool>(),
        sinks in any::<bool>(),
        chunked in any::<bool>(),
        one_cache in any::<bool>(),
    ) {
        let window = window.saturating_sub(10);
        let options = Options {
            window,
            chunked: chunked && window > 0,
            softcap: softcap as f32 * 5.0,
            bidirectional,
            sinks,
            one_cache,
        };
        for format in CacheFormat::ALL {
            check_attention(&b, format, options);
        }
    }

    #[test]
    fn rope_matches_f64_arithmetic_and_leaves_padding_alone(b in batches(), pad in [0usize..5, 0usize..5]) {
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
        let table = [b.rotations(), vec![[0.0; 2]]].concat();
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
    fn kv_write_copies_keys_and_values_to_their_pages(b in batches()) {
        let case = CacheWrite::new(&b);
        let [k, v] = case.run_kv_write();
        assert_close(&k, &case.expected_cache(0, false), 0.0);
        assert_close(&v, &case.expected_cache(1, false), 0.0);
        assert_close(&case.run_key_write(), &case.expected_cache(0, false), 0.0);
    }

    #[test]
    fn rope_kv_write_rotates_queries_and_keys(b in batches()) {
        let case = CacheWrite::new(&b);
        let [q, k, v] = case.run_rope_kv_write("rope_kv_write.f32", &case.qkv, None);
        assert_close(&k, &case.expected_cache(0, true), 1e-6);
        assert_close(&v, &case.expected_cache(1, false), 0.0);
        assert_close(&q, &case.expected_queries(), 1e-6);
    }

    #[test]
    fn norm_rope_kv_write_equals_rope_kv_write_of_normalised_heads(b in batches()) {
        let case = CacheWrite::new(&b);
        let norms = numbers(seed_of_norms(b.head_dim), 2 * b.head_dim);
        let expected = case.run_rope_kv_write("rope_kv_write.f32", &case.normalised(&norms), None);
        let got = case.run_rope_kv_write("norm_rope_kv_write.f32", &case.qkv, Some(&norms));
        for (got, expected) in got.iter().zip(&expected) {
            let expected: Vec<f64> = expected.iter().map(|x| f64::from(*x)).collect();
            assert_close(got, &expected, 2e-6);
        }
    }
}

/// A fused projection of a batch, whose keys and values are written to a cache.
struct CacheWrite<'a> {
    b: &'a Batch,
    /// `[tokens, heads + 2 * kv_heads, head_dim]`: queries, keys and values.
    qkv: Vec<f32>,
    /// What the caches hold before.
    old: Vec<f32>,
}

impl<'a> CacheWrite<'a> {
    const EPS: f32 = 1e-5;
    const WEIGHT_OFFSET: f32 = 1.0;

    fn new(b: &'a Batch) -> CacheWrite<'a> {
        let width = (b.heads() + 2 * b.kv_heads) * b.head_dim;
        CacheWrite {
            b,
            qkv: numbers(b.seed, b.index().len() * width),
            old: numbers(b.seed + 1, b.cache_len()),
        }
    }

    /// Elements of a token's row of `qkv`.
    fn width(&self) -> usize {
        (self.b.heads() + 2 * self.b.kv_heads) * self.b.head_dim
    }

    /// The caches of keys and values after `kv_write`. Both come from one buffer, as after a fused
    /// projection.
    fn run_kv_write(&self) -> [Vec<f32>; 2] {
        let (x, index, table) = self.operands();
        let (k, v) = (buffer(&self.old), buffer(&self.old));
        let bound = [&x, &x, &index, &table, &k, &v];
        run("kv_write.f32", self.params(), &bound).unwrap();
        [k, v].map(|buffer| contents(&buffer))
    }

    /// The cache of keys after `key_write`.
    fn run_key_write(&self) -> Vec<f32> {
        let (x, index, table) = self.operands();
        let k = buffer(&self.old);
        run("key_write.f32", self.params(), &[&x, &index, &table, &k]).unwrap();
        contents(&k)
    }

    /// The projection, the index and the page table.
    fn operands(&self) -> (HostBuffer, HostBuffer, HostBuffer) {
        let b = self.b;
        (buffer(&self.qkv), buffer(&b.index()), buffer(&b.table()))
    }

    fn params(&self) -> KvWriteParams {
        let (b, width) = (self.b, self.width());
        KvWriteParams {
            tokens: b.index().len() as u32,
            kv_heads: b.kv_heads as u32,
            head_dim: b.head_dim as u32,
            k_stride: width as u32,
            k_offset: (b.heads() * b.head_dim) as u32,
            v_stride: width as u32,
            v_offset: ((b.heads() + b.kv_heads) * b.head_dim) as u32,
            page_size: b.page_size as u32,
            max_pages: b.max_pages() as u32,
        }
    }

    /// Queries, and the caches of keys and values, after `op`.
    fn run_rope_kv_write(&self, op: &str, qkv: &[f32], norms: Option<&[f32]>) -> [Vec<f32>; 3] {
        let b = self.b;
        let params = RopeKvWriteParams {
            tokens: b.index().len() as u32,
            heads: b.heads() as u32,
            kv_heads: b.kv_heads as u32,
            head_dim: b.head_dim as u32,
            rotary_dim: b.rotary as u32,
            interleaved: b.interleaved.into(),
            page_size: b.page_size as u32,
            max_pages: b.max_pages() as u32,
            eps: Self::EPS,
            weight_offset: Self::WEIGHT_OFFSET,
        };
        let (x, index, table) = (buffer(qkv), buffer(&b.index()), buffer(&b.table()));
        let q = zeros::<f32>(b.index().len() * b.heads() * b.head_dim);
        let (k, v) = (buffer(&self.old), buffer(&self.old));
        let rotations = buffer(&[b.rotations(), vec![[0.0; 2]]].concat());
        let norms = norms.map(buffer);
        let mut bound = vec![&x, &q, &index, &rotations, &table, &k, &v];
        bound.extend(&norms);
        run(op, params, &bound).unwrap();
        [q, k, v].map(|buffer| contents(&buffer))
    }

    /// The cache of keys (`which` 0) or values (1) after the write.
    fn expected_cache(&self, which: usize, rotate: bool) -> Vec<f64> {
        let b = self.b;
        let mut cache: Vec<f64> = self.old.iter().map(|x| f64::from(*x)).collect();
        for (t, [sequence, position]) in b.index().iter().enumerate() {
            let (sequence, position) = (*sequence as usize, *position as usize);
            for head in 0..b.kv_heads {
                let column = (b.heads() + which * b.kv_heads + head) * b.head_dim;
                let from = &self.qkv[t * self.width() + column..][..b.head_dim];
                let values = match rotate {
                    true => b.rotated(from, position),
                    false => from.iter().map(|x| f64::from(*x)).collect(),
                };
                let row = b.row(sequence, position, head);
                cache[row..row + b.width()].fill(0.0);
                cache[row..row + b.head_dim].copy_from_slice(&values);
            }
        }
        cache
    }

    /// All queries, rotated to their positions.
    fn expected_queries(&self) -> Vec<f64> {
        let b = self.b;
        let mut queries = Vec::new();
        for (t, [_, position]) in b.index().iter().enumerate() {
            let row = &self.qkv[t * self.width()..][..b.heads() * b.head_dim];
            for head in row.chunks(b.head_dim) {
                queries.extend(b.rotated(head, *position as usize));
            }
        }
        queries
    }

    /// `qkv` after the RMS norms of queries and keys. `norms` has the weights of both.
    fn normalised(&self, norms: &[f32]) -> Vec<f32> {
        let b = self.b;
        let mut normalised = Vec::new();
        for row in self.qkv.chunks(self.width()) {
            for (head, x) in row.chunks(b.head_dim).enumerate() {
                let weights = match head {
                    _ if head < b.heads() => &norms[..b.head_dim],
                    _ if head < b.heads() + b.kv_heads => &norms[b.head_dim..],
                    _ => {
                        normalised.extend(x);
                        continue;
                    }
                };
                let squares: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
                let scale = 1.0 / (squares / b.head_dim as f64 + 1e-5).sqrt();
                let scaled = x.iter().zip(weights);
                normalised.extend(
                    scaled.map(|(x, w)| (f64::from(*x) * scale * (f64::from(*w) + 1.0)) as f32),
                );
            }
        }
        normalised
    }
}

/// A chunk whose weights are NaN is not taken for an empty one.
#[test]
fn nan_reaches_the_result_of_chunks() {
    let positions = 512;
    let params = AttentionParams {
        tokens: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        value_dim: 4,
        page_size: 16,
        max_pages: positions / 16,
        scale: 0.5,
        ..Default::default()
    };
    let mut keys = vec![0f32; 4 * positions as usize];
    keys[4 * 200] = f32::NAN;
    let (keys, values) = (buffer(&keys), zeros::<f32>(4 * positions as usize));
    let (q, index) = (buffer(&[1f32; 4]), buffer(&[[0u32, 300]]));
    let table = buffer(&(0..positions / 16).collect::<Vec<u32>>());
    // Four chunks: in each a value, and the largest score and the sum of weights.
    let (parts, out, sinks) = (zeros::<f32>(4 * 8), zeros::<f32>(4), zeros::<f32>(1));
    let buffers = [&q, &keys, &values, &index, &table, &out, &sinks, &parts];
    run("attention_split.f32", params, &buffers).unwrap();
    run("attention_combine", params, &[&parts, &out, &sinks]).unwrap();
    let out = contents::<f32>(&out);
    assert!(out.iter().all(|x| x.is_nan()), "{out:?}");
}
