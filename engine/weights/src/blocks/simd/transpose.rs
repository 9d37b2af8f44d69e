//! Transposition of 16 vectors of 16 words.

use std::arch::x86_64::*;

/// Transposes 16 vectors.
///
/// # Safety
/// The CPU must have AVX-512 F.
#[inline(always)]
pub(super) unsafe fn transpose_16(rows: [__m512i; 16]) -> [__m512i; 16] {
    // SAFETY: the caller guarantees AVX-512 F.
    unsafe {
        let mut pairs = rows;
        for i in 0..8 {
            pairs[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
        }
        // Quarter `q` of vector `4 i + j` is column `4 q + j` of rows `4 i..4 i + 4`.
        let mut fours = rows;
        for i in 0..4 {
            for j in 0..2 {
                let (a, b) = (pairs[4 * i + j], pairs[4 * i + j + 2]);
                fours[4 * i + 2 * j] = _mm512_unpacklo_epi64(a, b);
                fours[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(a, b);
            }
        }
        let mut out = rows;
        for j in 0..4 {
            let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(fours[j], fours[4 + j]);
            let odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(fours[j], fours[4 + j]);
            let even_high = _mm512_shuffle_i32x4::<0b10_00_10_00>(fours[8 + j], fours[12 + j]);
            let odd_high = _mm512_shuffle_i32x4::<0b11_01_11_01>(fours[8 + j], fours[12 + j]);
            out[j] = _mm512_shuffle_i32x4::<0b10_00_10_00>(even, even_high);
            out[8 + j] = _mm512_shuffle_i32x4::<0b11_01_11_01>(even, even_high);
            out[4 + j] = _mm512_shuffle_i32x4::<0b10_00_10_00>(odd, odd_high);
            out[12 + j] = _mm512_shuffle_i32x4::<0b11_01_11_01>(odd, odd_high);
        }
        out
    }
}

/// Transposes 16 vectors, each of two halves.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
pub(super) unsafe fn transpose_halves(rows: [[__m256i; 2]; 16]) -> [[__m256i; 2]; 16] {
    let mut out = rows;
    for block in 0..2 {
        for half in 0..2 {
            let mut part = [rows[0][0]; 8];
            for i in 0..8 {
                part[i] = rows[8 * half + i][block];
            }
            // SAFETY: the caller guarantees AVX2.
            let part = unsafe { transpose_8(part) };
            for i in 0..8 {
                out[8 * block + i][half] = part[i];
            }
        }
    }
    out
}

/// Transposes eight rows of eight words.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn transpose_8(rows: [__m256i; 8]) -> [__m256i; 8] {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let mut pairs = rows;
        for i in 0..4 {
            pairs[2 * i] = _mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
        }
        let mut fours = rows;
        for i in 0..2 {
            for j in 0..2 {
                let (a, b) = (pairs[4 * i + j], pairs[4 * i + j + 2]);
                fours[4 * i + 2 * j] = _mm256_unpacklo_epi64(a, b);
                fours[4 * i + 2 * j + 1] = _mm256_unpackhi_epi64(a, b);
            }
        }
        let mut out = rows;
        for j in 0..4 {
            out[j] = _mm256_permute2x128_si256::<0x20>(fours[j], fours[4 + j]);
            out[4 + j] = _mm256_permute2x128_si256::<0x31>(fours[j], fours[4 + j]);
        }
        out
    }
}
