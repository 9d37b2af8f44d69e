//! Heads of the KV cache, encoded and decoded as in the shaders' `caches/`.

use half::{f16, slice::HalfFloatSliceExt};
use wisp_shaders::CacheFormat;

use wisp_weights::blocks::{Simd, simd};

/// Elements of a block of q8_0.
const BLOCK: usize = 32;
/// The largest magnitude in q8_0, which is in the range of half precision.
const LARGEST: f32 = 127.0 * 512.0;

/// The words of a head's blocks in q8_0, behind which its scales are.
const fn block_words(head_dim: usize) -> usize {
    head_dim.div_ceil(16) * 4
}

/// The format and size of one head of the cache.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) format: CacheFormat,
    /// Elements of a head.
    pub(super) head_dim: usize,
    /// 32-bit words of an encoded head.
    pub(super) words: usize,
}

impl Heads {
    pub(super) fn new(format: CacheFormat, head_dim: u32) -> Heads {
        Heads {
            format,
            head_dim: head_dim as usize,
            words: format.head_words(head_dim) as usize,
        }
    }

    /// Encodes a head into the words `to`.
    pub(super) fn encode(&self, head: &[f32], to: &mut [u32]) {
        match self.format {
            CacheFormat::F32 => {
                let padded = head.iter().copied().chain(std::iter::repeat(0.0));
                to.iter_mut()
                    .zip(padded)
                    .for_each(|(to, x)| *to = x.to_bits());
            }
            CacheFormat::F16 => {
                let halves: &mut [f16] = bytemuck::cast_slice_mut(to);
                // What rounds the head up to 16 bytes is never read.
                let used = head.len().next_multiple_of(4);
                let halves = halves[..used].chunks_mut(16);
                for (to, head) in halves.zip(head.chunks(16)) {
                    let mut clamped = [0.0; 16];
                    for (to, x) in clamped.iter_mut().zip(head) {
                        *to = x.clamp(-65504.0, 65504.0);
                    }
                    to.convert_from_f32_slice(&clamped[..to.len()]);
                }
            }
            CacheFormat::Q8_0 => encode_blocks(head, to),
        }
    }
}

simd! {
    /// Encodes a head as blocks of q8_0.
    fn encode_blocks(head: &[f32], to: &mut [u32]) {
        to.fill(0);
        let (packed, scales) = to.split_at_mut(block_words(head.len()));
        let blocks = head.chunks(BLOCK).zip(packed.chunks_mut(BLOCK / 4));
        for (i, (block, words)) in blocks.enumerate() {
            let scale = encode_block(block, words);
            scales[i / 2] |= u32::from(scale.to_bits()) << (16 * (i % 2));
        }
    }
}

/// Encodes a block of q8_0 and returns its scale. The elements are divided by the exact scale; only
/// the stored scale is rounded.
#[inline(always)]
fn encode_block(block: &[f32], words: &mut [u32]) -> f16 {
    let max_abs = block.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let max_abs = max_abs.min(LARGEST);
    let inverse = if max_abs == 0.0 { 0.0 } else { 127.0 / max_abs };
    for (four, word) in block.chunks(4).zip(words) {
        let byte = |i: usize| {
            let x = four.get(i).copied().unwrap_or(0.0) * inverse;
            x.clamp(-127.0, 127.0).round_ties_even() as i8 as u8
        };
        *word = u32::from_le_bytes([0, 1, 2, 3].map(byte));
    }
    f16::from_f32(max_abs / 127.0)
}

simd! {
    /// Decodes the heads that begin at these words of a cache; `out` is `[starts, head_dim]`.
    pub(super) fn decode(heads: Heads, cache: &[u32], starts: &[usize], out: &mut [f32]) where S: Simd {
        decode_in::<S>(heads, cache, starts, out)
    }
}

#[inline(always)]
fn decode_in<S: Simd>(heads: Heads, cache: &[u32], starts: &[usize], out: &mut [f32]) {
    for (start, out) in starts.iter().zip(out.chunks_exact_mut(heads.head_dim)) {
        let words = &cache[*start..start + heads.words];
        match heads.format {
            CacheFormat::F32 => {
                for (out, word) in out.iter_mut().zip(words) {
                    *out = f32::from_bits(*word);
                }
            }
            CacheFormat::F16 => decode_halves::<S>(words, out),
            CacheFormat::Q8_0 => decode_blocks::<S>(words, out),
        }
    }
}

