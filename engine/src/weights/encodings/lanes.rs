//! Sixteen numbers at a time, on each instruction set that [`simd`](super::simd) compiles for.
//!
//! LLVM makes good vectors of loops over slices, but not of blocks that are unpacked from bits, so
//! those are written in terms of this small trait.

use super::unpack::f16_to_f32;

/// Vectors of 16 bytes and of 16 floats, and what the encodings and products do with them.
///
/// The types for an instruction set may only be used in functions that are compiled for it, which
/// `simd!` and `with_lanes!` take care of.
pub trait Lanes: 'static {
    /// 16 bytes.
    type Bytes: Copy;
    /// 16 floats.
    type Floats: Copy;

    /// Bytes from memory.
    fn bytes(from: &[u8; 16]) -> Self::Bytes;
    /// The bytes of two words, `low` first.
    fn pair(low: u64, high: u64) -> Self::Bytes;
    /// Bytes `4g + k`: byte `k` of the word shifted right by `SHIFT + g`.
    fn shifted_words<const SHIFT: i32>(word: u32) -> Self::Bytes;
    /// `a & mask`, the mask in every byte.
    fn and(a: Self::Bytes, mask: u8) -> Self::Bytes;
    /// `a | b`.
    fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// `(a >> 4) & 15`.
    fn high_nibbles(a: Self::Bytes) -> Self::Bytes;
    /// `a << SHIFT`, for bytes where no bit is lost.
    fn shl<const SHIFT: i32>(a: Self::Bytes) -> Self::Bytes;

    /// `table[n]` for each low nibble `n` of the bytes, then for each high one.
    fn choose(table: Self::Floats, nibbles: &[u8; 16]) -> [Self::Floats; 2];

    /// Unsigned bytes as floats.
    fn from_u8(a: Self::Bytes) -> Self::Floats;
    /// Signed bytes as floats.
    fn from_i8(a: Self::Bytes) -> Self::Floats;
    /// Halves as floats.
    fn from_f16(from: &[u8; 32]) -> Self::Floats;
    /// Upper halves of singles as floats.
    fn from_bf16(from: &[u8; 32]) -> Self::Floats;
    /// Little-endian floats.
    fn from_f32(from: &[u8; 64]) -> Self::Floats;
    /// Floats from memory.
    fn load(from: &[f32; 16]) -> Self::Floats;
    /// Floats into memory.
    fn store(a: Self::Floats, to: &mut [f32; 16]);
    /// One float in every lane.
    fn splat(a: f32) -> Self::Floats;
    /// `a + b`.
    fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a - b`.
    fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`.
    fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once where the instruction set can.
    fn mul_add(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
}

/// Plain arrays, for every CPU.
pub struct Portable;

impl Lanes for Portable {
    type Bytes = [u8; 16];
    type Floats = [f32; 16];

