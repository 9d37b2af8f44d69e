//! Blocks of 32 nibbles that index a table of sixteen values: `IQ4_NL`, `MXFP4`.

use super::legacy::scales;
use super::unpack::nibbles;
use super::{Lanes, Packed, Planes};
use crate::weights::encoding::Encoding;

/// The values of `IQ4_NL` (ggml's `kvalues_iq4nl`).
const IQ4_NL_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Twice the values of FP4 E2M1 (OCP Microscaling Formats v1.0, table 5).
const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `table[q] * d`.
#[inline(always)]
fn look_up<L: Lanes>(table: &[i8; 16], q: [L::Bytes; 2], d: f32) -> [L::Floats; 2] {
    q.map(|q| L::mul(L::from_i8(L::look_up(table, q)), L::splat(d)))
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
        scales(planes, first, factors);
    }

    #[inline(always)]
    fn weights<L: Lanes>(planes: Planes, block: usize, d: f32) -> [L::Floats; 2] {
        look_up::<L>(&IQ4_NL_VALUES, nibbles::<L>(planes.main(block)), d)
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
        let scales = planes.many_scales::<1>(first, factors.len());
        for (factor, [e]) in factors.iter_mut().zip(scales) {
            // 2^(e - 128): half of the scale, since the table holds doubled values. The two
            // smallest are subnormal. As ggml, 255 is a number here, not the format's NaN.
            let bits = if *e < 2 {
                0x0020_0000 << e
            } else {
                (u32::from(*e) - 1) << 23
            };
            *factor = f32::from_bits(bits);
        }
    }

    #[inline(always)]
    fn weights<L: Lanes>(planes: Planes, block: usize, d: f32) -> [L::Floats; 2] {
        look_up::<L>(&MXFP4_VALUES, nibbles::<L>(planes.main(block)), d)
    }
}
