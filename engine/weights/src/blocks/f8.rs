//! 8-bit floats: `F8_E4M3`, which FP8 weights become while they are loaded, and float weights may.

use wisp_types::encoding::{BLOCK, Encoding};

use super::{block_encoding::BlockEncoding, planes::Planes, scales::load_f32_scales, simd::Simd};

/// 4 bits of exponent, 3 of mantissa (Micikevicius et al. 2022, "FP8 formats for deep learning"), times
/// a scale. The format's NaN is read as 480; nothing writes it.
#[allow(non_camel_case_types)]
pub struct F8_E4M3;

impl BlockEncoding for F8_E4M3 {
    const ENCODING: Encoding = Encoding::F8_E4M3;
    type Scales = f32;

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
        load_f32_scales(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        let (halves, _) = planes.main::<BLOCK>(block).as_chunks();
        [
            load_half::<S>(&halves[0], *d),
            load_half::<S>(&halves[1], *d),
        ]
    }
}

/// Reads the 16 weights of half a block.
#[inline(always)]
fn load_half<S: Simd>(bytes: &[u8; 16], scale: f32) -> S::Floats {
    // The same bits as halves, whose exponents are 8 higher.
    let mut halves = [0; BLOCK];
    for (to, byte) in halves.as_chunks_mut().0.iter_mut().zip(bytes) {
        let byte = u16::from(*byte);
        *to = ((byte & 0x80) << 8 | (byte & 0x7f) << 7).to_le_bytes();
    }
    let exact = S::mul(S::load_f16(&halves), S::splat(256.0));
    S::mul(exact, S::splat(scale))
}
