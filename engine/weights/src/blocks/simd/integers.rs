//! The operations that products of integers need of an instruction set.

use super::{f16::f16_to_f32, ops::Simd, portable::Portable};

/// Operations on vectors of 64 bytes, those of two blocks, and of 16 integers of 32 bits.
///
/// What [`Simd`] says of its implementations holds for these too.
pub trait IntegerSimd: 'static {
    /// The operations on floats of the same instruction set.
    type Floats: Simd;
    /// 64 bytes: 32 of one block, then 32 of the next.
    type Bytes: Copy;
    /// 16 integers of 32 bits.
    type Words: Copy;

    /// Loads 64 bytes.
    fn load_bytes(from: &[u8; 64]) -> Self::Bytes;
    /// Unpacks the 4-bit integers of two blocks, each as [`Simd::unpack_4bit`].
    fn unpack_4bit(from: &[u8; 32]) -> Self::Bytes;
    /// Unpacks the 2-bit integers of two blocks, each as [`Simd::unpack_2bit`].
    fn unpack_2bit(from: &[u8; 16]) -> Self::Bytes;
    /// Unpacks the bits of two blocks, each as [`Simd::unpack_1bit`].
    fn unpack_1bit(from: &[u8; 8]) -> Self::Bytes;
    /// Computes `low | high << SHIFT` for each byte. No bit may be shifted out of its byte.
    fn or_shifted<const SHIFT: i32>(low: Self::Bytes, high: Self::Bytes) -> Self::Bytes;
    /// Inverts the highest bit of each byte: adds 128 to signed bytes, which makes them unsigned.
    fn flip_signs(a: Self::Bytes) -> Self::Bytes;
    /// Returns `table[n]` for each byte `n`, which is less than 16.
    fn lookup(table: &[u8; 16], n: Self::Bytes) -> Self::Bytes;
    /// Returns 16 times the same four bytes.
    fn splat_bytes(a: [i8; 4]) -> Self::Bytes;
    /// Takes the integers of 16 rows as a matrix of words, four bytes each, and returns its transpose.
    fn transpose(rows: [Self::Bytes; 16]) -> [Self::Bytes; 16];
    /// Stores 64 bytes.
    fn store_bytes(a: Self::Bytes, to: &mut [u8; 64]);

    /// Adds to word `i` of `sum` the products of bytes `4i..4i + 4` of `q`, unsigned, and of `x`, from -127 to
    /// 127. If not `WIDE`, the bytes of `q` are at most 127.
    fn dot<const WIDE: bool>(sum: Self::Words, q: Self::Bytes, x: Self::Bytes) -> Self::Words;

    /// Returns 16 times the same integer.
    fn splat_words(a: i32) -> Self::Words;
    /// Returns 8 times one integer, then 8 times the other.
    fn words_of_two(a: u32, b: u32) -> Self::Words;
    /// Returns unsigned bytes as integers.
    fn widen(from: &[u8; 16]) -> Self::Words;
    /// Returns signed bytes as integers.
    fn widen_signed(from: &[u8; 16]) -> Self::Words;
    /// Shifts each integer right by its own number of bits.
    fn shift_right(a: Self::Words, by: &[u32; 16]) -> Self::Words;
    /// Computes `a & mask` for each integer.
    fn mask(a: Self::Words, mask: u32) -> Self::Words;
    /// Computes `low | high << SHIFT` for each integer.
    fn or_shifted_words<const SHIFT: u32>(low: Self::Words, high: Self::Words) -> Self::Words;
    /// Converts signed integers to floats.
    fn to_f32(a: Self::Words) -> <Self::Floats as Simd>::Floats;

    /// Splits 16 pairs of little-endian halves into the first and the second ones.
    fn load_f16_pairs(from: &[u8; 64]) -> [<Self::Floats as Simd>::Floats; 2];
    /// Returns the first `count` floats, and zeros in place of the others.
    fn keep_first(
        a: <Self::Floats as Simd>::Floats,
        count: usize,
    ) -> <Self::Floats as Simd>::Floats;
    /// Returns for each of the 16 words of the blocks of pair `pair` the factor of its block or, if `HALVES`,
    /// of its half of a block. `factors` holds those of 16 blocks, or of the halves of 8.
    fn spread<const HALVES: bool>(
        factors: <Self::Floats as Simd>::Floats,
        pair: usize,
    ) -> <Self::Floats as Simd>::Floats;
}

/// Words of which, from index `16 - count` on, the first `count` have all bits set.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_feature = "simd128"
))]
pub(super) static KEPT: [u32; 32] = {
    let mut kept = [0; 32];
    let mut i = 0;
    while i < 16 {
        kept[i] = u32::MAX;
        i += 1;
    }
    kept
};

