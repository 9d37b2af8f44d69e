//! Products of integers on WebAssembly's vectors.

use std::arch::wasm32::*;

use super::{
    integers::{IntegerSimd, KEPT, factor_index},
    ops::Simd,
    simd128::{Floats, Simd128, each, halves_to_f32, load_16, to_floats, widen, widen_signed},
};

/// Four vectors of 16 bytes, or of four integers.
type Vectors = [v128; 4];

/// Returns the two parts of two blocks, one block after the other.
#[inline(always)]
fn joined([a, b]: [v128; 2], [c, d]: [v128; 2]) -> Vectors {
    [a, b, c, d]
}

/// Returns four times the float at an index below 16.
#[inline(always)]
fn splat_element(floats: Floats, index: usize) -> v128 {
    let bytes = u32x4_splat(0x0302_0100 + 0x0404_0404 * (index % 4) as u32);
    u8x16_swizzle(floats[index / 4], bytes)
}

impl IntegerSimd for Simd128 {
    type Floats = Simd128;
    type Bytes = Vectors;
    type Words = Vectors;

    #[inline(always)]
    fn load_bytes(from: &[u8; 64]) -> Vectors {
        let (parts, _) = from.as_chunks();
        each(|i| load_16(&parts[i]))
    }
    #[inline(always)]
    fn unpack_4bit(from: &[u8; 32]) -> Vectors {
        let (halves, _) = from.as_chunks();
        joined(
            <Simd128 as Simd>::unpack_4bit(&halves[0]),
            <Simd128 as Simd>::unpack_4bit(&halves[1]),
        )
    }
    #[inline(always)]
    fn unpack_2bit(from: &[u8; 16]) -> Vectors {
        let (halves, _) = from.as_chunks();
        joined(
            <Simd128 as Simd>::unpack_2bit(&halves[0]),
            <Simd128 as Simd>::unpack_2bit(&halves[1]),
        )
    }
    #[inline(always)]
    fn unpack_1bit(from: &[u8; 8]) -> Vectors {
        let (halves, _) = from.as_chunks();
        joined(
            <Simd128 as Simd>::unpack_1bit(&halves[0]),
            <Simd128 as Simd>::unpack_1bit(&halves[1]),
        )
    }
    #[inline(always)]
    fn or_shifted<const SHIFT: i32>(low: Vectors, high: Vectors) -> Vectors {
        each(|i| v128_or(low[i], u8x16_shl(high[i], SHIFT as u32)))
    }
    #[inline(always)]
    fn flip_signs(a: Vectors) -> Vectors {
        each(|i| v128_xor(a[i], u8x16_splat(128)))
    }
    #[inline(always)]
    fn lookup(table: &[u8; 16], n: Vectors) -> Vectors {
        let table = load_16(table);
        each(|i| u8x16_swizzle(table, n[i]))
    }
    #[inline(always)]
    fn splat_bytes(a: [i8; 4]) -> Vectors {
        [u32x4_splat(u32::from_le_bytes(a.map(|a| a as u8))); 4]
    }
    #[inline(always)]
    fn transpose(rows: [Vectors; 16]) -> [Vectors; 16] {
        <Simd128 as Simd>::transpose(rows)
    }
    #[inline(always)]
    fn store_bytes(a: Vectors, to: &mut [u8; 64]) {
        let (parts, _) = to.as_chunks_mut::<16>();
        for (part, a) in parts.iter_mut().zip(a) {
            // SAFETY: 16 bytes are writable, at any address.
            unsafe { v128_store(part.as_mut_ptr().cast(), a) }
        }
    }
    #[inline(always)]
    fn dot<const WIDE: bool>(sum: Vectors, q: Vectors, x: Vectors) -> Vectors {
        // The bytes of even and of odd index, as integers of 16 bits: pairs of their products add up within the words.
        each(|i| {
            let (q, x) = (q[i], x[i]);
            let even =
                i32x4_dot_i16x8(v128_and(q, u16x8_splat(255)), i16x8_shr(i16x8_shl(x, 8), 8));
            let odd = i32x4_dot_i16x8(u16x8_shr(q, 8), i16x8_shr(x, 8));
            i32x4_add(sum[i], i32x4_add(even, odd))
        })
    }
    #[inline(always)]
    fn splat_words(a: i32) -> Vectors {
        [i32x4_splat(a); 4]
    }
    #[inline(always)]
    fn words_of_two(a: u32, b: u32) -> Vectors {
        let (a, b) = (u32x4_splat(a), u32x4_splat(b));
        [a, a, b, b]
    }
    #[inline(always)]
    fn widen(from: &[u8; 16]) -> Vectors {
        widen(load_16(from))
    }
    #[inline(always)]
    fn widen_signed(from: &[u8; 16]) -> Vectors {
        widen_signed(load_16(from))
    }
    #[inline(always)]
    fn shift_right(a: Vectors, by: &[u32; 16]) -> Vectors {
        // There is no shift by a number of bits for each word.
        let (by, _) = by.as_chunks::<4>();
        each(|i| {
            let [b, c, d, e] = by[i];
            u32x4(
                u32x4_extract_lane::<0>(a[i]) >> b,
                u32x4_extract_lane::<1>(a[i]) >> c,
                u32x4_extract_lane::<2>(a[i]) >> d,
                u32x4_extract_lane::<3>(a[i]) >> e,
            )
        })
    }
    #[inline(always)]
    fn mask(a: Vectors, mask: u32) -> Vectors {
        each(|i| v128_and(a[i], u32x4_splat(mask)))
    }
    #[inline(always)]
    fn or_shifted_words<const SHIFT: u32>(low: Vectors, high: Vectors) -> Vectors {
        each(|i| v128_or(low[i], u32x4_shl(high[i], SHIFT)))
    }
    #[inline(always)]
    fn to_f32(a: Vectors) -> Floats {
        to_floats(a)
    }
    #[inline(always)]
    fn load_f16_pairs(from: &[u8; 64]) -> [Floats; 2] {
        let pairs = <Simd128 as IntegerSimd>::load_bytes(from);
        [
            each(|i| halves_to_f32(v128_and(pairs[i], u32x4_splat(0xffff)))),
            each(|i| halves_to_f32(u32x4_shr(pairs[i], 16))),
        ]
    }
    #[inline(always)]
    fn keep_first(a: Floats, count: usize) -> Floats {
        let (kept, _) = KEPT[16 - count.min(16)..].as_chunks::<4>();
        // SAFETY: four integers are readable, at any address.
        each(|i| v128_and(a[i], unsafe { v128_load(kept[i].as_ptr().cast()) }))
    }
    #[inline(always)]
    fn spread<const HALVES: bool>(factors: Floats, pair: usize) -> Floats {
        each(|i| splat_element(factors, factor_index(HALVES, pair, 4 * i)))
    }
}
