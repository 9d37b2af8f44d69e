//! Super-blocks of 256 with scales of their own precision: `Q2_K` to `Q6_K`.
//!
//! Eight packed blocks share a super-block's scales. Bits are numbered as in the packed planes;
//! the layouts of the files are told where they are packed.

use super::unpack::{
    Quants, affine, affine_nibbles, half_at, pack_bits, pack_crumbs, pack_nibbles, symmetric,
};
use super::{BlockEncoding, Planes, Simd};
use wisp_types::encoding::{BLOCK, Encoding};

/// BlockEncoding blocks of a super-block.
const BLOCKS: usize = 8;

/// The part of a plane that belongs to packed block `b` of a super-block.
fn part(plane: &mut [u8], b: usize) -> &mut [u8] {
    let bytes = plane.len() / BLOCKS;
    &mut plane[b * bytes..(b + 1) * bytes]
}

/// Two bits a weight as `Q2_K` and `Q3_K` files hold them: weight `128n + 32s + l` is in bits `2s`
/// and `2s + 1` of byte `32n + l`.
fn file_crumbs(bytes: &[u8], b: usize) -> Quants {
    std::array::from_fn(|l| bytes[32 * (b / 4) + l] >> (2 * (b % 4)) & 3)
}

/// Four bits a weight as `Q4_K` and `Q5_K` files hold them: weight `64n + 32s + l` is nibble `s`
/// of byte `32n + l`.
fn file_nibbles(bytes: &[u8], b: usize) -> Quants {
    std::array::from_fn(|l| bytes[32 * (b / 2) + l] >> (4 * (b % 2)) & 15)
}

/// One bit a weight as files hold it: weight `32b + l` is bit `b` of byte `l`.
fn file_bits(bytes: &[u8], b: usize) -> Quants {
    std::array::from_fn(|l| bytes[l] >> b & 1)
}

/// Reads the factors of blocks from `first` on, a super-block's at once.
#[inline(always)]
fn each_super_block<const N: usize, F: Copy>(
    planes: Planes,
    first: usize,
    factors: &mut [F],
    read: impl Fn(&[u8; N]) -> [F; BLOCKS],
) {
    let (group, skip) = (first / BLOCKS, first % BLOCKS);
    if skip == 0 && factors.len().is_multiple_of(BLOCKS) {
        let (factors, _) = factors.as_chunks_mut();
        let scales = planes.many_scales(group, factors.len());
        for (factors, words) in factors.iter_mut().zip(scales) {
            *factors = read(words);
        }
    } else {
        for (i, factor) in (first..).zip(factors) {
            *factor = read(planes.scales(i / BLOCKS))[i % BLOCKS];
        }
    }
}

/// Word `i` of a super-block's scales.
#[inline(always)]
fn word<const N: usize>(words: &[u8; N], i: usize) -> u32 {
    u32::from_le_bytes(words.as_chunks().0[i])
}

/// 2 bits: `d * scale * q - dmin * minimum`, scales and minima of 4 bits for 16 weights.
#[allow(non_camel_case_types)]
pub struct Q2_K;

impl BlockEncoding for Q2_K {
    const ENCODING: Encoding = Encoding::Q2_K;
    /// The scales and the minima of a block's two halves.
    type Scales = [[f32; 2]; 2];

    // File: 16 bytes scales and minima, 64 bytes weights, half d, half dmin.
    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        for b in 0..BLOCKS {
            pack_crumbs(&file_crumbs(&file[16..80], b), part(main, b));
        }
        scales[..4].copy_from_slice(&file[80..84]);
        scales[4..].copy_from_slice(&file[..16]);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [[[f32; 2]; 2]]) {
        each_super_block::<20, _>(planes, first, factors, |words| {
            let (d, dmin) = (half_at::<S, _>(words, 0), half_at::<S, _>(words, 2));
            let bytes: &[[u8; 2]] = words[4..].as_chunks().0;
            let mut factors = [[[0.0; 2]; 2]; BLOCKS];
            for b in 0..BLOCKS {
                for half in 0..2 {
                    factors[b][0][half] = d * f32::from(bytes[b][half] & 15);
                    factors[b][1][half] = dmin * f32::from(bytes[b][half] >> 4);
                }
            }
            factors
        });
    }

    #[inline(always)]
    fn load_weights<S: Simd>(
        planes: Planes,
        block: usize,
        [scales, minima]: &[[f32; 2]; 2],
    ) -> [S::Floats; 2] {
        affine::<S>(
            S::unpack_2bit(planes.main(block)),
            [scales[0], scales[1]],
            [-minima[0], -minima[1]],
        )
    }
}

