//! Blocks of 32 weights with one scale: `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, `Q8_0`.
//!
//! A block of a file has the half `d`, then (`_1`) the half `m`, then (`Q5`) the fifth bits of all weights
//! as one `u32`, bit `i` of weight `i`, then the nibbles or bytes, in the order of the main plane.

use wisp_types::encoding::{BLOCK, Encoding};

use super::{
    bits::{Integers, pack_1bit},
    block_encoding::BlockEncoding,
    formulas::{affine, affine_nibbles, symmetric, symmetric_nibbles},
    planes::Planes,
    scales,
    simd::Simd,
};

/// 4 bits: `d * (q - 8)`.
#[allow(non_camel_case_types)]
pub struct Q4_0;

impl BlockEncoding for Q4_0 {
    const ENCODING: Encoding = Encoding::Q4_0;
    type Scales = f32;

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
        scales::load_scales::<S>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        symmetric_nibbles::<S>(planes.main(block), *d)
    }
}

/// 4 bits: `d * q + m`.
#[allow(non_camel_case_types)]
pub struct Q4_1;

impl BlockEncoding for Q4_1 {
    const ENCODING: Encoding = Encoding::Q4_1;
    /// Scale and minimum.
    type Scales = [f32; 2];

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[f32; 2]]) {
        scales::load_scales_and_minima::<S>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, [d, m]: &[f32; 2]) -> [S::Floats; 2] {
        affine_nibbles::<S>(planes.main(block), *d, *m)
    }
}

/// Unpacks nibbles and their fifth bits.
#[inline(always)]
fn unpack_5bit<S: Simd>(planes: Planes, block: usize) -> S::Bytes {
    let low = S::unpack_4bit(planes.main(block));
    S::or_shifted::<4>(low, S::unpack_1bit(planes.high(block)))
}

/// Packs a block of a file whose fifth bits follow the scales.
#[inline(always)]
fn pack_5bit(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
    let (file_scales, rest) = file.split_at(scales.len());
    let (fifth_bits, nibbles) = rest.split_at(4);
    scales.copy_from_slice(file_scales);
    let mut q: Integers = [0; BLOCK];
    for (i, q) in q.iter_mut().enumerate() {
        *q = fifth_bits[i / 8] >> (i % 8);
    }
    pack_1bit(&q, high);
    main.copy_from_slice(nibbles);
}

/// 5 bits: `d * (q - 16)`.
#[allow(non_camel_case_types)]
pub struct Q5_0;

impl BlockEncoding for Q5_0 {
    const ENCODING: Encoding = Encoding::Q5_0;
    type Scales = f32;

    #[inline(always)]
    fn pack(file: &[u8], planes: [&mut [u8]; 3]) {
        pack_5bit(file, planes);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
        scales::load_scales::<S>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        symmetric::<S>(unpack_5bit::<S>(planes, block), 16, [*d, *d])
    }
}

/// 5 bits: `d * q + m`.
#[allow(non_camel_case_types)]
pub struct Q5_1;

impl BlockEncoding for Q5_1 {
    const ENCODING: Encoding = Encoding::Q5_1;
    /// Scale and minimum.
    type Scales = [f32; 2];

    #[inline(always)]
    fn pack(file: &[u8], planes: [&mut [u8]; 3]) {
        pack_5bit(file, planes);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[f32; 2]]) {
        scales::load_scales_and_minima::<S>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, [d, m]: &[f32; 2]) -> [S::Floats; 2] {
        affine::<S>(unpack_5bit::<S>(planes, block), [*d; 2], [*m; 2])
    }
}

/// 8 bits: `d * q`.
#[allow(non_camel_case_types)]
pub struct Q8_0;

impl BlockEncoding for Q8_0 {
    const ENCODING: Encoding = Encoding::Q8_0;
    type Scales = f32;

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
        scales::load_scales::<S>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        let q = S::i8_to_f32(S::load_bytes(planes.main(block)));
        [S::mul(q[0], S::splat(*d)), S::mul(q[1], S::splat(*d))]
    }
}
