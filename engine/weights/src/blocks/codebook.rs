//! Blocks of 32 nibbles that index a table of sixteen values: `IQ4_NL`, `IQ4_XS`, `MXFP4`, `NVFP4`, `NF4`.

use wisp_types::encoding::Encoding;

use super::{
    block_encoding::BlockEncoding,
    formulas::lookup,
    k_quants::{SUPER_BLOCK, SuperBlockScales, load_super_blocks, word},
    planes::Planes,
    scales::{self, half_at, load_f32_scales},
    simd::Simd,
};

/// The values of `IQ4_NL` and `IQ4_XS` (ggml's `kvalues_iq4nl`).
pub(super) const IQ4_NL_VALUES: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

/// Twice the values of FP4 E2M1 (OCP Microscaling Formats v1.0, table 5).
pub(super) const MXFP4_VALUES: [f32; 16] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0,
];

/// The values of bitsandbytes' NF4: the quantiles of a normal distribution, with an exact zero (Dettmers et al. 2023,
/// "QLoRA", appendix E).
pub(crate) const NF4_VALUES: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// 4 bits, unevenly spaced: `d * table[q]`.
#[allow(non_camel_case_types)]
pub struct IQ4_NL;

impl BlockEncoding for IQ4_NL {
    const ENCODING: Encoding = Encoding::IQ4_NL;
    type Scales = f32;

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
        scales::load_scales::<S>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        lookup::<S>(&IQ4_NL_VALUES, planes.main(block), *d)
    }
}

/// 4 bits, unevenly spaced: `d * (scale - 32) * table[q]`, with scales of 6 bits for each 32 weights.
#[allow(non_camel_case_types)]
pub struct IQ4_XS;

impl BlockEncoding for IQ4_XS {
    const ENCODING: Encoding = Encoding::IQ4_XS;
    type Scales = f32;

    // File: half d, the high two bits of the scales in bits 2b and 2b + 1 of two bytes, their low four bits
    // in the nibbles of four bytes, 128 bytes of weights.
    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
        load_super_blocks::<S, Self, 8>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        lookup::<S>(&IQ4_NL_VALUES, planes.main(block), *d)
    }
}

impl SuperBlockScales<8> for IQ4_XS {
    #[inline(always)]
    fn read<S: Simd>(bytes: &[u8; 8]) -> [Self::Scales; SUPER_BLOCK] {
        let d = half_at::<S, _>(bytes, 0);
        let (top, low) = (word(bytes, 0) >> 16, word(bytes, 1));
        let mut scales = [0.0; SUPER_BLOCK];
        for (b, scale) in scales.iter_mut().enumerate() {
            let bits = (low >> (4 * b) & 15) | (top >> (2 * b) & 3) << 4;
            *scale = d * (bits as i32 - 32) as f32;
        }
        scales
    }
}

/// Returns 2^(e - 128), half of the scale with exponent byte `e`, because the table has doubled values.
#[inline(always)]
pub(super) fn half_of_power(e: u8) -> f32 {
    // The two smallest are subnormal. As in ggml, 255 is a number, not the format's NaN.
    f32::from_bits(match e < 2 {
        true => 0x0020_0000 << e,
        false => (u32::from(e) - 1) << 23,
    })
}

/// 4-bit floats with a power of two as scale (OCP Microscaling Formats v1.0).
pub struct MXFP4;

impl BlockEncoding for MXFP4 {
    const ENCODING: Encoding = Encoding::MXFP4;
    type Scales = f32;

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
        let exponents = planes.many_scales::<1>(first, scales.len());
        for (scale, [e]) in scales.iter_mut().zip(exponents) {
            *scale = half_of_power(*e);
        }
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        lookup::<S>(&MXFP4_VALUES, planes.main(block), *d)
    }
}

/// 4-bit floats, times an 8-bit float (E4M3) for each 16 weights and a scale in single precision for each 64.
pub struct NVFP4;

/// Half of each 8-bit float without sign (E4M3, Micikevicius et al. 2022, "FP8 formats for deep learning"), because the
/// table of the 4-bit floats has doubled values. The format's NaN is read as 480: no checkpoint shows it.
const HALVES_OF_E4M3: [f32; 128] = {
    let mut table = [0.0; 128];
    let mut i = 0;
    while i < table.len() {
        let (exponent, mantissa) = ((i >> 3) as u32, (i & 7) as u32);
        let (exponent, mantissa) = match exponent {
            0 => (1, mantissa),
            _ => (exponent, mantissa | 8),
        };
        table[i] = mantissa as f32 * f32::from_bits((exponent + 116) << 23);
        i += 1;
    }
    table
};

/// Returns the scales of the four halves of a pair of blocks of `NVFP4`.
#[inline(always)]
pub(super) fn nvfp4_scales(pair: &[u8; 8]) -> [f32; 4] {
    let (d, bytes) = (f32::from_bits(word(pair, 0)), word(pair, 1));
    let mut scales = [0.0; 4];
    for (half, scale) in scales.iter_mut().enumerate() {
        *scale = d * HALVES_OF_E4M3[(bytes >> (8 * half) & 0x7f) as usize];
    }
    scales
}

impl BlockEncoding for NVFP4 {
    const ENCODING: Encoding = Encoding::NVFP4;
    /// The scales of the two halves.
    type Scales = [f32; 2];

    // File: the float d, four scales, 32 bytes of weights.
    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[f32; 2]]) {
        for (i, scales) in (first..).zip(scales) {
            let of_pair = nvfp4_scales(planes.scales(i / 2));
            *scales = of_pair.as_chunks().0[i % 2];
        }
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, scales: &[f32; 2]) -> [S::Floats; 2] {
        let q = S::lookup(S::load(&MXFP4_VALUES), planes.main(block));
        [
            S::mul(q[0], S::splat(scales[0])),
            S::mul(q[1], S::splat(scales[1])),
        ]
    }
}

/// The 16 values of bitsandbytes' NF4, times a scale in single precision.
pub struct NF4;

impl BlockEncoding for NF4 {
    const ENCODING: Encoding = Encoding::NF4;
    type Scales = f32;

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
        load_f32_scales(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        lookup::<S>(&NF4_VALUES, planes.main(block), *d)
    }
}
