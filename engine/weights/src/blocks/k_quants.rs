//! Super-blocks of 256 weights, whose sub-blocks have small integers as scales: `Q2_K` to `Q6_K`.
//!
//! Eight packed blocks share the scales of a super-block. Comments give the layout of a file's super-block
//! in the order of its bytes, with the numbers of weights within the super-block.

use wisp_types::encoding::{BLOCK, Encoding};

use super::{
    bits::{Integers, pack_1bit, pack_2bit, pack_4bit},
    block_encoding::BlockEncoding,
    formulas::{affine, affine_nibbles, symmetric},
    planes::Planes,
    scales::half_at,
    simd::Simd,
};

/// The number of packed blocks in a super-block.
pub(super) const SUPER_BLOCK: usize = 8;

/// Returns the part of a super-block's plane that belongs to packed block `b`.
fn part(plane: &mut [u8], b: usize) -> &mut [u8] {
    let bytes = plane.len() / SUPER_BLOCK;
    &mut plane[b * bytes..(b + 1) * bytes]
}

/// Returns `byte >> by & mask` for each of 32 bytes.
fn shifted(bytes: &[u8], by: usize, mask: u8) -> Integers {
    let mut q = [0; BLOCK];
    for (q, byte) in q.iter_mut().zip(bytes) {
        *q = byte >> by & mask;
    }
    q
}

/// Reads two bits for each weight of packed block `b`, as files have them: weight `128n + 32s + l` is in
/// bits `2s` and `2s + 1` of byte `32n + l`.
fn file_2bit(bytes: &[u8], b: usize) -> Integers {
    shifted(&bytes[32 * (b / 4)..], 2 * (b % 4), 3)
}

/// Reads four bits for each weight of packed block `b`, as `Q4_K` and `Q5_K` files have them: weight
/// `64n + 32s + l` is nibble `s` of byte `32n + l`.
fn file_4bit(bytes: &[u8], b: usize) -> Integers {
    shifted(&bytes[32 * (b / 2)..], 4 * (b % 2), 15)
}

/// Reads one bit for each weight of packed block `b`, as files have them: weight `32b + l` is bit `b` of
/// byte `l`.
fn file_1bit(bytes: &[u8], b: usize) -> Integers {
    shifted(bytes, b, 1)
}

/// How the scales of a super-block are read from its `N` bytes of the scales plane. A trait and not a closure: see
/// [`formulas`](super::formulas).
pub(super) trait SuperBlockScales<const N: usize>: BlockEncoding {
    /// Reads the scales of each packed block.
    fn read<S: Simd>(bytes: &[u8; N]) -> [Self::Scales; SUPER_BLOCK];
}

/// Reads the scales of the packed blocks from `first` on.
#[inline(always)]
pub(super) fn load_super_blocks<S: Simd, E: SuperBlockScales<N>, const N: usize>(
    planes: Planes,
    first: usize,
    scales: &mut [E::Scales],
) {
    if first.is_multiple_of(SUPER_BLOCK) && scales.len().is_multiple_of(SUPER_BLOCK) {
        let (super_blocks, _) = scales.as_chunks_mut();
        let bytes = planes.many_scales(first / SUPER_BLOCK, super_blocks.len());
        for i in 0..super_blocks.len() {
            super_blocks[i] = E::read::<S>(&bytes[i]);
        }
    } else {
        for (i, scales) in (first..).zip(scales) {
            *scales = E::read::<S>(planes.scales(i / SUPER_BLOCK))[i % SUPER_BLOCK];
        }
    }
}

/// Returns word `i` of the bytes of a super-block's scales.
#[inline(always)]
pub(super) fn word<const N: usize>(bytes: &[u8; N], i: usize) -> u32 {
    u32::from_le_bytes(bytes.as_chunks().0[i])
}

/// 2 bits: `d * scale * q - dmin * minimum`, with scales and minima of 4 bits for each 16 weights.
#[allow(non_camel_case_types)]
pub struct Q2_K;

impl BlockEncoding for Q2_K {
    const ENCODING: Encoding = Encoding::Q2_K;
    /// The scales, and the minima, of the two halves.
    type Scales = [[f32; 2]; 2];