/// The index of the factor for word `word` of a pair of blocks.
#[inline(always)]
pub(super) const fn factor_index(halves: bool, pair: usize, word: usize) -> usize {
    match halves {
        true => 4 * pair + word / 4,
        false => 2 * pair + word / 8,
    }
}

impl IntegerSimd for Portable {
    type Floats = Portable;
    type Bytes = [u8; 64];
    type Words = [i32; 16];

    #[inline(always)]
    fn load_bytes(from: &[u8; 64]) -> [u8; 64] {
        *from
    }
    #[inline(always)]
    fn unpack_4bit(from: &[u8; 32]) -> [u8; 64] {
        std::array::from_fn(|i| from[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4) & 15)
    }
    #[inline(always)]
    fn unpack_2bit(from: &[u8; 16]) -> [u8; 64] {
        std::array::from_fn(|i| from[i / 32 * 8 + i % 8] >> (i % 32 / 8 * 2) & 3)
    }
    #[inline(always)]
    fn unpack_1bit(from: &[u8; 8]) -> [u8; 64] {
        std::array::from_fn(|i| from[i / 32 * 4 + i % 4] >> (i % 32 / 4) & 1)
    }
    #[inline(always)]
    fn or_shifted<const SHIFT: i32>(low: [u8; 64], high: [u8; 64]) -> [u8; 64] {
        std::array::from_fn(|i| low[i] | high[i] << SHIFT)
    }
    #[inline(always)]
    fn flip_signs(a: [u8; 64]) -> [u8; 64] {
        a.map(|a| a ^ 0x80)
    }
    #[inline(always)]
    fn lookup(table: &[u8; 16], n: [u8; 64]) -> [u8; 64] {
        n.map(|n| table[usize::from(n & 15)])
    }
    #[inline(always)]
    fn splat_bytes(a: [i8; 4]) -> [u8; 64] {
        std::array::from_fn(|i| a[i % 4] as u8)
    }
    #[inline(always)]
    fn transpose(rows: [[u8; 64]; 16]) -> [[u8; 64]; 16] {
        std::array::from_fn(|i| std::array::from_fn(|j| rows[j / 4][4 * i + j % 4]))
    }
    #[inline(always)]
    fn store_bytes(a: [u8; 64], to: &mut [u8; 64]) {
        *to = a;
    }
    #[inline(always)]
    fn dot<const WIDE: bool>(mut sum: [i32; 16], q: [u8; 64], x: [u8; 64]) -> [i32; 16] {
        for (i, sum) in sum.iter_mut().enumerate() {
            for k in 4 * i..4 * i + 4 {
                *sum += i32::from(q[k]) * i32::from(x[k] as i8);
            }
        }
        sum
    }
    #[inline(always)]
    fn splat_words(a: i32) -> [i32; 16] {
        [a; 16]
    }
    #[inline(always)]
    fn words_of_two(a: u32, b: u32) -> [i32; 16] {
        std::array::from_fn(|i| if i < 8 { a } else { b } as i32)
    }
    #[inline(always)]
    fn widen(from: &[u8; 16]) -> [i32; 16] {
        from.map(i32::from)
    }
    #[inline(always)]
    fn widen_signed(from: &[u8; 16]) -> [i32; 16] {
        from.map(|byte| i32::from(byte as i8))
    }
    #[inline(always)]
    fn shift_right(a: [i32; 16], by: &[u32; 16]) -> [i32; 16] {
        std::array::from_fn(|i| (a[i] as u32 >> by[i]) as i32)
    }
    #[inline(always)]
    fn mask(a: [i32; 16], mask: u32) -> [i32; 16] {
        a.map(|a| a & mask as i32)
    }
    #[inline(always)]
    fn or_shifted_words<const SHIFT: u32>(low: [i32; 16], high: [i32; 16]) -> [i32; 16] {
        std::array::from_fn(|i| low[i] | high[i] << SHIFT)
    }
    #[inline(always)]
    fn to_f32(a: [i32; 16]) -> [f32; 16] {
        a.map(|a| a as f32)
    }
    #[inline(always)]
    fn load_f16_pairs(from: &[u8; 64]) -> [[f32; 16]; 2] {
        let (pairs, _) = from.as_chunks::<4>();
        let half = |at: usize| {
            std::array::from_fn(|i| {
                f16_to_f32(u16::from_le_bytes([pairs[i][at], pairs[i][at + 1]]))
            })
        };
        [half(0), half(2)]
    }
    #[inline(always)]
    fn keep_first(a: [f32; 16], count: usize) -> [f32; 16] {
        std::array::from_fn(|i| if i < count { a[i] } else { 0.0 })
    }
    #[inline(always)]
    fn spread<const HALVES: bool>(factors: [f32; 16], pair: usize) -> [f32; 16] {
        std::array::from_fn(|word| factors[factor_index(HALVES, pair, word)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every operation makes of some bytes, as words.
    fn outcomes<S: IntegerSimd>(bytes: &[u8; 64]) -> Vec<u32> {
        type F<S> = <<S as IntegerSimd>::Floats as Simd>::Floats;
        let mut all = Vec::new();
        let mut add = |a: S::Bytes| {
            let mut stored = [0; 64];
            S::store_bytes(a, &mut stored);
            all.extend(bytemuck::pod_collect_to_vec::<u8, u32>(&stored));
        };
        let first = |n: usize| &bytes[..n];
        let small = S::unpack_4bit(first(32).try_into().unwrap());
        let two = S::unpack_2bit(first(16).try_into().unwrap());
        let one = S::unpack_1bit(first(8).try_into().unwrap());
        let x = S::load_bytes(&bytes.map(|byte| (byte as i8).max(-127) as u8));
        let table: [u8; 16] = std::array::from_fn(|i| (i * 73 + 5) as u8);
        add(small);
        add(two);
        add(one);
        add(S::or_shifted::<4>(small, two));
        add(S::or_shifted::<4>(small, one));
        add(S::flip_signs(x));
        add(S::lookup(&table, small));
        add(S::splat_bytes([-127, 3, 127, -1]));
        let rows = std::array::from_fn(|i| {
            S::load_bytes(&std::array::from_fn(|j| {
                bytes[j].wrapping_mul(2 * i as u8 + 1)
            }))
        });
        S::transpose(rows).into_iter().for_each(&mut add);
        let mut add_words = |a: S::Words| {
            let mut stored = [0.0; 16];
            S::Floats::store(S::to_f32(a), &mut stored);
            all.extend(stored.map(f32::to_bits));
        };
        let largest = S::splat_bytes([127; 4]);
        let least = S::splat_bytes([-127; 4]);
        let sum = S::splat_words(-7);
        add_words(S::dot::<false>(sum, S::or_shifted::<4>(small, two), x));
        add_words(S::dot::<false>(sum, S::load_bytes(&[127; 64]), largest));
        add_words(S::dot::<false>(sum, S::load_bytes(&[127; 64]), least));
        add_words(S::dot::<true>(sum, S::load_bytes(bytes), x));
        add_words(S::dot::<true>(sum, S::load_bytes(&[255; 64]), least));
        let sixteen: &[u8; 16] = first(16).try_into().unwrap();
        let shifts: [u32; 16] = std::array::from_fn(|i| 2 * i as u32);
        let words = S::words_of_two(0x89ab_cdef, 0x0123_4567);
        add_words(words);
        add_words(S::widen(sixteen));
        add_words(S::widen_signed(sixteen));
        let shifted = S::mask(S::shift_right(words, &shifts), 3);
        add_words(S::or_shifted_words::<4>(S::mask(words, 15), shifted));
        let halves = bytes.map(|byte| byte & 0x3f);
        let mut add_floats = |a: F<S>| {
            let mut stored = [0.0; 16];
            S::Floats::store(a, &mut stored);
            all.extend(stored.map(f32::to_bits));
        };
        S::load_f16_pairs(&halves)
            .into_iter()
            .for_each(&mut add_floats);
        let factors = S::Floats::load(&std::array::from_fn(|i| i as f32));
        let special = S::Floats::splat(f32::NAN);
        (0..=16).for_each(|count| add_floats(S::keep_first(factors, count)));
        add_floats(S::keep_first(special, 0));
        (0..8).for_each(|pair| add_floats(S::spread::<false>(factors, pair)));
        (0..4).for_each(|pair| add_floats(S::spread::<true>(factors, pair)));
        all
    }

    #[test]
    fn all_instruction_sets_agree() {
        let bytes = std::array::from_fn(|i| (i * 37 + 11) as u8);
        let expected = outcomes::<Portable>(&bytes);
        #[cfg(target_arch = "x86_64")]
        {
            use crate::blocks::{Avx2, Avx512Vnni, AvxVnni};
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
                assert_eq!(outcomes::<Avx2>(&bytes), expected);
                if is_x86_feature_detected!("avxvnni") {
                    assert_eq!(outcomes::<AvxVnni>(&bytes), expected);
                }
                if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
                    assert_eq!(outcomes::<Avx512Vnni>(&bytes), expected);
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            use crate::blocks::{Neon, NeonDot, NeonI8mm};
            use std::arch::is_aarch64_feature_detected;
            assert_eq!(outcomes::<Neon>(&bytes), expected);
            if is_aarch64_feature_detected!("dotprod") {
                assert_eq!(outcomes::<NeonDot>(&bytes), expected);
            }
            if is_aarch64_feature_detected!("i8mm") {
                assert_eq!(outcomes::<NeonI8mm>(&bytes), expected);
            }
        }
    }
}
