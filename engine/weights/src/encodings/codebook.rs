//! Blocks of 32 nibbles that index a table of sixteen values: `IQ4_NL`, `MXFP4`.

use super::legacy::scales;
use super::unpack::table;
use super::{BlockEncoding, Planes, Simd};
use wisp_types::encoding::Encoding;

/// The values of `IQ4_NL` (ggml's `kvalues_iq4nl`).
const IQ4_NL_VALUES: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

/// Twice the values of FP4 E2M1 (OCP Microscaling Formats v1.0, table 5).
const MXFP4_VALUES: [f32; 16] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0,
];

/// 4 bits, unevenly spaced: `d * table[q]`.
#[allow(non_camel_case_types)]
pub struct IQ4_NL;

impl BlockEncoding for IQ4_NL {
    const ENCODING: Encoding = Encoding::IQ4_NL;
    type Scales = f32;

    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        scales.copy_from_slice(&file[..2]);
        main.copy_from_slice(&file[2..]);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [f32]) {
        scales::<S>(planes, first, factors);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        table::<S>(&IQ4_NL_VALUES, planes.main(block), *d)
    }
}

/// 4-bit floats with a power of two as scale (OCP Microscaling Formats v1.0).
pub struct MXFP4;

impl BlockEncoding for MXFP4 {
    const ENCODING: Encoding = Encoding::MXFP4;
    type Scales = f32;

    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        scales.copy_from_slice(&file[..1]);
        main.copy_from_slice(&file[1..]);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [f32]) {
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
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        table::<S>(&MXFP4_VALUES, planes.main(block), *d)
    }
}