/// 3 bits: `d * (scale - 32) * (q - 4)`, scales of 6 bits for 16 weights.
#[allow(non_camel_case_types)]
pub struct Q3_K;

impl BlockEncoding for Q3_K {
    const ENCODING: Encoding = Encoding::Q3_K;
    /// The scales of a block's two halves.
    type Scales = [f32; 2];

    // File: 32 bytes third bits, 64 bytes weights, 12 bytes scales, half d. Scale i has its low
    // four bits in nibble i / 8 of byte i % 8, its high two in bits 2 (i / 4) of byte 8 + i % 4.
    fn pack(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
        for b in 0..BLOCKS {
            pack_crumbs(&file_crumbs(&file[32..96], b), part(main, b));
            pack_bits(&file_bits(&file[..32], b), part(high, b));
        }
        scales.fill(0);
        scales[..2].copy_from_slice(&file[108..110]);
        for i in 0..16 {
            let low = file[96 + i % 8] >> (4 * (i / 8)) & 15;
            let top = file[104 + i % 4] >> (2 * (i / 4)) & 3;
            scales[4 + i / 2] |= low << (4 * (i % 2));
            scales[12 + i / 4] |= top << (2 * (i % 4));
        }
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [[f32; 2]]) {
        each_super_block::<16, _>(planes, first, factors, |words| {
            let d = half_at::<S, _>(words, 0);
            let (low, top) = ([word(words, 1), word(words, 2)], word(words, 3));
            let mut scales = [0.0; 2 * BLOCKS];
            for i in 0..2 * BLOCKS {
                let bits = (low[i / 8] >> (4 * (i % 8)) & 15) | (top >> (2 * i) & 3) << 4;
                scales[i] = d * (bits as i32 - 32) as f32;
            }
            bytemuck::cast(scales)
        });
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, scales: &[f32; 2]) -> [S::Floats; 2] {
        let low = S::unpack_2bit(planes.main(block));
        symmetric::<S>(
            S::or_shifted::<2>(low, S::unpack_1bit(planes.high(block))),
            4,
            [scales[0], scales[1]],
        )
    }
}

/// Packs the scales of `Q4_K` and `Q5_K`, which begin their files: half d, half dmin, 12 bytes
/// with 6-bit scales and minima. The first four of each are the low bits of bytes 0..4 and 4..8;
/// of the others bytes 8..12 hold the low nibbles, and the free bits of the former the high two.
fn pack_six_bit_scales(file: &[u8], scales: &mut [u8]) {
    scales.fill(0);
    scales[..4].copy_from_slice(&file[..4]);
    let bytes = &file[4..16];
    for j in 0..BLOCKS {
        let (scale, minimum) = if j < 4 {
            (bytes[j] & 63, bytes[j + 4] & 63)
        } else {
            (
                (bytes[j + 4] & 15) | (bytes[j - 4] >> 6 << 4),
                (bytes[j + 4] >> 4) | (bytes[j] >> 6 << 4),
            )
        };
        for (at, value) in [(0, scale), (1, minimum)] {
            scales[4 + 4 * at + j / 2] |= (value & 15) << (4 * (j % 2));
            scales[12 + 2 * at + j / 4] |= (value >> 4) << (2 * (j % 4));
        }
    }
}