    // File: 16 bytes of scales and minima, 64 bytes of weights, half d, half dmin.
    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        for b in 0..SUPER_BLOCK {
            pack_2bit(&file_2bit(&file[16..80], b), part(main, b));
        }
        scales[..4].copy_from_slice(&file[80..84]);
        scales[4..].copy_from_slice(&file[..16]);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[[f32; 2]; 2]]) {
        load_super_blocks::<S, Self, 20>(planes, first, scales);
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

impl SuperBlockScales<20> for Q2_K {
    #[inline(always)]
    fn read<S: Simd>(bytes: &[u8; 20]) -> [Self::Scales; SUPER_BLOCK] {
        let (d, dmin) = (half_at::<S, _>(bytes, 0), half_at::<S, _>(bytes, 2));
        let pairs: &[[u8; 2]] = bytes[4..].as_chunks().0;
        let mut scales = [[[0.0; 2]; 2]; SUPER_BLOCK];
        for b in 0..SUPER_BLOCK {
            for half in 0..2 {
                scales[b][0][half] = d * f32::from(pairs[b][half] & 15);
                scales[b][1][half] = dmin * f32::from(pairs[b][half] >> 4);
            }
        }
        scales
    }
}

/// 3 bits: `d * (scale - 32) * (q - 4)`, with scales of 6 bits for each 16 weights.
#[allow(non_camel_case_types)]
pub struct Q3_K;

impl BlockEncoding for Q3_K {
    const ENCODING: Encoding = Encoding::Q3_K;
    /// The scales of the two halves.
    type Scales = [f32; 2];

    // File: 32 bytes of third bits, 64 bytes of weights, 12 bytes of scales, half d. Scale i has its low
    // four bits in nibble i / 8 of byte i % 8, and its high two in bits 2 (i / 4) of byte 8 + i % 4.
    fn pack(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
        for b in 0..SUPER_BLOCK {
            pack_2bit(&file_2bit(&file[32..96], b), part(main, b));
            pack_1bit(&file_1bit(&file[..32], b), part(high, b));
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
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[f32; 2]]) {
        load_super_blocks::<S, Self, 16>(planes, first, scales);
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

impl SuperBlockScales<16> for Q3_K {
    #[inline(always)]
    fn read<S: Simd>(bytes: &[u8; 16]) -> [Self::Scales; SUPER_BLOCK] {
        let d = half_at::<S, _>(bytes, 0);
        let (low, top) = ([word(bytes, 1), word(bytes, 2)], word(bytes, 3));
        let mut scales = [0.0; 2 * SUPER_BLOCK];
        for i in 0..2 * SUPER_BLOCK {
            let bits = (low[i / 8] >> (4 * (i % 8)) & 15) | (top >> (2 * i) & 3) << 4;
            scales[i] = d * (bits as i32 - 32) as f32;
        }
        bytemuck::cast(scales)
    }
}

/// Packs the scales of `Q4_K` and `Q5_K`, with which a file's super-block begins: half d, half dmin, and 12
/// bytes with 6-bit scales and minima. The first four of each are the low bits of bytes 0..4 and 4..8. Of
/// the last four, bytes 8..12 have the low nibbles, and the remaining bits of bytes 0..8 the high two
/// bits.
fn pack_six_bit_scales(file: &[u8], scales: &mut [u8]) {
    scales.fill(0);
    scales[..4].copy_from_slice(&file[..4]);
    let bytes = &file[4..16];
    for j in 0..SUPER_BLOCK {
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

/// Reads the scale and the minimum of each packed block of `Q4_K` and `Q5_K`.
#[inline(always)]
fn six_bit_scales<S: Simd>(bytes: &[u8; 16]) -> [[f32; 2]; SUPER_BLOCK] {
    let halves: [u8; 32] = bytemuck::cast([word(bytes, 0).to_le_bytes(); SUPER_BLOCK]);
    let integers = S::six_bit_pairs([word(bytes, 1), word(bytes, 2)], word(bytes, 3));
    let mut pairs = [0.0; 2 * SUPER_BLOCK];
    S::store(S::mul(S::load_f16(&halves), integers), &mut pairs);
    bytemuck::cast(pairs)
}

/// 4 bits: `d * scale * q - dmin * minimum`, with scales and minima of 6 bits for each 32 weights.
#[allow(non_camel_case_types)]
pub struct Q4_K;

impl BlockEncoding for Q4_K {
    const ENCODING: Encoding = Encoding::Q4_K;
    /// Scale and minimum.
    type Scales = [f32; 2];

    // File: 16 bytes of scales and minima, 128 bytes of weights.
    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        pack_six_bit_scales(file, scales);
        for b in 0..SUPER_BLOCK {
            pack_4bit(&file_4bit(&file[16..], b), part(main, b));
        }
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[f32; 2]]) {
        load_super_blocks::<S, Self, 16>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, [d, m]: &[f32; 2]) -> [S::Floats; 2] {
        affine_nibbles::<S>(planes.main(block), *d, -*m)
    }
}

impl SuperBlockScales<16> for Q4_K {
    #[inline(always)]
    fn read<S: Simd>(bytes: &[u8; 16]) -> [Self::Scales; SUPER_BLOCK] {
        six_bit_scales::<S>(bytes)
    }
}

/// 5 bits: `d * scale * q - dmin * minimum`, with the scales and minima of [`Q4_K`].
#[allow(non_camel_case_types)]
pub struct Q5_K;

impl BlockEncoding for Q5_K {
    const ENCODING: Encoding = Encoding::Q5_K;
    /// Scale and minimum.
    type Scales = [f32; 2];

    // File: 16 bytes of scales and minima, 32 bytes of fifth bits, 128 bytes of weights.
    fn pack(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
        pack_six_bit_scales(file, scales);
        for b in 0..SUPER_BLOCK {
            pack_4bit(&file_4bit(&file[48..], b), part(main, b));
            pack_1bit(&file_1bit(&file[16..48], b), part(high, b));
        }
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[f32; 2]]) {
        load_super_blocks::<S, Self, 16>(planes, first, scales);
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

impl SuperBlockScales<16> for Q5_K {
    #[inline(always)]
    fn read<S: Simd>(bytes: &[u8; 16]) -> [Self::Scales; SUPER_BLOCK] {
        six_bit_scales::<S>(bytes)
    }
}

/// 6 bits: `d * scale * (q - 32)`, with scales of 8 bits for each 16 weights.
#[allow(non_camel_case_types)]
pub struct Q6_K;

impl BlockEncoding for Q6_K {
    const ENCODING: Encoding = Encoding::Q6_K;
    /// The scales of the two halves.
    type Scales = [f32; 2];

    // File: 128 bytes of low nibbles, 64 bytes of high pairs of bits, 16 bytes of scales, half d. Weight
    // 128n + 32s + l is nibble s / 2 of byte 64n + 32 (s % 2) + l, and pair s of byte 128 + 32n + l.
    fn pack(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
        for b in 0..SUPER_BLOCK {
            let (n, s) = (b / 4, b % 4);
            let low = shifted(&file[64 * n + 32 * (s % 2)..], 4 * (s / 2), 15);
            pack_4bit(&low, part(main, b));
            pack_2bit(&file_2bit(&file[128..192], b), part(high, b));
        }
        scales.fill(0);
        scales[..2].copy_from_slice(&file[208..210]);
        scales[4..].copy_from_slice(&file[192..208]);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [[f32; 2]]) {
        load_super_blocks::<S, Self, 20>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, scales: &[f32; 2]) -> [S::Floats; 2] {
        let q = S::unpack_6bit(planes.main(block), planes.high(block));
        symmetric::<S>(q, 32, [scales[0], scales[1]])
    }
}

impl SuperBlockScales<20> for Q6_K {
    #[inline(always)]
    fn read<S: Simd>(bytes: &[u8; 20]) -> [Self::Scales; SUPER_BLOCK] {
        let mut integers = [0; 32];
        integers[..16].copy_from_slice(&bytes[4..]);
        let [integers, _] = S::i8_to_f32(S::load_bytes(&integers));
        let d = S::splat(half_at::<S, _>(bytes, 0));
        let mut scales = [0.0; 2 * SUPER_BLOCK];
        S::store(S::mul(d, integers), &mut scales);
        bytemuck::cast(scales)
    }
}
