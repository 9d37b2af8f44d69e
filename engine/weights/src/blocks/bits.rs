//! Packing small integers into the bytes of planes.
//!
//! Unpacking has an operation for each number of bits, such as [`Simd::unpack_4bit`], which determines the
//! order of the integers.

use wisp_types::encoding::BLOCK;

#[cfg(doc)]
use super::simd::Simd;

/// Small integers, one for each weight of a packed block.
pub(super) type Integers = [u8; BLOCK];

/// Packs the low four bits of each integer into 16 bytes: the inverse of [`Simd::unpack_4bit`].
pub(super) fn pack_4bit(q: &Integers, out: &mut [u8]) {
    for (j, out) in out.iter_mut().enumerate().take(16) {
        *out = (q[j] & 15) | (q[16 + j] << 4);
    }
}

/// Packs the low two bits of each integer into 8 bytes: the inverse of [`Simd::unpack_2bit`].
pub(super) fn pack_2bit(q: &Integers, out: &mut [u8]) {
    for (j, out) in out.iter_mut().enumerate().take(8) {
        *out = (0..4).fold(0, |byte, s| byte | ((q[8 * s + j] & 3) << (2 * s)));
    }
}

/// Packs the lowest bit of each integer into 4 bytes: the inverse of [`Simd::unpack_1bit`].
pub(super) fn pack_1bit(q: &Integers, out: &mut [u8]) {
    for (k, out) in out.iter_mut().enumerate().take(4) {
        *out = (0..8).fold(0, |byte, g| byte | ((q[4 * g + k] & 1) << g));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{block_encoding::store_block, simd::Simd};

    /// Unpacks bytes on every instruction set that this machine has.
    fn unpacked(bytes: [&[u8]; 3]) -> Vec<[Integers; 4]> {
        fn all<S: Simd>(bytes: [&[u8]; 3]) -> [Integers; 4] {
            let stored = |bytes: S::Bytes| {
                let mut floats = [0.0; BLOCK];
                store_block::<S>(S::u8_to_f32(bytes), &mut floats);
                floats.map(|f| f as u8)
            };
            [
                stored(S::unpack_4bit(bytes[0].try_into().unwrap())),
                stored(S::unpack_2bit(bytes[1].try_into().unwrap())),
                stored(S::unpack_1bit(bytes[2].try_into().unwrap())),
                stored(S::unpack_6bit(
                    bytes[0].try_into().unwrap(),
                    bytes[1].try_into().unwrap(),
                )),
            ]
        }
        let mut results = vec![all::<crate::blocks::Portable>(bytes)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                results.push(all::<crate::blocks::Avx2>(bytes));
            }
            if is_x86_feature_detected!("avx512bw") {
                results.push(all::<crate::blocks::Avx512>(bytes));
            }
        }
        #[cfg(target_arch = "aarch64")]
        results.push(all::<crate::blocks::Neon>(bytes));
        results
    }

    #[test]
    fn integers_of_six_bits_have_their_low_and_high_bits() {
        fn check<S: Simd>() {
            let integers: [u32; 16] = std::array::from_fn(|i| (i as u32 * 37 + 11) % 64);
            let (mut low, mut top) = ([0; 2], 0);
            for (i, integer) in integers.iter().enumerate() {
                low[i % 2] |= (integer & 15) << (4 * (i / 2));
                top |= (integer >> 4) << (16 * (i % 2) + 2 * (i / 2));
            }
            let mut floats = [0.0; 16];
            S::store(S::six_bit_pairs(low, top), &mut floats);
            assert_eq!(floats, integers.map(|integer| integer as f32));
        }
        check::<crate::blocks::Portable>();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512bw") {
            check::<crate::blocks::Avx512>();
        }
    }

    #[test]
    fn packing_is_the_inverse_of_unpacking() {
        let q: Integers = std::array::from_fn(|i| (i * 37 + 11) as u8);
        let (mut low, mut two, mut one) = ([0; 16], [0; 8], [0; 4]);
        pack_4bit(&q, &mut low);
        pack_2bit(&q, &mut two);
        pack_1bit(&q, &mut one);
        for unpacked in unpacked([&low, &two, &one]) {
            let [four, two, one, six] = unpacked;
            assert_eq!([four, two, one], [15, 3, 1].map(|mask| q.map(|q| q & mask)));
            assert_eq!(six, q.map(|q| q & 15 | (q & 3) << 4));
        }
        // Bit 8k + g of the word belongs to weight 4g + k.
        let word = u32::from_le_bytes(one);
        for (i, q) in q.iter().enumerate() {
            assert_eq!(word >> (8 * (i % 4) + i / 4) & 1, u32::from(q & 1));
        }
    }
}
