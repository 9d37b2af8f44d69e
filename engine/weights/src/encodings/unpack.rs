//! How the planes' bits are packed, halves, and the formulas that most encodings end in.

use super::lanes::Simd;
use wisp_types::encoding::BLOCK;

/// 32 small integers, one a weight.
pub(super) type Quants = [u8; BLOCK];

/// `(q - offset) * scale`, with one scale for each half.
#[inline(always)]
pub(super) fn symmetric<S: Simd>(q: S::Bytes, offset: u8, scales: [f32; 2]) -> [S::Floats; 2] {
    // Not `array::map`, here and below, which takes vectors through memory.
    let q = S::i8_to_f32(S::sub_bytes(q, offset));
    let half = |half: usize| S::mul(q[half], S::splat(scales[half]));
    [half(0), half(1)]
}

/// `scale * table[q]` for 32 nibbles.
#[inline(always)]
pub(super) fn table<S: Simd>(table: &[f32; 16], q: &[u8; 16], scale: f32) -> [S::Floats; 2] {
    S::lookup(S::mul(S::load(table), S::splat(scale)), q)
}

/// `scale * q + minimum` for 32 nibbles. The product is exact: see [`affine`].
#[inline(always)]
pub(super) fn affine_nibbles<S: Simd>(q: &[u8; 16], scale: f32, minimum: f32) -> [S::Floats; 2] {
    let table = S::mul_add(S::splat(scale), S::load(&NIBBLES), S::splat(minimum));
    S::lookup(table, q)
}

/// What a nibble is worth by itself.
const NIBBLES: [f32; 16] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0,
];

/// `scale * q + minimum`, with one of both for each half.
///
/// The product is exact, so that it does not matter whether it is rounded: a scale has 11 bits of
/// a half and at most 6 of its own, an integer at most 5, and a float holds 24.
#[inline(always)]
pub(super) fn affine<S: Simd>(q: S::Bytes, scales: [f32; 2], minima: [f32; 2]) -> [S::Floats; 2] {
    let q = S::u8_to_f32(q);
    let half = |half: usize| S::mul_add(S::splat(scales[half]), q[half], S::splat(minima[half]));
    [half(0), half(1)]
}

/// The inverse of [`Simd::unpack_4bit`]; the low four bits of each integer count.
pub(super) fn pack_nibbles(q: &Quants, out: &mut [u8]) {
    for (j, out) in out.iter_mut().enumerate().take(16) {
        *out = (q[j] & 15) | (q[16 + j] << 4);
    }
}

/// The inverse of [`Simd::unpack_2bit`]; the low two bits of each integer count.
pub(super) fn pack_crumbs(q: &Quants, out: &mut [u8]) {
    for (j, out) in out.iter_mut().enumerate().take(8) {
        *out = (0..4).fold(0, |byte, s| byte | ((q[8 * s + j] & 3) << (2 * s)));
    }
}

/// The inverse of [`Simd::unpack_1bit`]; the lowest bit of each integer counts.
pub(super) fn pack_bits(q: &Quants, out: &mut [u8]) {
    for (k, out) in out.iter_mut().enumerate().take(4) {
        *out = (0..8).fold(0, |byte, g| byte | ((q[4 * g + k] & 1) << g));
    }
}

/// A half as `f32`, exactly; without branches and without the CPU's own conversion, so that loops
/// over it become vectors on every CPU.
#[inline(always)]
pub fn f16_to_f32(half: u16) -> f32 {
    const EXPONENT: u32 = 0x7c00 << 13;
    // Half the smallest normal number of the format; adding its exponent to a subnormal half's
    // bits and subtracting it as a float normalises the half.
    const MAGIC: u32 = 113 << 23;
    let magnitude = (u32::from(half) & 0x7fff) << 13;
    let sign = (u32::from(half) & 0x8000) << 16;
    let exponent = magnitude & EXPONENT;
    let normal = magnitude + (112 << 23);
    let infinite = magnitude + (224 << 23);
    let subnormal = (f32::from_bits(magnitude + MAGIC) - f32::from_bits(MAGIC)).to_bits();
    let finite = if exponent == 0 { subnormal } else { normal };
    let bits = if exponent == EXPONENT {
        infinite
    } else {
        finite
    };
    f32::from_bits(bits | sign)
}

/// The half at byte `at` of `bytes`.
#[inline(always)]
pub(super) fn half_at<S: Simd, const N: usize>(bytes: &[u8; N], at: usize) -> f32 {
    S::f16_to_f32(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_converted_exactly() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f16_to_f32(bits), half::f16::from_bits(bits).to_f32());
            if theirs.is_nan() {
                assert!(ours.is_nan(), "{bits:#x}");
            } else {
                assert_eq!(ours.to_bits(), theirs.to_bits(), "{bits:#x}");
            }
        }
    }

    /// Every instruction set that this machine has.
    fn unpacked(bytes: [&[u8]; 3]) -> Vec<[Quants; 3]> {
        fn all<S: Simd>(bytes: [&[u8]; 3]) -> [Quants; 3] {
            let stored = |bytes: S::Bytes| {
                let mut floats = [0.0; BLOCK];
                super::super::store::<S>(S::u8_to_f32(bytes), &mut floats);
                floats.map(|f| f as u8)
            };
            [
                stored(S::unpack_4bit(bytes[0].try_into().unwrap())),
                stored(S::unpack_2bit(bytes[1].try_into().unwrap())),
                stored(S::unpack_1bit(bytes[2].try_into().unwrap())),
            ]
        }
        let mut results = vec![all::<super::super::Portable>(bytes)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                results.push(all::<super::super::Avx2>(bytes));
            }
            if is_x86_feature_detected!("avx512bw") {
                results.push(all::<super::super::Avx512>(bytes));
            }
        }
        results
    }

    #[test]
    fn packing_is_the_inverse_of_unpacking() {
        let q: Quants = std::array::from_fn(|i| (i * 37 + 11) as u8);
        let (mut low, mut two, mut one) = ([0; 16], [0; 8], [0; 4]);
        pack_nibbles(&q, &mut low);
        pack_crumbs(&q, &mut two);
        pack_bits(&q, &mut one);
        for unpacked in unpacked([&low, &two, &one]) {
            assert_eq!(unpacked, [15, 3, 1].map(|mask| q.map(|q| q & mask)));
        }
        // As the layout says: bit 8k + g of the word is weight 4g + k.
        let word = u32::from_le_bytes(one);
        for (i, q) in q.iter().enumerate() {
            assert_eq!(word >> (8 * (i % 4) + i / 4) & 1, u32::from(q & 1));
        }
    }
}
