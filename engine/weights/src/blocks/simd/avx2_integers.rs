//! Products of integers on AVX2, with and without AVX-VNNI. Every intrinsic needs no more than its set.

use std::arch::x86_64::*;

use super::{
    integers::{IntegerSimd, KEPT, factor_index},
    ops::Simd,
    transpose::transpose_halves,
    x86::Avx2,
};

/// AVX2 with AVX-VNNI, the products of four bytes.
pub struct AvxVnni;

/// The operations of the sets with vectors of 32 bytes, one for each block of a pair. `$dot` adds the products
/// of bytes in one vector.
macro_rules! pairs_of_vectors {
    ($dot:ident) => {
        type Floats = Avx2;
        type Bytes = [__m256i; 2];
        type Words = [__m256i; 2];

        #[inline(always)]
        fn load_bytes(from: &[u8; 64]) -> [__m256i; 2] {
            let (halves, _) = from.as_chunks();
            [
                <Avx2 as Simd>::load_bytes(&halves[0]),
                <Avx2 as Simd>::load_bytes(&halves[1]),
            ]
        }
        #[inline(always)]
        fn unpack_4bit(from: &[u8; 32]) -> [__m256i; 2] {
            let (halves, _) = from.as_chunks();
            [
                <Avx2 as Simd>::unpack_4bit(&halves[0]),
                <Avx2 as Simd>::unpack_4bit(&halves[1]),
            ]
        }
        #[inline(always)]
        fn unpack_2bit(from: &[u8; 16]) -> [__m256i; 2] {
            let (halves, _) = from.as_chunks();
            [
                <Avx2 as Simd>::unpack_2bit(&halves[0]),
                <Avx2 as Simd>::unpack_2bit(&halves[1]),
            ]
        }
        #[inline(always)]
        fn unpack_1bit(from: &[u8; 8]) -> [__m256i; 2] {
            let (halves, _) = from.as_chunks();
            [
                <Avx2 as Simd>::unpack_1bit(&halves[0]),
                <Avx2 as Simd>::unpack_1bit(&halves[1]),
            ]
        }
        #[inline(always)]
        fn or_shifted<const SHIFT: i32>(low: [__m256i; 2], high: [__m256i; 2]) -> [__m256i; 2] {
            [
                <Avx2 as Simd>::or_shifted::<SHIFT>(low[0], high[0]),
                <Avx2 as Simd>::or_shifted::<SHIFT>(low[1], high[1]),
            ]
        }
        #[inline(always)]
        fn flip_signs(a: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe {
                let signs = _mm256_set1_epi8(-128);
                [_mm256_xor_si256(a[0], signs), _mm256_xor_si256(a[1], signs)]
            }
        }
        #[inline(always)]
        fn lookup(table: &[u8; 16], n: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
            unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
                [
                    _mm256_shuffle_epi8(table, n[0]),
                    _mm256_shuffle_epi8(table, n[1]),
                ]
            }
        }
        #[inline(always)]
        fn splat_bytes(a: [i8; 4]) -> [__m256i; 2] {
            Self::splat_words(i32::from_le_bytes(a.map(|a| a as u8)))
        }
        #[inline(always)]
        fn transpose(rows: [[__m256i; 2]; 16]) -> [[__m256i; 2]; 16] {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe { transpose_halves(rows) }
        }
        #[inline(always)]
        fn store_bytes(a: [__m256i; 2], to: &mut [u8; 64]) {
            // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are writable.
            unsafe {
                let to: *mut __m256i = to.as_mut_ptr().cast();
                _mm256_storeu_si256(to, a[0]);
                _mm256_storeu_si256(to.add(1), a[1]);
            }
        }
        #[inline(always)]
        fn dot<const WIDE: bool>(
            sum: [__m256i; 2],
            q: [__m256i; 2],
            x: [__m256i; 2],
        ) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe {
                [
                    $dot::<WIDE>(sum[0], q[0], x[0]),
                    $dot::<WIDE>(sum[1], q[1], x[1]),
                ]
            }
        }
        #[inline(always)]
        fn splat_words(a: i32) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe { [_mm256_set1_epi32(a); 2] }
        }
        #[inline(always)]
        fn words_of_two(a: u32, b: u32) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe { [_mm256_set1_epi32(a as i32), _mm256_set1_epi32(b as i32)] }
        }
        #[inline(always)]
        fn widen(from: &[u8; 16]) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
            unsafe {
                let bytes = _mm_loadu_si128(from.as_ptr().cast());
                [
                    _mm256_cvtepu8_epi32(bytes),
                    _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes)),
                ]
            }
        }
        #[inline(always)]
        fn widen_signed(from: &[u8; 16]) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
            unsafe {
                let bytes = _mm_loadu_si128(from.as_ptr().cast());
                [
                    _mm256_cvtepi8_epi32(bytes),
                    _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes)),
                ]
            }
        }
        #[inline(always)]
        fn shift_right(a: [__m256i; 2], by: &[u32; 16]) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are readable.
            unsafe {
                let by: *const __m256i = by.as_ptr().cast();
                [
                    _mm256_srlv_epi32(a[0], _mm256_loadu_si256(by)),
                    _mm256_srlv_epi32(a[1], _mm256_loadu_si256(by.add(1))),
                ]
            }
        }
        #[inline(always)]
        fn mask(a: [__m256i; 2], mask: u32) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe {
                let mask = _mm256_set1_epi32(mask as i32);
                [_mm256_and_si256(a[0], mask), _mm256_and_si256(a[1], mask)]
            }
        }
        #[inline(always)]
        fn or_shifted_words<const SHIFT: u32>(
            low: [__m256i; 2],
            high: [__m256i; 2],
        ) -> [__m256i; 2] {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe {
                let by = _mm_cvtsi32_si128(SHIFT as i32);
                [
                    _mm256_or_si256(low[0], _mm256_sll_epi32(high[0], by)),
                    _mm256_or_si256(low[1], _mm256_sll_epi32(high[1], by)),
                ]
            }
        }
        #[inline(always)]
        fn to_f32(a: [__m256i; 2]) -> [__m256; 2] {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe { [_mm256_cvtepi32_ps(a[0]), _mm256_cvtepi32_ps(a[1])] }
        }
        #[inline(always)]
        fn load_f16_pairs(from: &[u8; 64]) -> [[__m256; 2]; 2] {
            // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are readable.
            unsafe {
                let low = split_f16_pairs(_mm256_loadu_si256(from.as_ptr().cast()));
                let high = split_f16_pairs(_mm256_loadu_si256(from.as_ptr().add(32).cast()));
                [[low[0], high[0]], [low[1], high[1]]]
            }
        }
        #[inline(always)]
        fn keep_first(a: [__m256; 2], count: usize) -> [__m256; 2] {
            let kept = &KEPT[16 - count.min(16)..];
            let (halves, _) = kept.as_chunks::<8>();
            // SAFETY: the CPU has the instruction set (see the trait), and 32 bytes are readable twice.
            unsafe {
                let mask = |half: &[u32; 8]| _mm256_loadu_ps(half.as_ptr().cast());
                [
                    _mm256_and_ps(a[0], mask(&halves[0])),
                    _mm256_and_ps(a[1], mask(&halves[1])),
                ]
            }
        }
        #[inline(always)]
        fn spread<const HALVES: bool>(factors: [__m256; 2], pair: usize) -> [__m256; 2] {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe {
                [
                    spread_block::<HALVES>(factors, pair, 0),
                    spread_block::<HALVES>(factors, pair, 1),
                ]
            }
        }
    };
}

