//! Integers with a zero point: `UINT4` and `UINT8`, which checkpoints in GPTQ, AWQ and compressed-tensors become.

use wisp_types::encoding::Encoding;

use super::{
    block_encoding::BlockEncoding,
    formulas::{shifted_bytes, shifted_nibbles},
    planes::Planes,
    simd::Simd,
};

/// The scale and zero point of a block in one word: the lowest bits of the scale make room for the zero point.
///
/// Scales in half precision or bfloat16 have zeros there, so that nothing is lost. Those in single precision are
/// rounded to 20 significant bits beside a zero point of 4 bits, and to 16 beside one of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroPoint<const BITS: u32>(pub u32);

impl<const BITS: u32> ZeroPoint<BITS> {
    const MASK: u32 = (1 << BITS) - 1;

    /// Joins a scale and a zero point, of which the lowest `BITS` bits are used.
    pub fn new(scale: f32, zero: u32) -> ZeroPoint<BITS> {
        let bits = scale.to_bits();
        let even = bits >> BITS & 1;
        let rounded = bits.saturating_add(Self::MASK / 2 + even);
        // Infinity and NaN stay what they are.
        let bits = if scale.is_finite() { rounded } else { bits };
        ZeroPoint(bits & !Self::MASK | zero & Self::MASK)
    }

    /// Returns the scale.
    #[inline(always)]
    pub fn scale(self) -> f32 {
        f32::from_bits(self.0 & !Self::MASK)
    }

    /// Returns the zero point.
    #[inline(always)]
    pub fn zero(self) -> i32 {
        (self.0 & Self::MASK) as i32
    }
}

/// Reads the scale of each block, and `bias - zero`.
#[inline(always)]
fn load_scales<const BITS: u32>(planes: Planes, first: usize, scales: &mut [[f32; 2]], bias: i32) {
    let words = planes.many_scales::<4>(first, scales.len());
    for (scale, word) in scales.iter_mut().zip(words) {
        let word = ZeroPoint::<BITS>(u32::from_le_bytes(*word));
        *scale = [word.scale(), (bias - word.zero()) as f32];
    }
}

/// 4 bits: `scale * (q - zero)`. A block is the word of [`ZeroPoint<4>`], then the nibbles.
pub struct UINT4;

impl BlockEncoding for UINT4 {
    const ENCODING: Encoding = Encoding::UINT4;
    /// Scale, and what is added to an integer.
    type Scales = [f32; 2];

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[f32; 2]]) {
        load_scales::<4>(planes, first, scales, 0);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, [d, add]: &[f32; 2]) -> [S::Floats; 2] {
        shifted_nibbles::<S>(planes.main(block), *d, *add)
    }
}

/// 8 bits: `scale * (q - zero)`. A block is the word of [`ZeroPoint<8>`], then the bytes `q - 128`.
pub struct UINT8;

impl BlockEncoding for UINT8 {
    const ENCODING: Encoding = Encoding::UINT8;
    /// Scale, and what is added to a byte.
    type Scales = [f32; 2];

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[f32; 2]]) {
        load_scales::<8>(planes, first, scales, 128);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, [d, add]: &[f32; 2]) -> [S::Floats; 2] {
        shifted_bytes::<S>(S::load_bytes(planes.main(block)), *d, *add)
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn scales_in_half_precision_lose_nothing() {
        for bits in 0..=u16::MAX {
            let zero = u32::from(bits) & 255;
            for scale in [
                f16::from_bits(bits).to_f32(),
                bf16::from_bits(bits).to_f32(),
            ] {
                let four = ZeroPoint::<4>::new(scale, zero & 15);
                let eight = ZeroPoint::<8>::new(scale, zero);
                if scale.is_finite() {
                    assert_eq!((four.scale(), eight.scale()), (scale, scale));
                }
                assert_eq!(four.zero(), (zero & 15) as i32);
                assert_eq!(eight.zero(), zero as i32);
            }
        }
    }

    #[test]
    fn scales_in_single_precision_are_rounded_to_the_nearest() {
        for i in 0..1000 {
            let scale = (i as f32 * 0.37 + 0.1).sin() * 1e-2;
            let four = ZeroPoint::<4>::new(scale, 8).scale();
            assert!(
                (four - scale).abs() <= scale.abs() * 2f32.powi(-20),
                "{scale}"
            );
            let eight = ZeroPoint::<8>::new(scale, 128).scale();
            assert!(
                (eight - scale).abs() <= scale.abs() * 2f32.powi(-16),
                "{scale}"
            );
        }
        assert!(ZeroPoint::<4>::new(f32::NAN, 3).scale().is_nan());
        assert_eq!(
            ZeroPoint::<8>::new(f32::NEG_INFINITY, 3).scale(),
            f32::NEG_INFINITY
        );
    }
}
