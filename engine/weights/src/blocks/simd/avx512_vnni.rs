//! Products of integers on AVX-512 with VNNI. Every intrinsic needs no more than these sets.

use std::arch::x86_64::*;

use super::{
    integers::{IntegerSimd, factor_index},
    transpose::transpose_16,
    x86::Avx512,
};

/// AVX-512 F, BW, DQ, VL and VNNI.
pub struct Avx512Vnni;

impl IntegerSimd for Avx512Vnni {
    type Floats = Avx512;
    type Bytes = __m512i;
    type Words = __m512i;

    #[inline(always)]
    fn load_bytes(from: &[u8; 64]) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are readable.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn unpack_4bit(from: &[u8; 32]) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait), and 32 bytes are readable.
        unsafe {
            let bytes = _mm512_castsi256_si512(_mm256_loadu_si256(from.as_ptr().cast()));
            let twice = _mm512_shuffle_i64x2::<0b01_01_00_00>(bytes, bytes);
            let shifted = _mm512_srlv_epi64(twice, _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0));
            _mm512_and_si512(shifted, _mm512_set1_epi8(15))
        }
    }
    #[inline(always)]
    fn unpack_2bit(from: &[u8; 16]) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
        unsafe {
            let bytes = _mm512_castsi128_si512(_mm_loadu_si128(from.as_ptr().cast()));
            let index = _mm512_set_epi64(1, 1, 1, 1, 0, 0, 0, 0);
            let four = _mm512_permutexvar_epi64(index, bytes);
            let shifted = _mm512_srlv_epi64(four, _mm512_set_epi64(6, 4, 2, 0, 6, 4, 2, 0));
            _mm512_and_si512(shifted, _mm512_set1_epi8(3))
        }
    }
    #[inline(always)]
    fn unpack_1bit(from: &[u8; 8]) -> __m512i {
        let (halves, _) = from.as_chunks();
        let [low, high] = [halves[0], halves[1]].map(u32::from_le_bytes);
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let shifts = _mm512_set_epi32(7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5, 4, 3, 2, 1, 0);
            let shifted = _mm512_srlv_epi32(Self::words_of_two(low, high), shifts);
            _mm512_and_si512(shifted, _mm512_set1_epi8(1))
        }
    }
    #[inline(always)]
    fn or_shifted<const SHIFT: i32>(low: __m512i, high: __m512i) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe {
            let by = _mm_cvtsi32_si128(SHIFT);
            _mm512_or_si512(low, _mm512_sll_epi16(high, by))
        }
    }
    #[inline(always)]
    fn flip_signs(a: __m512i) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_xor_si512(a, _mm512_set1_epi8(-128)) }
    }
    #[inline(always)]
    fn lookup(table: &[u8; 16], n: __m512i) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, n)
        }
    }
    #[inline(always)]
    fn splat_bytes(a: [i8; 4]) -> __m512i {
        Self::splat_words(i32::from_le_bytes(a.map(|a| a as u8)))
    }
    #[inline(always)]
    fn transpose(rows: [__m512i; 16]) -> [__m512i; 16] {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { transpose_16(rows) }
    }
    #[inline(always)]
    fn store_bytes(a: __m512i, to: &mut [u8; 64]) {
        // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are writable.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), a) }
    }
    #[inline(always)]
    fn dot<const WIDE: bool>(sum: __m512i, q: __m512i, x: __m512i) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_dpbusd_epi32(sum, q, x) }
    }
    #[inline(always)]
    fn splat_words(a: i32) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_set1_epi32(a) }
    }
    #[inline(always)]
    fn words_of_two(a: u32, b: u32) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_mask_set1_epi32(_mm512_set1_epi32(a as i32), 0xff00, b as i32) }
    }
    #[inline(always)]
    fn widen(from: &[u8; 16]) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn widen_signed(from: &[u8; 16]) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait), and 16 bytes are readable.
        unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast())) }
    }
    #[inline(always)]
    fn shift_right(a: __m512i, by: &[u32; 16]) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are readable.
        unsafe { _mm512_srlv_epi32(a, _mm512_loadu_si512(by.as_ptr().cast())) }
    }
    #[inline(always)]
    fn mask(a: __m512i, mask: u32) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_and_si512(a, _mm512_set1_epi32(mask as i32)) }
    }
    #[inline(always)]
    fn or_shifted_words<const SHIFT: u32>(low: __m512i, high: __m512i) -> __m512i {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_or_si512(low, _mm512_slli_epi32::<SHIFT>(high)) }
    }
    #[inline(always)]
    fn to_f32(a: __m512i) -> __m512 {
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn load_f16_pairs(from: &[u8; 64]) -> [__m512; 2] {
        // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are readable.
        unsafe {
            let pairs = _mm512_loadu_si512(from.as_ptr().cast());
            let second = _mm512_srli_epi32::<16>(pairs);
            [
                _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs)),
                _mm512_cvtph_ps(_mm512_cvtepi32_epi16(second)),
            ]
        }
    }
    #[inline(always)]
    fn keep_first(a: __m512, count: usize) -> __m512 {
        let mask = ((1u32 << count.min(16)) - 1) as u16;
        // SAFETY: the CPU has the instruction set (see the trait).
        unsafe { _mm512_maskz_mov_ps(mask, a) }
    }
    #[inline(always)]
    fn spread<const HALVES: bool>(factors: __m512, pair: usize) -> __m512 {
        let index = &const { factor_indices(HALVES) }[pair % 8];
        // SAFETY: the CPU has the instruction set (see the trait), and 64 bytes are readable.
        unsafe { _mm512_permutexvar_ps(_mm512_loadu_si512(index.as_ptr().cast()), factors) }
    }
}

/// Returns [`factor_index`] for each pair of blocks of a group, and each word.
const fn factor_indices(halves: bool) -> [[u32; 16]; 8] {
    let mut indices = [[0; 16]; 8];
    let mut i = 0;
    while i < 8 * 16 {
        indices[i / 16][i % 16] = factor_index(halves, i / 16, i % 16) as u32;
        i += 1;
    }
    indices
}
