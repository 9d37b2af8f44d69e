//! Operations on WebAssembly's vectors of 128 bits, which every browser with WebGPU has.

use std::arch::wasm32::*;

use super::ops::Simd;

/// WebAssembly's vectors: 16 floats are four of them. A module is compiled with or without them as a whole.
pub struct Simd128;

/// Four vectors of four floats.
pub(super) type Floats = [v128; 4];

/// Computes each vector by its index. Unlike [`std::array::from_fn`] it is always inlined.
#[inline(always)]
pub(super) fn each<const N: usize>(vector: impl Fn(usize) -> v128) -> [v128; N] {
    let mut vectors = [u32x4_splat(0); N];
    for (i, of_index) in vectors.iter_mut().enumerate() {
        *of_index = vector(i);
    }
    vectors
}

/// Loads 16 bytes.
#[inline(always)]
pub(super) fn load_16(from: &[u8; 16]) -> v128 {
    // SAFETY: 16 bytes are readable, at any address.
    unsafe { v128_load(from.as_ptr().cast()) }
}

/// Converts four halves, which are the low 16 bits of four words; exactly, as [`super::f16::f16_to_f32`].
#[inline(always)]
pub(super) fn halves_to_f32(halves: v128) -> v128 {
    let exponent = u32x4_splat(0x7c00 << 13);
    let magic = u32x4_splat(113 << 23);
    let magnitude = u32x4_shl(v128_and(halves, u32x4_splat(0x7fff)), 13);
    let sign = u32x4_shl(v128_and(halves, u32x4_splat(0x8000)), 16);
    let of_magnitude = v128_and(magnitude, exponent);
    let normal = u32x4_add(magnitude, u32x4_splat(112 << 23));
    let infinite = u32x4_add(magnitude, u32x4_splat(224 << 23));
    let subnormal = f32x4_sub(u32x4_add(magnitude, magic), magic);
    let is_subnormal = u32x4_eq(of_magnitude, u32x4_splat(0));
    let finite = v128_bitselect(subnormal, normal, is_subnormal);
    let bits = v128_bitselect(infinite, finite, u32x4_eq(of_magnitude, exponent));
    v128_or(bits, sign)
}

/// Widens 16 unsigned bytes to integers of 32 bits.
#[inline(always)]
pub(super) fn widen(a: v128) -> [v128; 4] {
    let (low, high) = (u16x8_extend_low_u8x16(a), u16x8_extend_high_u8x16(a));
    [
        u32x4_extend_low_u16x8(low),
        u32x4_extend_high_u16x8(low),
        u32x4_extend_low_u16x8(high),
        u32x4_extend_high_u16x8(high),
    ]
}

/// Widens 16 signed bytes to integers of 32 bits.
#[inline(always)]
pub(super) fn widen_signed(a: v128) -> [v128; 4] {
    let (low, high) = (i16x8_extend_low_i8x16(a), i16x8_extend_high_i8x16(a));
    [
        i32x4_extend_low_i16x8(low),
        i32x4_extend_high_i16x8(low),
        i32x4_extend_low_i16x8(high),
        i32x4_extend_high_i16x8(high),
    ]
}

/// Converts signed integers.
#[inline(always)]
pub(super) fn to_floats(a: [v128; 4]) -> Floats {
    each(|i| f32x4_convert_i32x4(a[i]))
}

/// Returns the bytes of two vectors in turn: eight of each from the low, then from the high halves.
#[inline(always)]
fn interleave_bytes(a: v128, b: v128) -> [v128; 2] {
    [
        u8x16_shuffle::<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(a, b),
        u8x16_shuffle::<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(a, b),
    ]
}

/// Returns the pairs of bytes of two vectors in turn: four of each from the low, then from the high halves.
#[inline(always)]
fn interleave_pairs(a: v128, b: v128) -> [v128; 2] {
    [
        u16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(a, b),
        u16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(a, b),
    ]
}

/// Transposes four rows of four words.
#[inline(always)]
fn transpose_4(rows: [v128; 4]) -> [v128; 4] {
    let low: [v128; 2] = each(|i| u32x4_shuffle::<0, 4, 1, 5>(rows[2 * i], rows[2 * i + 1]));
    let high: [v128; 2] = each(|i| u32x4_shuffle::<2, 6, 3, 7>(rows[2 * i], rows[2 * i + 1]));
    [
        u64x2_shuffle::<0, 2>(low[0], low[1]),
        u64x2_shuffle::<1, 3>(low[0], low[1]),
        u64x2_shuffle::<0, 2>(high[0], high[1]),
        u64x2_shuffle::<1, 3>(high[0], high[1]),
    ]
}

impl Simd for Simd128 {
    type Bytes = [v128; 2];
    type Floats = Floats;

    const REGISTERS: usize = 4;
    const FAST_LOOKUP: bool = false;

