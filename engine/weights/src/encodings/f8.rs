//! Floats of a byte: `F8_E4M3`, which weights become while they are loaded; no file has it.

use super::{BlockEncoding, Planes, Simd};
use wisp_types::encoding::{BLOCK, Encoding};

/// The greatest finite number of the format.
const GREATEST: f32 = 448.0;

/// 4 bits of exponent, 3 of mantissa (Micikevicius et al. 2022, "FP8 formats for deep learning"), times
/// a scale. The format's NaN counts as 480; nothing writes it.
#[allow(non_camel_case_types)]
pub struct F8_E4M3;

impl BlockEncoding for F8_E4M3 {
    const ENCODING: Encoding = Encoding::F8_E4M3;
    type Scales = f32;

    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        scales.copy_from_slice(&file[..4]);
        main.copy_from_slice(&file[4..]);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [f32]) {
        let scales = planes.many_scales::<4>(first, factors.len());
        for (factor, scale) in factors.iter_mut().zip(scales) {
            *factor = f32::from_le_bytes(*scale);
        }
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        let bytes = planes.main::<BLOCK>(block);
        let half = |half: usize| {
            // As halves, whose exponents are 8 higher.
            let mut halves = [0; BLOCK];
            for i in 0..16 {
                let byte = u16::from(bytes[16 * half + i]);
                let [low, high] = ((byte & 0x80) << 8 | (byte & 0x7f) << 7).to_le_bytes();
                (halves[2 * i], halves[2 * i + 1]) = (low, high);
            }
            let exact = S::mul(S::load_f16(&halves), S::splat(256.0));
            S::mul(exact, S::splat(*d))
        };
        [half(0), half(1)]
    }
}

/// The scale of a tensor whose greatest magnitude is given: that becomes the format's greatest number.
pub fn f8_scale(greatest: f32) -> f32 {
    greatest / GREATEST
}

/// Appends whole blocks of weights, divided by the scale of their tensor and rounded to the nearest
/// number, ties to even.
pub(super) fn f8_e4m3(weights: &[f32], scale: f32, out: &mut Vec<u8>) {
    for block in weights.chunks_exact(BLOCK) {
        out.extend(scale.to_le_bytes());
        let byte = |&weight: &f32| {
            if scale == 0.0 {
                0
            } else {
                rounded(weight / scale)
            }
        };
        out.extend(block.iter().map(byte));
    }
}

/// The nearest number of the format, ties to even; past the greatest the greatest.
fn rounded(x: f32) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = x.abs().min(GREATEST);
    // The least normal number is 2^-6; below it they are 2^-9 apart.
    let bits = if magnitude < 0.015_625 {
        (magnitude * 512.0).round_ties_even() as u32
    } else {
        let bits = magnitude.to_bits();
        let even = (bits >> 20) & 1;
        ((bits + 0x7_ffff + even) >> 20) - (120 << 3)
    };
    // At most 0x7e, since the magnitude is at most the greatest.
    bits as u8 | sign
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encodings::dequantize;

    /// What a byte is worth, by the format's definition.
    fn worth(byte: u8) -> f64 {
        let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
        let magnitude = match exponent {
            0 => mantissa / 8.0 * 2f64.powi(-6),
            _ => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
        };
        if byte & 0x80 == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    #[test]
    fn every_byte_is_worth_what_the_format_says() {
        for scale in [1.0f32, 0.37] {
            for byte in 0..=255 {
                let mut file = scale.to_le_bytes().to_vec();
                file.extend([byte; BLOCK]);
                let expected = worth(byte) as f32 * scale;
                let weights = dequantize(Encoding::F8_E4M3, &file, 1, BLOCK).unwrap();
                assert!(weights.iter().all(|w| *w == expected), "{byte:#x}");
            }
        }
    }

    #[test]
    fn numbers_of_the_format_stay() {
        for byte in (0..=255u8).filter(|byte| byte & 0x7f != 0x7f) {
            assert_eq!(rounded(worth(byte) as f32), byte);
        }
        assert_eq!(rounded(1e30), 0x7e);
        assert_eq!(rounded(-1e30), 0xfe);
    }

    proptest! {
        #[test]
        fn others_become_the_nearest(x in prop_oneof![-460.0f32..460.0, -0.02f32..0.02]) {
            let off = |byte: u8| (worth(byte) - f64::from(x)).abs();
            let got = rounded(x);
            let all = (0..=255u8).filter(|byte| byte & 0x7f != 0x7f);
            let nearest = all.clone().map(off).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(off(got), nearest);
            let ties = all.filter(|byte| off(*byte) == nearest && (byte ^ got) & 0x80 == 0).count();
            prop_assert!(ties == 1 || got & 1 == 0, "{} became {:#x}", x, got);
        }
    }
}
