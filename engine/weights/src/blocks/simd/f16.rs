//! Half-precision floats in software.

/// Converts the bits of a half to `f32`, exactly. It has neither branches nor the CPU's own conversion, so
/// that the compiler vectorises loops over it on every CPU.
#[inline(always)]
pub(super) fn f16_to_f32(half: u16) -> f32 {
    const EXPONENT: u32 = 0x7c00 << 13;
    // The exponent of half the smallest normal half. Adding it to the bits of a subnormal half and
    // subtracting it as a float normalises the half.
    const MAGIC: u32 = 113 << 23;
    let magnitude = (u32::from(half) & 0x7fff) << 13;
    let sign = (u32::from(half) & 0x8000) << 16;
    let exponent = magnitude & EXPONENT;
    let normal = magnitude + (112 << 23);
    let infinite = magnitude + (224 << 23);
    let subnormal = (f32::from_bits(magnitude + MAGIC) - f32::from_bits(MAGIC)).to_bits();
    let finite = if exponent == 0 { subnormal } else { normal };
    let bits = if exponent == EXPONENT {
        infinite
    } else {
        finite
    };
    f32::from_bits(bits | sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_converted_exactly() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f16_to_f32(bits), half::f16::from_bits(bits).to_f32());
            if theirs.is_nan() {
                assert!(ours.is_nan(), "{bits:#x}");
            } else {
                assert_eq!(ours.to_bits(), theirs.to_bits(), "{bits:#x}");
            }
        }
    }
}