#[inline(always)]
fn decode_halves<S: Simd>(words: &[u32], out: &mut [f32]) {
    let (vectors, rest) = out.as_chunks_mut::<16>();
    let (groups, rest_words) = words.split_at(8 * vectors.len());
    for (words, out) in groups.as_chunks::<8>().0.iter().zip(vectors) {
        S::store(S::load_f16(bytemuck::cast_ref(words)), out);
    }
    for (i, out) in rest.iter_mut().enumerate() {
        *out = S::f16_to_f32((rest_words[i / 2] >> (16 * (i % 2))) as u16);
    }
}

#[inline(always)]
fn decode_blocks<S: Simd>(words: &[u32], out: &mut [f32]) {
    let (packed, scales) = words.split_at(block_words(out.len()));
    let bytes: &[u8] = bytemuck::cast_slice(packed);
    for (i, (out, bytes)) in out.chunks_mut(BLOCK).zip(bytes.chunks(BLOCK)).enumerate() {
        let scale = S::f16_to_f32((scales[i / 2] >> (16 * (i % 2))) as u16);
        if let (([a, b], []), Ok(bytes)) = (out.as_chunks_mut::<16>(), bytes.try_into()) {
            let scale = S::splat(scale);
            let [low, high] = S::i8_to_f32(S::load_bytes(bytes));
            S::store(S::mul(low, scale), a);
            S::store(S::mul(high, scale), b);
            continue;
        }
        for (out, byte) in out.iter_mut().zip(bytes) {
            *out = f32::from(*byte as i8) * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(format: CacheFormat, head: &[f32]) -> Vec<f32> {
        let heads = Heads::new(format, head.len() as u32);
        // A neighbour on each side must stay as it is.
        let mut words = vec![7u32; heads.words + 2];
        heads.encode(head, &mut words[1..=heads.words]);
        assert_eq!([words[0], words[heads.words + 1]], [7, 7]);
        let mut out = vec![f32::NAN; head.len()];
        decode(heads, &words, &[1], &mut out);
        out
    }

    proptest! {
        /// Half precision rounds to 11 bits and to multiples of 2^-24 near 0; q8_0 to half a step of
        /// the block's scale, which is itself rounded to 11 bits: `127 * 2^-11` steps at the most.
        #[test]
        fn what_is_stored_is_close(
            head in prop::collection::vec(-9.0f32..9.0, 1..=256),
            exponent in -6i32..6,
        ) {
            let head: Vec<f32> = head.iter().map(|x| x * 2.0f32.powi(exponent)).collect();
            prop_assert_eq!(&round_trip(CacheFormat::F32, &head), &head);
            for (x, got) in head.iter().zip(round_trip(CacheFormat::F16, &head)) {
                prop_assert!((x - got).abs() <= x.abs() / 2048.0 + 3e-8, "{} for {}", got, x);
            }
            let got = round_trip(CacheFormat::Q8_0, &head);
            for (head, got) in head.chunks(BLOCK).zip(got.chunks(BLOCK)) {
                let max_abs = head.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                let bound = max_abs / 127.0 * (0.501 + 127.0 / 2048.0) + 127.0 * 3e-8;
                for (x, got) in head.iter().zip(got) {
                    prop_assert!((x - got).abs() <= bound, "{} for {} of {}", got, x, max_abs);
                }
            }
        }
    }

    #[test]
    fn extremes_stay_finite() {
        let head = [f32::MAX, -1e30, 70000.0, 0.0, 1e-30];
        let halves = round_trip(CacheFormat::F16, &head);
        assert_eq!(halves, [65504.0, -65504.0, 65504.0, 0.0, 0.0]);
        let blocks = round_trip(CacheFormat::Q8_0, &head);
        assert_eq!(blocks, [LARGEST, -LARGEST, LARGEST, 0.0, 0.0]);
        assert_eq!(round_trip(CacheFormat::Q8_0, &[0.0; 33]), [0.0; 33]);
    }

    #[test]
    fn heads_take_whole_loads_of_16_bytes() {
        let words = |head_dim| CacheFormat::ALL.map(|format| format.head_words(head_dim));
        assert_eq!(words(128), [128, 64, 36]);
        assert_eq!(words(64), [64, 32, 20]);
        assert_eq!(words(7), [8, 4, 8]);
        assert_eq!(words(12), [12, 8, 8]);
        assert_eq!(words(80), [80, 40, 24]);
        assert_eq!(words(256), [256, 128, 68]);
        assert_eq!(words(288), [288, 144, 80]);
    }
}
