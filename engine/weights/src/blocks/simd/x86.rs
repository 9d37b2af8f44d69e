//! Operations on the instruction sets of x86-64. Every intrinsic needs no more than its set.

use std::arch::x86_64::*;

use super::{
    ops::Simd,
    transpose::{transpose_16, transpose_halves},
};

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// AVX2, FMA and F16C: 16 floats are two vectors.
pub struct Avx2;

/// AVX-512 F, BW, DQ and VL: 16 floats are one vector.
pub struct Avx512;

/// The operations that are the same for both sets.
macro_rules! common {
    () => {
        type Bytes = __m256i;

        #[inline(always)]
        fn load_bytes(from: &[u8; 32]) -> __m256i {
            // SAFETY: the CPU has the instruction set (see the trait), and 32 bytes are readable.
            unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
        }
        #[inline(always)]
        fn unpack_4bit(from: &[u8; 16]) -> __m256i {
            // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
            unsafe {
                let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(from.as_ptr().cast()));
                let shifted = _mm256_srlv_epi64(twice, _mm256_set_epi64x(4, 4, 0, 0));
                _mm256_and_si256(shifted, _mm256_set1_epi8(15))
            }
        }
        #[inline(always)]
        fn unpack_2bit(from: &[u8; 8]) -> __m256i {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe {
                let four = _mm256_set1_epi64x(i64::from_le_bytes(*from));
                let shifted = _mm256_srlv_epi64(four, _mm256_set_epi64x(6, 4, 2, 0));
                _mm256_and_si256(shifted, _mm256_set1_epi8(3))
            }
        }
        #[inline(always)]
        fn unpack_1bit(from: &[u8; 4]) -> __m256i {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe {
                let eight = _mm256_set1_epi32(i32::from_le_bytes(*from));
                let shifts = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
                _mm256_and_si256(_mm256_srlv_epi32(eight, shifts), _mm256_set1_epi8(1))
            }
        }
        #[inline(always)]
        fn or_shifted<const SHIFT: i32>(low: __m256i, high: __m256i) -> __m256i {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe { _mm256_or_si256(low, _mm256_slli_epi16::<SHIFT>(high)) }
        }
        #[inline(always)]
        fn sub_bytes(a: __m256i, b: u8) -> __m256i {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe { _mm256_sub_epi8(a, _mm256_set1_epi8(b as i8)) }
        }
        #[inline(always)]
        fn prefetch_ahead(bytes: &[u8], distance: usize) {
            for line in bytes.chunks(CACHE_LINE) {
                let line = line.as_ptr().wrapping_add(distance);
                // SAFETY: the CPU has the instruction set (see the trait), which takes any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
            }
        }
        #[inline(always)]
        fn f16_to_f32(bits: u16) -> f32 {
            // SAFETY: the CPU has the instruction set (see the trait).
            unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
        }
    };
}

/// Splits 32 bytes into halves.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn halves(a: __m256i) -> [__m128i; 2] {
    // SAFETY: the caller guarantees AVX2.
    unsafe { [_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)] }
}

/// Adds eight floats, by halves.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn reduce_add(a: __m256) -> f32 {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

/// Looks up eight floats by the low four bits of `index`.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn look_up(table: [__m256; 2], index: __m256i) -> __m256 {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        // Three bits select an entry of a half of the table, the fourth selects the half.
        let low = _mm256_permutevar8x32_ps(table[0], index);
        let high = _mm256_permutevar8x32_ps(table[1], index);
        _mm256_blendv_ps(
            low,
            high,
            _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index)),
        )
    }
}

impl Simd for Avx512 {
    common!();
    type Floats = __m512;

    const REGISTERS: usize = 1;
    const FAST_LOOKUP: bool = true;