    #[inline(always)]
    fn load_bytes(from: &[u8; 32]) -> [v128; 2] {
        let (halves, _) = from.as_chunks();
        [load_16(&halves[0]), load_16(&halves[1])]
    }
    #[inline(always)]
    fn unpack_4bit(from: &[u8; 16]) -> [v128; 2] {
        let bytes = load_16(from);
        [v128_and(bytes, u8x16_splat(15)), u8x16_shr(bytes, 4)]
    }
    #[inline(always)]
    fn unpack_2bit(from: &[u8; 8]) -> [v128; 2] {
        let twice = u64x2_splat(u64::from_le_bytes(*from));
        let shifted = u64x2_shuffle::<0, 2>(twice, u8x16_shr(twice, 2));
        let mask = u8x16_splat(3);
        [
            v128_and(shifted, mask),
            v128_and(u8x16_shr(shifted, 4), mask),
        ]
    }
    #[inline(always)]
    fn unpack_1bit(from: &[u8; 4]) -> [v128; 2] {
        let four = u32x4_splat(u32::from_le_bytes(*from));
        let bit = |first: u32| {
            let first = 0x0101_0101 * first;
            let bits = u32x4(first, first << 1, first << 2, first << 3);
            v128_and(u8x16_eq(v128_and(four, bits), bits), u8x16_splat(1))
        };
        [bit(1), bit(16)]
    }
    #[inline(always)]
    fn or_shifted<const SHIFT: i32>(low: [v128; 2], high: [v128; 2]) -> [v128; 2] {
        each(|i| v128_or(low[i], u8x16_shl(high[i], SHIFT as u32)))
    }
    #[inline(always)]
    fn sub_bytes(a: [v128; 2], b: u8) -> [v128; 2] {
        each(|i| u8x16_sub(a[i], u8x16_splat(b)))
    }
    #[inline(always)]
    fn lookup(table: Floats, nibbles: &[u8; 16]) -> [Floats; 2] {
        // Byte `i` of each of the 16 floats.
        let plane = |i: u8| {
            let index = u32x4_splat(u32::from_le_bytes([i, 4 + i, 8 + i, 12 + i]));
            let [a, b, c, d] = each(|i| u8x16_swizzle(table[i], index));
            u64x2_shuffle::<0, 2>(
                u32x4_shuffle::<0, 4, 1, 5>(a, b),
                u32x4_shuffle::<0, 4, 1, 5>(c, d),
            )
        };
        let planes = [plane(0), plane(1), plane(2), plane(3)];
        let floats = |n| {
            let [a, b, c, d] = each(|i| u8x16_swizzle(planes[i], n));
            let (low, high) = (interleave_bytes(a, b), interleave_bytes(c, d));
            let [a, b] = interleave_pairs(low[0], high[0]);
            let [c, d] = interleave_pairs(low[1], high[1]);
            [a, b, c, d]
        };
        let [low, high] = Simd128::unpack_4bit(nibbles);
        [floats(low), floats(high)]
    }
    #[inline(always)]
    fn u8_to_f32(a: [v128; 2]) -> [Floats; 2] {
        // They are below 256: the conversion of signed integers does, which more processors have.
        [to_floats(widen(a[0])), to_floats(widen(a[1]))]
    }
    #[inline(always)]
    fn i8_to_f32(a: [v128; 2]) -> [Floats; 2] {
        [to_floats(widen_signed(a[0])), to_floats(widen_signed(a[1]))]
    }
    #[inline(always)]
    fn f16_to_f32(bits: u16) -> f32 {
        super::f16::f16_to_f32(bits)
    }
    #[inline(always)]
    fn load_f16(from: &[u8; 32]) -> Floats {
        let [a, b] = Simd128::load_bytes(from);
        let words = [
            u32x4_extend_low_u16x8(a),
            u32x4_extend_high_u16x8(a),
            u32x4_extend_low_u16x8(b),
            u32x4_extend_high_u16x8(b),
        ];
        each(|i| halves_to_f32(words[i]))
    }
    #[inline(always)]
    fn load_bf16(from: &[u8; 32]) -> Floats {
        let [a, b] = Simd128::load_bytes(from);
        let zero = u32x4_splat(0);
        let ([a, b], [c, d]) = (interleave_pairs(zero, a), interleave_pairs(zero, b));
        [a, b, c, d]
    }
    #[inline(always)]
    fn load_f32(from: &[u8; 64]) -> Floats {
        let (parts, _) = from.as_chunks();
        each(|i| load_16(&parts[i]))
    }
    #[inline(always)]
    fn load(from: &[f32; 16]) -> Floats {
        let (parts, _) = from.as_chunks::<4>();
        // SAFETY: four floats are readable, at any address.
        each(|i| unsafe { v128_load(parts[i].as_ptr().cast()) })
    }
    #[inline(always)]
    fn store(a: Floats, to: &mut [f32; 16]) {
        let (parts, _) = to.as_chunks_mut::<4>();
        for (part, a) in parts.iter_mut().zip(a) {
            // SAFETY: four floats are writable, at any address.
            unsafe { v128_store(part.as_mut_ptr().cast(), a) }
        }
    }
    #[inline(always)]
    fn splat(a: f32) -> Floats {
        [f32x4_splat(a); 4]
    }
    #[inline(always)]
    fn add(a: Floats, b: Floats) -> Floats {
        each(|i| f32x4_add(a[i], b[i]))
    }
    #[inline(always)]
    fn mul(a: Floats, b: Floats) -> Floats {
        each(|i| f32x4_mul(a[i], b[i]))
    }
    #[inline(always)]
    fn mul_add(a: Floats, b: Floats, c: Floats) -> Floats {
        // Not fused: there is no such instruction.
        each(|i| f32x4_add(f32x4_mul(a[i], b[i]), c[i]))
    }
    #[inline(always)]
    fn transpose(rows: [Floats; 16]) -> [Floats; 16] {
        let mut out = rows;
        for row in 0..4 {
            for column in 0..4 {
                let part = transpose_4(each(|i| rows[4 * row + i][column]));
                for i in 0..4 {
                    out[4 * column + i][row] = part[i];
                }
            }
        }
        out
    }
    #[inline(always)]
    fn prefetch_ahead(_: &[u8], _: usize) {}
    #[inline(always)]
    fn reduce_add(a: Floats) -> f32 {
        let four = f32x4_add(f32x4_add(a[0], a[2]), f32x4_add(a[1], a[3]));
        let two = f32x4_add(four, u32x4_shuffle::<2, 3, 0, 1>(four, four));
        f32x4_extract_lane::<0>(two) + f32x4_extract_lane::<1>(two)
    }
}