    #[inline(always)]
    fn bytes(from: &[u8; 16]) -> [u8; 16] {
        *from
    }
    #[inline(always)]
    fn pair(low: u64, high: u64) -> [u8; 16] {
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }
    #[inline(always)]
    fn shifted_words<const SHIFT: i32>(word: u32) -> [u8; 16] {
        std::array::from_fn(|i| (word >> (SHIFT as usize + i / 4)).to_le_bytes()[i % 4])
    }
    #[inline(always)]
    fn and(a: [u8; 16], mask: u8) -> [u8; 16] {
        a.map(|a| a & mask)
    }
    #[inline(always)]
    fn or(a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
        std::array::from_fn(|i| a[i] | b[i])
    }
    #[inline(always)]
    fn high_nibbles(a: [u8; 16]) -> [u8; 16] {
        a.map(|a| a >> 4)
    }
    #[inline(always)]
    fn shl<const SHIFT: i32>(a: [u8; 16]) -> [u8; 16] {
        a.map(|a| a << SHIFT)
    }
    #[inline(always)]
    fn choose(table: [f32; 16], nibbles: &[u8; 16]) -> [[f32; 16]; 2] {
        [
            nibbles.map(|n| table[usize::from(n & 15)]),
            nibbles.map(|n| table[usize::from(n >> 4)]),
        ]
    }
    #[inline(always)]
    fn from_u8(a: [u8; 16]) -> [f32; 16] {
        a.map(f32::from)
    }
    #[inline(always)]
    fn from_i8(a: [u8; 16]) -> [f32; 16] {
        a.map(|a| f32::from(a as i8))
    }
    #[inline(always)]
    fn from_f16(from: &[u8; 32]) -> [f32; 16] {
        std::array::from_fn(|i| f16_to_f32(u16::from_le_bytes([from[2 * i], from[2 * i + 1]])))
    }
    #[inline(always)]
    fn from_bf16(from: &[u8; 32]) -> [f32; 16] {
        std::array::from_fn(|i| f32::from_le_bytes([0, 0, from[2 * i], from[2 * i + 1]]))
    }
    #[inline(always)]
    fn from_f32(from: &[u8; 64]) -> [f32; 16] {
        let (words, _) = from.as_chunks();
        std::array::from_fn(|i| f32::from_le_bytes(words[i]))
    }
    #[inline(always)]
    fn load(from: &[f32; 16]) -> [f32; 16] {
        *from
    }
    #[inline(always)]
    fn store(a: [f32; 16], to: &mut [f32; 16]) {
        *to = a;
    }
    #[inline(always)]
    fn splat(a: f32) -> [f32; 16] {
        [a; 16]
    }
    #[inline(always)]
    fn add(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn mul_add(a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
        // Not fused: without the instruction that is a slow call.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// The instruction sets of x86-64. Every intrinsic here needs no more than its set.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Lanes;

    /// AVX2, FMA and F16C.
    pub struct Avx2;

    /// AVX-512 F, BW, DQ and VL.
    pub struct Avx512;

    /// The byte vectors are the same for both.
    macro_rules! bytes {
        () => {
            type Bytes = __m128i;

            #[inline(always)]
            fn bytes(from: &[u8; 16]) -> __m128i {
                // SAFETY: the set is there (see the trait), and 16 bytes are readable.
                unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
            }
            #[inline(always)]
            fn pair(low: u64, high: u64) -> __m128i {
                // SAFETY: the set is there (see the trait).
                unsafe { _mm_set_epi64x(high as i64, low as i64) }
            }
            #[inline(always)]
            fn shifted_words<const SHIFT: i32>(word: u32) -> __m128i {
                // SAFETY: the set is there (see the trait).
                unsafe {
                    let shifts = _mm_set_epi32(SHIFT + 3, SHIFT + 2, SHIFT + 1, SHIFT);
                    _mm_srlv_epi32(_mm_set1_epi32(word as i32), shifts)
                }
            }
            #[inline(always)]
            fn and(a: __m128i, mask: u8) -> __m128i {
                // SAFETY: the set is there (see the trait).
                unsafe { _mm_and_si128(a, _mm_set1_epi8(mask as i8)) }
            }
            #[inline(always)]
            fn or(a: __m128i, b: __m128i) -> __m128i {
                // SAFETY: the set is there (see the trait).
                unsafe { _mm_or_si128(a, b) }
            }
            #[inline(always)]
            fn high_nibbles(a: __m128i) -> __m128i {
                // SAFETY: the set is there (see the trait).
                unsafe { _mm_and_si128(_mm_srli_epi16::<4>(a), _mm_set1_epi8(15)) }
            }
            #[inline(always)]
            fn shl<const SHIFT: i32>(a: __m128i) -> __m128i {
                // SAFETY: the set is there (see the trait).
                unsafe { _mm_slli_epi16::<SHIFT>(a) }
            }
        };
    }

    impl Lanes for Avx512 {
        bytes!();
        type Floats = __m512;

        #[inline(always)]
        fn choose(table: __m512, nibbles: &[u8; 16]) -> [__m512; 2] {
            // SAFETY: the set is there (see the trait).
            unsafe {
                // Only the low four bits of an index count.
                let index = _mm512_cvtepu8_epi32(Self::bytes(nibbles));
                [index, _mm512_srli_epi32::<4>(index)].map(|i| _mm512_permutexvar_ps(i, table))
            }
        }
        #[inline(always)]
        fn from_u8(a: __m128i) -> __m512 {
            // SAFETY: the set is there (see the trait).
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(a)) }
        }
        #[inline(always)]
        fn from_i8(a: __m128i) -> __m512 {
            // SAFETY: the set is there (see the trait).
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(a)) }
        }
        #[inline(always)]
        fn from_f16(from: &[u8; 32]) -> __m512 {
            // SAFETY: the set is there (see the trait), and 32 bytes are readable.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
        }
        #[inline(always)]
        fn from_bf16(from: &[u8; 32]) -> __m512 {
            // SAFETY: the set is there (see the trait), and 32 bytes are readable.
            unsafe {
                let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
            }
        }
        #[inline(always)]
        fn from_f32(from: &[u8; 64]) -> __m512 {
            // SAFETY: the set is there (see the trait), and 64 bytes are readable.
            unsafe { _mm512_loadu_ps(from.as_ptr().cast()) }
        }
        #[inline(always)]
        fn load(from: &[f32; 16]) -> __m512 {
            // SAFETY: the set is there (see the trait), and 16 floats are readable.
            unsafe { _mm512_loadu_ps(from.as_ptr()) }
        }
        #[inline(always)]
        fn store(a: __m512, to: &mut [f32; 16]) {
            // SAFETY: the set is there (see the trait), and 16 floats are writable.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), a) }
        }
        #[inline(always)]
        fn splat(a: f32) -> __m512 {
            // SAFETY: the set is there (see the trait).
            unsafe { _mm512_set1_ps(a) }
        }
        #[inline(always)]
        fn add(a: __m512, b: __m512) -> __m512 {
            // SAFETY: the set is there (see the trait).
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        fn sub(a: __m512, b: __m512) -> __m512 {
            // SAFETY: the set is there (see the trait).
            unsafe { _mm512_sub_ps(a, b) }
        }
        #[inline(always)]
        fn mul(a: __m512, b: __m512) -> __m512 {
            // SAFETY: the set is there (see the trait).
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: the set is there (see the trait).
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
    }

    /// Applies a function to both halves of its arguments.
    macro_rules! halves {
        ($f:ident($($a:ident),*)) => {
            // SAFETY: the set is there (see the trait).
            unsafe { [$f($($a[0]),*), $f($($a[1]),*)] }
        };
    }

    impl Lanes for Avx2 {
        bytes!();
        type Floats = [__m256; 2];

        #[inline(always)]
        fn choose(table: [__m256; 2], nibbles: &[u8; 16]) -> [[__m256; 2]; 2] {
            // SAFETY: the set is there (see the trait).
            unsafe {
                let bytes = Self::bytes(nibbles);
                let index = [bytes, _mm_srli_si128::<8>(bytes)].map(|b| _mm256_cvtepu8_epi32(b));
                // Three bits choose within a half of the table, the fourth between the halves.
                let look_up = |i| {
                    let halves = table.map(|half| _mm256_permutevar8x32_ps(half, i));
                    let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(i));
                    _mm256_blendv_ps(halves[0], halves[1], upper)
                };
                [
                    index.map(look_up),
                    index.map(|i| look_up(_mm256_srli_epi32::<4>(i))),
                ]
            }
        }
        #[inline(always)]
        fn from_u8(a: __m128i) -> [__m256; 2] {
            // SAFETY: the set is there (see the trait).
            unsafe {
                [a, _mm_srli_si128::<8>(a)].map(|a| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(a)))
            }
        }
        #[inline(always)]
        fn from_i8(a: __m128i) -> [__m256; 2] {
            // SAFETY: the set is there (see the trait).
            unsafe {
                [a, _mm_srli_si128::<8>(a)].map(|a| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(a)))
            }
        }
        #[inline(always)]
        fn from_f16(from: &[u8; 32]) -> [__m256; 2] {
            // SAFETY: the set is there (see the trait), and 32 bytes are readable.
            unsafe {
                let from: *const __m128i = from.as_ptr().cast();
                [
                    _mm256_cvtph_ps(_mm_loadu_si128(from)),
                    _mm256_cvtph_ps(_mm_loadu_si128(from.add(1))),
                ]
            }
        }
        #[inline(always)]
        fn from_bf16(from: &[u8; 32]) -> [__m256; 2] {
            // SAFETY: the set is there (see the trait), and 32 bytes are readable.
            unsafe {
                let from: *const __m128i = from.as_ptr().cast();
                [_mm_loadu_si128(from), _mm_loadu_si128(from.add(1))].map(|half| {
                    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(half)))
                })
            }
        }
        #[inline(always)]
        fn from_f32(from: &[u8; 64]) -> [__m256; 2] {
            // SAFETY: the set is there (see the trait), and 64 bytes are readable.
            unsafe {
                let from: *const f32 = from.as_ptr().cast();
                [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))]
            }
        }
        #[inline(always)]
        fn load(from: &[f32; 16]) -> [__m256; 2] {
            // SAFETY: the set is there (see the trait), and 16 floats are readable.
            unsafe {
                [
                    _mm256_loadu_ps(from.as_ptr()),
                    _mm256_loadu_ps(from.as_ptr().add(8)),
                ]
            }
        }
        #[inline(always)]
        fn store(a: [__m256; 2], to: &mut [f32; 16]) {
            // SAFETY: the set is there (see the trait), and 16 floats are writable.
            unsafe {
                _mm256_storeu_ps(to.as_mut_ptr(), a[0]);
                _mm256_storeu_ps(to.as_mut_ptr().add(8), a[1]);
            }
        }
        #[inline(always)]
        fn splat(a: f32) -> [__m256; 2] {
            // SAFETY: the set is there (see the trait).
            unsafe { [_mm256_set1_ps(a); 2] }
        }
        #[inline(always)]
        fn add(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            halves!(_mm256_add_ps(a, b))
        }
        #[inline(always)]
        fn sub(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            halves!(_mm256_sub_ps(a, b))
        }
        #[inline(always)]
        fn mul(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            halves!(_mm256_mul_ps(a, b))
        }
        #[inline(always)]
        fn mul_add(a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            halves!(_mm256_fmadd_ps(a, b, c))
        }
    }
}