/// Converts the first halves of eight pairs, and the second ones.
///
/// # Safety
/// The CPU must have AVX2 and F16C.
#[inline(always)]
unsafe fn split_f16_pairs(pairs: __m256i) -> [__m256; 2] {
    // SAFETY: the caller guarantees the instruction sets.
    unsafe {
        let order = _mm256_set_epi8(
            15, 14, 11, 10, 7, 6, 3, 2, 13, 12, 9, 8, 5, 4, 1, 0, 15, 14, 11, 10, 7, 6, 3, 2, 13,
            12, 9, 8, 5, 4, 1, 0,
        );
        let split = _mm256_shuffle_epi8(pairs, order);
        let split = _mm256_permute4x64_epi64::<0b11_01_10_00>(split);
        [
            _mm256_cvtph_ps(_mm256_castsi256_si128(split)),
            _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(split)),
        ]
    }
}

/// Returns the factors of the words of one block of a pair.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn spread_block<const HALVES: bool>(
    factors: [__m256; 2],
    pair: usize,
    block: usize,
) -> __m256 {
    let first = factor_index(HALVES, pair, 8 * block);
    let second = factor_index(HALVES, pair, 8 * block + 4);
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let (low, high) = (_mm_set1_epi32(first as i32), _mm_set1_epi32(second as i32));
        // The instruction uses only the low three bits of an index.
        _mm256_permutevar8x32_ps(factors[first / 8], _mm256_set_m128i(high, low))
    }
}

/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn dot_avx2<const WIDE: bool>(sum: __m256i, q: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        // `maddubs` adds two products in 16 bits, saturating: those of bytes up to 127 fit. The highest bits of
        // wide ones are multiplied separately.
        let low = match WIDE {
            true => _mm256_and_si256(q, _mm256_set1_epi8(127)),
            false => q,
        };
        let pairs = _mm256_maddubs_epi16(low, x);
        let sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        if !WIDE {
            return sum;
        }
        let bits = _mm256_and_si256(_mm256_srli_epi16::<7>(q), _mm256_set1_epi8(1));
        let pairs = _mm256_maddubs_epi16(bits, x);
        _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(128)))
    }
}

/// # Safety
/// The CPU must have AVX-VNNI.
#[inline(always)]
unsafe fn dot_avx_vnni<const WIDE: bool>(sum: __m256i, q: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the caller guarantees AVX-VNNI.
    unsafe { _mm256_dpbusd_avx_epi32(sum, q, x) }
}

impl IntegerSimd for Avx2 {
    pairs_of_vectors!(dot_avx2);
}

impl IntegerSimd for AvxVnni {
    pairs_of_vectors!(dot_avx_vnni);
}
