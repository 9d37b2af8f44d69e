//! Blocks of 32 nibbles that index a table of sixteen values: `IQ4_NL`, `MXFP4`.

use super::unpack::{Quants, f16_at, nibbles};
use super::{Packed, Planes};
use crate::weights::encoding::{BLOCK, Encoding};

/// The values of `IQ4_NL` (ggml's `kvalues_iq4nl`).
const IQ4_NL_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Twice the values of FP4 E2M1 (OCP Microscaling Formats v1.0, table 5).
const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `table[q] * d`, the lookup as a tree of selections, because LLVM makes vectors of that.
#[inline(always)]
fn look_up(table: [i8; 16], q: Quants, d: f32) -> [f32; BLOCK] {
    let mut values = [0i8; BLOCK];
    for i in 0..BLOCK {
        let bit = |n: u8, zero: i8, one: i8| if q[i] & (1 << n) == 0 { zero } else { one };
        let pair = |p: usize| bit(0, table[2 * p], table[2 * p + 1]);
        let four = |f: usize| bit(1, pair(2 * f), pair(2 * f + 1));
        let eight = |e: usize| bit(2, four(2 * e), four(2 * e + 1));
        values[i] = bit(3, eight(0), eight(1));
    }
    let mut w = [0.0; BLOCK];
    for i in 0..BLOCK {
        w[i] = f32::from(values[i]) * d;
    }
    w
}

/// 4 bits, unevenly spaced: `d * table[q]`.
#[allow(non_camel_case_types)]
pub struct IQ4_NL;

impl Packed for IQ4_NL {
    const ENCODING: Encoding = Encoding::IQ4_NL;
    type Factor = f32;

    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        scales.copy_from_slice(&file[..2]);
        main.copy_from_slice(&file[2..]);
    }

    #[inline(always)]
    fn factors(planes: Planes, first: usize, factors: &mut [f32]) {
        for (i, factor) in factors.iter_mut().enumerate() {
            *factor = f16_at::<2>(planes.scales(first + i), 0);
        }
    }

    #[inline(always)]
    fn weights(planes: Planes, block: usize, d: f32) -> [f32; BLOCK] {
        look_up(IQ4_NL_VALUES, nibbles(planes.main(block)), d)
    }
}

/// 4-bit floats with a power of two as scale (OCP Microscaling Formats v1.0).
pub struct MXFP4;

impl Packed for MXFP4 {
    const ENCODING: Encoding = Encoding::MXFP4;
    type Factor = f32;

    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        scales.copy_from_slice(&file[..1]);
        main.copy_from_slice(&file[1..]);
    }

    #[inline(always)]
    fn factors(planes: Planes, first: usize, factors: &mut [f32]) {
        for (i, factor) in factors.iter_mut().enumerate() {
            // 2^(e - 128): half of the scale, since the table holds doubled values. The two
            // smallest are subnormal. As ggml, 255 is a number here, not the format's NaN.
            let [e] = *planes.scales::<1>(first + i);
            let bits = if e < 2 {
                0x0020_0000 << e
            } else {
                (u32::from(e) - 1) << 23
            };
            *factor = f32::from_bits(bits);
        }
    }

    #[inline(always)]
    fn weights(planes: Planes, block: usize, d: f32) -> [f32; BLOCK] {
        look_up(MXFP4_VALUES, nibbles(planes.main(block)), d)
    }
}