    #[inline(always)]
    fn lookup(table: __m512, nibbles: &[u8; 16]) -> [__m512; 2] {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
        unsafe {
            // The instruction uses only the low four bits of an index.
            let index = _mm512_cvtepu8_epi32(_mm_loadu_si128(nibbles.as_ptr().cast()));
            [
                _mm512_permutexvar_ps(index, table),
                _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(index), table),
            ]
        }
    }
    #[inline(always)]
    fn unpack_6bit(low: &[u8; 16], high: &[u8; 8]) -> __m256i {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
        unsafe {
            let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(low.as_ptr().cast()));
            let low = _mm256_srlv_epi64(twice, _mm256_set_epi64x(4, 4, 0, 0));
            // To bits 4 and 5.
            let four = _mm256_set1_epi64x(i64::from_le_bytes(*high));
            let high = _mm256_rolv_epi64(four, _mm256_set_epi64x(62, 0, 2, 4));
            // The bits of `low` where the third operand has ones, and of `high` elsewhere.
            let both = _mm256_ternarylogic_epi64::<0xe4>(low, high, _mm256_set1_epi8(15));
            _mm256_and_si256(both, _mm256_set1_epi8(63))
        }
    }
    #[inline(always)]
    fn six_bit_pairs([a, b]: [u32; 2], top: u32) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let low = _mm512_set1_epi64((u64::from(b) << 32 | u64::from(a)) as i64);
            let shifts = _mm512_set_epi32(28, 28, 24, 24, 20, 20, 16, 16, 12, 12, 8, 8, 4, 4, 0, 0);
            let low = _mm512_srlv_epi32(low, shifts);
            // To bits 4 and 5, from those of pair 0 and on.
            let turns = _mm512_set_epi32(26, 10, 24, 8, 22, 6, 20, 4, 18, 2, 16, 0, 14, 30, 12, 28);
            let top = _mm512_rorv_epi32(_mm512_set1_epi32(top as i32), turns);
            // The bits of `low` where the third operand has ones, and of `top` elsewhere.
            let both = _mm512_ternarylogic_epi32::<0xe4>(low, top, _mm512_set1_epi32(15));
            _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(63)))
        }
    }
    #[inline(always)]
    fn u8_to_f32(a: __m256i) -> [__m512; 2] {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let [low, high] = halves(a);
            [
                _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(low)),
                _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(high)),
            ]
        }
    }
    #[inline(always)]
    fn i8_to_f32(a: __m256i) -> [__m512; 2] {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let [low, high] = halves(a);
            [
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(low)),
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(high)),
            ]
        }
    }
    #[inline(always)]
    fn load_f16(from: &[u8; 32]) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait), and 32 bytes are readable.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_bf16(from: &[u8; 32]) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait), and 32 bytes are readable.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    fn load_f32(from: &[u8; 64]) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are readable.
        unsafe { _mm512_loadu_ps(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn load(from: &[f32; 16]) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 floats are readable.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn store(a: __m512, to: &mut [f32; 16]) {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 floats are writable.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), a) }
    }
    #[inline(always)]
    fn splat(a: f32) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_set1_ps(a) }
    }
    #[inline(always)]
    fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn mul(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn transpose(mut rows: [__m512; 16]) -> [__m512; 16] {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let mut words = [_mm512_setzero_si512(); 16];
            for (word, row) in words.iter_mut().zip(rows) {
                *word = _mm512_castps_si512(row);
            }
            for (row, word) in rows.iter_mut().zip(transpose_16(words)) {
                *row = _mm512_castsi512_ps(word);
            }
            rows
        }
    }
    #[inline(always)]
    fn reduce_add(a: __m512) -> f32 {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let high = _mm512_extractf32x8_ps::<1>(a);
            reduce_add(_mm256_add_ps(_mm512_castps512_ps256(a), high))
        }
    }
}

/// Applies an intrinsic to both halves of its arguments.
macro_rules! each_half {
    ($f:ident($($a:ident),*)) => {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { [$f($($a[0]),*), $f($($a[1]),*)] }
    };
}

impl Simd for Avx2 {
    common!();
    type Floats = [__m256; 2];

    const REGISTERS: usize = 2;
    // A table takes two registers, of which each nibble chooses one.
    const FAST_LOOKUP: bool = false;

