//! The bit layouts of the planes: nibbles, crumbs, bits and halves.
//!
//! The readers are plain loops over arrays of a fixed length, so that LLVM makes vectors of them.

use crate::weights::encoding::BLOCK;

/// 32 small integers, one a weight.
pub(super) type Quants = [u8; BLOCK];

/// Byte `j`: weight `j` in the low nibble, weight `16 + j` in the high one.
#[inline(always)]
pub(super) fn nibbles(bytes: &[u8; 16]) -> Quants {
    let mut q = [0; BLOCK];
    for j in 0..16 {
        q[j] = bytes[j] & 15;
        q[16 + j] = bytes[j] >> 4;
    }
    q
}

/// Byte `j`: weight `8s + j` in bits `2s` and `2s + 1`.
#[inline(always)]
pub(super) fn crumbs(bytes: &[u8; 8]) -> Quants {
    let mut q = [0; BLOCK];
    for s in 0..4 {
        for j in 0..8 {
            q[8 * s + j] = (bytes[j] >> (2 * s)) & 3;
        }
    }
    q
}

/// Bit `g` of byte `k`: weight `4g + k`.
#[inline(always)]
pub(super) fn bits(bytes: &[u8; 4]) -> Quants {
    let mut q = [0; BLOCK];
    for g in 0..8 {
        for k in 0..4 {
            q[4 * g + k] = (bytes[k] >> g) & 1;
        }
    }
    q
}

/// The inverse of [`nibbles`]; the low four bits of each integer count.
pub(super) fn pack_nibbles(q: &Quants, out: &mut [u8]) {
    for (j, out) in out.iter_mut().enumerate().take(16) {
        *out = (q[j] & 15) | (q[16 + j] << 4);
    }
}

/// The inverse of [`crumbs`]; the low two bits of each integer count.
pub(super) fn pack_crumbs(q: &Quants, out: &mut [u8]) {
    for (j, out) in out.iter_mut().enumerate().take(8) {
        *out = (0..4).fold(0, |byte, s| byte | ((q[8 * s + j] & 3) << (2 * s)));
    }
}

/// The inverse of [`bits`]; the lowest bit of each integer counts.
pub(super) fn pack_bits(q: &Quants, out: &mut [u8]) {
    for (k, out) in out.iter_mut().enumerate().take(4) {
        *out = (0..8).fold(0, |byte, g| byte | ((q[4 * g + k] & 1) << g));
    }
}

/// A half as `f32`, exactly; without branches and without the CPU's own conversion, so that loops
/// over it become vectors on every CPU.
#[inline(always)]
pub(crate) fn f16_to_f32(half: u16) -> f32 {
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
pub(super) fn f16_at<const N: usize>(bytes: &[u8; N], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
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

    #[test]
    fn packing_is_the_inverse_of_unpacking() {
        let q: Quants = std::array::from_fn(|i| (i * 37 + 11) as u8);
        let mut bytes = [0; 16];
        pack_nibbles(&q, &mut bytes);
        assert_eq!(nibbles(&bytes), q.map(|q| q & 15));
        let mut bytes = [0; 8];
        pack_crumbs(&q, &mut bytes);
        assert_eq!(crumbs(&bytes), q.map(|q| q & 3));
        let mut bytes = [0; 4];
        pack_bits(&q, &mut bytes);
        assert_eq!(bits(&bytes), q.map(|q| q & 1));
        // As the layout says: bit 8k + g of the word is weight 4g + k.
        let word = u32::from_le_bytes(bytes);
        for i in 0..BLOCK {
            assert_eq!(word >> (8 * (i % 4) + i / 4) & 1, u32::from(q[i] & 1));
        }
    }
}