/// Scale and minimum of each block of `Q4_K` and `Q5_K`.
#[inline(always)]
fn six_bit_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [[f32; 2]]) {
    each_super_block::<16, _>(planes, first, factors, |words| {
        let (d, dmin) = (half_at::<S, _>(words, 0), half_at::<S, _>(words, 2));
        let (scales, minima, top) = (word(words, 1), word(words, 2), word(words, 3));
        let mut factors = [[0.0; 2]; BLOCKS];
        for (b, factor) in factors.iter_mut().enumerate() {
            let scale = (scales >> (4 * b) & 15) | (top >> (2 * b) & 3) << 4;
            let minimum = (minima >> (4 * b) & 15) | (top >> (16 + 2 * b) & 3) << 4;
            *factor = [d * scale as i32 as f32, dmin * minimum as i32 as f32];
        }
        factors
    });
}

/// 4 bits: `d * scale * q - dmin * minimum`, scales and minima of 6 bits for 32 weights.
#[allow(non_camel_case_types)]
pub struct Q4_K;

impl BlockEncoding for Q4_K {
    const ENCODING: Encoding = Encoding::Q4_K;
    /// Scale and minimum.
    type Scales = [f32; 2];

    // File: 16 bytes scales, 128 bytes weights.
    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        pack_six_bit_scales(file, scales);
        for b in 0..BLOCKS {
            pack_nibbles(&file_nibbles(&file[16..], b), part(main, b));
        }
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [[f32; 2]]) {
        six_bit_scales::<S>(planes, first, factors);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, [d, m]: &[f32; 2]) -> [S::Floats; 2] {
        affine_nibbles::<S>(planes.main(block), *d, -*m)
    }
}

/// 5 bits: as [`Q4_K`].
#[allow(non_camel_case_types)]
pub struct Q5_K;

impl BlockEncoding for Q5_K {
    const ENCODING: Encoding = Encoding::Q5_K;
    /// Scale and minimum.
    type Scales = [f32; 2];

    // File: 16 bytes scales, 32 bytes fifth bits, 128 bytes weights.
    fn pack(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
        pack_six_bit_scales(file, scales);
        for b in 0..BLOCKS {
            pack_nibbles(&file_nibbles(&file[48..], b), part(main, b));
            pack_bits(&file_bits(&file[16..48], b), part(high, b));
        }
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [[f32; 2]]) {
        six_bit_scales::<S>(planes, first, factors);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, [d, m]: &[f32; 2]) -> [S::Floats; 2] {
        let low = S::unpack_4bit(planes.main(block));
        affine::<S>(
            S::or_shifted::<4>(low, S::unpack_1bit(planes.high(block))),
            [*d, *d],
            [-*m, -*m],
        )
    }
}

/// 6 bits: `d * scale * (q - 32)`, scales of 8 bits for 16 weights.
#[allow(non_camel_case_types)]
pub struct Q6_K;

impl BlockEncoding for Q6_K {
    const ENCODING: Encoding = Encoding::Q6_K;
    /// The scales of a block's two halves.
    type Scales = [f32; 2];

    // File: 128 bytes low nibbles, 64 bytes high crumbs, 16 bytes scales, half d. Weight
    // 128n + 32s + l: nibble s / 2 of byte 64n + 32 (s % 2) + l, crumb s of byte 128 + 32n + l.
    fn pack(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
        for b in 0..BLOCKS {
            let (n, s) = (b / 4, b % 4);
            let low = &file[64 * n + 32 * (s % 2)..][..BLOCK];
            let low = std::array::from_fn(|l| low[l] >> (4 * (s / 2)));
            pack_nibbles(&low, part(main, b));
            pack_crumbs(&file_crumbs(&file[128..192], b), part(high, b));
        }
        scales.fill(0);
        scales[..2].copy_from_slice(&file[208..210]);
        scales[4..].copy_from_slice(&file[192..208]);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [[f32; 2]]) {
        each_super_block::<20, _>(planes, first, factors, |words| {
            let d = half_at::<S, _>(words, 0);
            let mut scales = [0.0; 2 * BLOCKS];
            for (scale, byte) in scales.iter_mut().zip(&words[4..]) {
                *scale = d * f32::from(*byte as i8);
            }
            bytemuck::cast(scales)
        });
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, scales: &[f32; 2]) -> [S::Floats; 2] {
        let low = S::unpack_4bit(planes.main(block));
        symmetric::<S>(
            S::or_shifted::<4>(low, S::unpack_2bit(planes.high(block))),
            32,
            [scales[0], scales[1]],
        )
    }
}