    #[inline(always)]
    fn lookup(table: [__m256; 2], nibbles: &[u8; 16]) -> [[__m256; 2]; 2] {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
        unsafe {
            let bytes = _mm_loadu_si128(nibbles.as_ptr().cast());
            let a = _mm256_cvtepu8_epi32(bytes);
            let b = _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes));
            let (c, d) = (_mm256_srli_epi32::<4>(a), _mm256_srli_epi32::<4>(b));
            [
                [look_up(table, a), look_up(table, b)],
                [look_up(table, c), look_up(table, d)],
            ]
        }
    }
    #[inline(always)]
    fn u8_to_f32(a: __m256i) -> [[__m256; 2]; 2] {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let [a, c] = halves(a);
            let (b, d) = (_mm_srli_si128::<8>(a), _mm_srli_si128::<8>(c));
            let (a, b) = (_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(b));
            let (c, d) = (_mm256_cvtepu8_epi32(c), _mm256_cvtepu8_epi32(d));
            [
                [_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)],
                [_mm256_cvtepi32_ps(c), _mm256_cvtepi32_ps(d)],
            ]
        }
    }
    #[inline(always)]
    fn i8_to_f32(a: __m256i) -> [[__m256; 2]; 2] {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let [a, c] = halves(a);
            let (b, d) = (_mm_srli_si128::<8>(a), _mm_srli_si128::<8>(c));
            let (a, b) = (_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(b));
            let (c, d) = (_mm256_cvtepi8_epi32(c), _mm256_cvtepi8_epi32(d));
            [
                [_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)],
                [_mm256_cvtepi32_ps(c), _mm256_cvtepi32_ps(d)],
            ]
        }
    }
    #[inline(always)]
    fn load_f16(from: &[u8; 32]) -> [__m256; 2] {
        // SAFETY: the CPU has the instruction set (see the trait), and 32 bytes are readable.
        unsafe {
            let from: *const __m128i = from.as_ptr().cast();
            [
                _mm256_cvtph_ps(_mm_loadu_si128(from)),
                _mm256_cvtph_ps(_mm_loadu_si128(from.add(1))),
            ]
        }
    }
    #[inline(always)]
    fn load_bf16(from: &[u8; 32]) -> [__m256; 2] {
        // SAFETY: the CPU has the instruction set (see the trait), and 32 bytes are readable.
        unsafe {
            let from: *const __m128i = from.as_ptr().cast();
            let a = _mm256_cvtepu16_epi32(_mm_loadu_si128(from));
            let b = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.add(1)));
            [
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(a)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(b)),
            ]
        }
    }
    #[inline(always)]
    fn load_f32(from: &[u8; 64]) -> [__m256; 2] {
        // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are readable.
        unsafe {
            let from: *const f32 = from.as_ptr().cast();
            [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))]
        }
    }
    #[inline(always)]
    fn load(from: &[f32; 16]) -> [__m256; 2] {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 floats are readable.
        unsafe {
            [
                _mm256_loadu_ps(from.as_ptr()),
                _mm256_loadu_ps(from.as_ptr().add(8)),
            ]
        }
    }
    #[inline(always)]
    fn store(a: [__m256; 2], to: &mut [f32; 16]) {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 floats are writable.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), a[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), a[1]);
        }
    }
    #[inline(always)]
    fn splat(a: f32) -> [__m256; 2] {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { [_mm256_set1_ps(a); 2] }
    }
    #[inline(always)]
    fn add(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        each_half!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn mul(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        each_half!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
        each_half!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn transpose(mut rows: [[__m256; 2]; 16]) -> [[__m256; 2]; 16] {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let mut words = [[_mm256_setzero_si256(); 2]; 16];
            for (word, row) in words.iter_mut().zip(rows) {
                *word = [_mm256_castps_si256(row[0]), _mm256_castps_si256(row[1])];
            }
            for (row, word) in rows.iter_mut().zip(transpose_halves(words)) {
                *row = [_mm256_castsi256_ps(word[0]), _mm256_castsi256_ps(word[1])];
            }
            rows
        }
    }
    #[inline(always)]
    fn reduce_add(a: [__m256; 2]) -> f32 {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { reduce_add(_mm256_add_ps(a[0], a[1])) }
    }
}
