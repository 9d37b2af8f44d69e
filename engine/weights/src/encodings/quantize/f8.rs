//! The quantiser to 8-bit floats, `F8_E4M3`.

use wisp_types::encoding::BLOCK;

/// The largest finite number of the format.
const MAX: f32 = 448.0;

/// Computes the `F8_E4M3` scale of a tensor from its largest magnitude, which becomes the format's largest
/// number.
pub fn f8_scale(largest: f32) -> f32 {
    largest / MAX
}

/// Appends whole blocks of weights, divided by the scale of their tensor and rounded to the nearest
/// number; ties to even.
pub(super) fn f8_e4m3(weights: &[f32], scale: f32, out: &mut Vec<u8>) {
    for block in weights.chunks_exact(BLOCK) {
        out.extend(scale.to_le_bytes());
        let byte = |&weight: &f32| {
            if scale == 0.0 {
                0
            } else {
                round(weight / scale)
            }
        };
        out.extend(block.iter().map(byte));
    }
}

/// Returns the nearest number of the format; ties to even. Larger magnitudes become the largest number.
fn round(x: f32) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = x.abs().min(MAX);
    // The smallest normal number is 2^-6. Numbers below it are 2^-9 apart.
    let bits = if magnitude < 0.015_625 {
        (magnitude * 512.0).round_ties_even() as u32
    } else {
        let bits = magnitude.to_bits();
        let even = (bits >> 20) & 1;
        ((bits + 0x7_ffff + even) >> 20) - (120 << 3)
    };
    // At most 0x7e, because the magnitude is at most `MAX`.
    bits as u8 | sign
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use wisp_types::Encoding;

    use super::*;
    use crate::encodings::dequantize;

    /// Returns the value of a byte by the definition of the format.
    fn value_of(byte: u8) -> f64 {
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
    fn every_byte_has_the_value_that_the_format_defines() {
        for scale in [1.0f32, 0.37] {
            for byte in 0..=255 {
                let mut file = scale.to_le_bytes().to_vec();
                file.extend([byte; BLOCK]);
                let expected = value_of(byte) as f32 * scale;
                let weights = dequantize(Encoding::F8_E4M3, &file, 1, BLOCK).unwrap();
                assert!(weights.iter().all(|w| *w == expected), "{byte:#x}");
            }
        }
    }

    #[test]
    fn numbers_of_the_format_are_kept() {
        for byte in (0..=255u8).filter(|byte| byte & 0x7f != 0x7f) {
            assert_eq!(round(value_of(byte) as f32), byte);
        }
        assert_eq!(round(1e30), 0x7e);
        assert_eq!(round(-1e30), 0xfe);
    }

    proptest! {
        #[test]
        fn other_numbers_become_the_nearest(x in prop_oneof![-460.0f32..460.0, -0.02f32..0.02]) {
            let off = |byte: u8| (value_of(byte) - f64::from(x)).abs();
            let got = round(x);
            let all = (0..=255u8).filter(|byte| byte & 0x7f != 0x7f);
            let nearest = all.clone().map(off).fold(f64::INFINITY, f64::min);
            prop_assert_eq!(off(got), nearest);
            let ties = all.filter(|byte| off(*byte) == nearest && (byte ^ got) & 0x80 == 0).count();
            prop_assert!(ties == 1 || got & 1 == 0, "{} became {:#x}", x, got);
        }
    }
}
