//! Operations on plain arrays.

use super::{f16::f16_to_f32, ops::Simd};

/// Plain arrays, for every CPU; the compiler turns most operations into vector instructions.
pub struct Portable;

impl Simd for Portable {
    type Bytes = [u8; 32];
    type Floats = [f32; 16];

    const REGISTERS: usize = 4;
    const FAST_LOOKUP: bool = true;

    #[inline(always)]
    fn load_bytes(from: &[u8; 32]) -> [u8; 32] {
        *from
    }
    #[inline(always)]
    fn unpack_4bit(from: &[u8; 16]) -> [u8; 32] {
        std::array::from_fn(|i| from[i % 16] >> (i / 16 * 4) & 15)
    }
    #[inline(always)]
    fn unpack_2bit(from: &[u8; 8]) -> [u8; 32] {
        std::array::from_fn(|i| from[i % 8] >> (i / 8 * 2) & 3)
    }
    #[inline(always)]
    fn unpack_1bit(from: &[u8; 4]) -> [u8; 32] {
        std::array::from_fn(|i| from[i % 4] >> (i / 4) & 1)
    }
    #[inline(always)]
    fn or_shifted<const SHIFT: i32>(low: [u8; 32], high: [u8; 32]) -> [u8; 32] {
        std::array::from_fn(|i| low[i] | high[i] << SHIFT)
    }
    #[inline(always)]
    fn sub_bytes(a: [u8; 32], b: u8) -> [u8; 32] {
        a.map(|a| a.wrapping_sub(b))
    }
    #[inline(always)]
    fn lookup(table: [f32; 16], nibbles: &[u8; 16]) -> [[f32; 16]; 2] {
        [
            nibbles.map(|n| table[usize::from(n & 15)]),
            nibbles.map(|n| table[usize::from(n >> 4)]),
        ]
    }
    #[inline(always)]
    fn u8_to_f32(a: [u8; 32]) -> [[f32; 16]; 2] {
        [0, 16].map(|half| std::array::from_fn(|i| f32::from(a[half + i])))
    }
    #[inline(always)]
    fn i8_to_f32(a: [u8; 32]) -> [[f32; 16]; 2] {
        [0, 16].map(|half| std::array::from_fn(|i| f32::from(a[half + i] as i8)))
    }
    #[inline(always)]
    fn f16_to_f32(bits: u16) -> f32 {
        f16_to_f32(bits)
    }
    #[inline(always)]
    fn load_f16(from: &[u8; 32]) -> [f32; 16] {
        std::array::from_fn(|i| f16_to_f32(u16::from_le_bytes([from[2 * i], from[2 * i + 1]])))
    }
    #[inline(always)]
    fn load_bf16(from: &[u8; 32]) -> [f32; 16] {
        std::array::from_fn(|i| f32::from_le_bytes([0, 0, from[2 * i], from[2 * i + 1]]))
    }
    #[inline(always)]
    fn load_f32(from: &[u8; 64]) -> [f32; 16] {
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
    fn mul(a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn mul_add(a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
        // Not fused: without the instruction, that would be a slow function call.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn transpose(rows: [[f32; 16]; 16]) -> [[f32; 16]; 16] {
        std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
    }
    #[inline(always)]
    fn prefetch_ahead(_: &[u8], _: usize) {}
    #[inline(always)]
    fn reduce_add(mut a: [f32; 16]) -> f32 {
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                a[i] += a[i + half];
            }
        }
        a[0]
    }
}
