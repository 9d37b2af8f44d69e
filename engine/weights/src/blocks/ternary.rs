//! Ternary weights: `TQ2_0`, and `TQ1_0`, which becomes it.

use wisp_types::encoding::{BLOCK, Encoding};

use super::{
    bits::{Integers, pack_2bit},
    block_encoding::BlockEncoding,
    formulas::symmetric,
    k_quants::{SUPER_BLOCK, SuperBlockScales, load_super_blocks},
    planes::Planes,
    scales::half_at,
    simd::Simd,
};

/// Bytes of the integers of a block of `TQ2_0` in a file, which the scale follows.
const TQ2_BYTES: usize = 64;
/// Bytes of a block of `TQ1_0` in a file with five weights each, then with four each; the scale follows.
const FIVES: usize = 48;
const FOURS: usize = 4;

/// 2 bits: `d * (q - 1)`, with one scale for 256 weights.
#[allow(non_camel_case_types)]
pub struct TQ2_0;

impl BlockEncoding for TQ2_0 {
    const ENCODING: Encoding = Encoding::TQ2_0;
    type Scales = f32;

    // File: bits 2l and 2l + 1 of byte 32j + m are weight 128j + 32l + m; half d.
    #[inline(always)]
    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        let (bytes, d) = file.split_at(TQ2_BYTES);
        scales.copy_from_slice(d);
        for (block, main) in main.chunks_exact_mut(BLOCK / 4).enumerate() {
            let bytes = &bytes[block / 4 * BLOCK..][..BLOCK];
            let mut q: Integers = [0; BLOCK];
            for (q, byte) in q.iter_mut().zip(bytes) {
                *q = byte >> (block % 4 * 2) & 3;
            }
            pack_2bit(&q, main);
        }
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [f32]) {
        load_super_blocks::<S, Self, 2>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, d: &f32) -> [S::Floats; 2] {
        symmetric::<S>(S::unpack_2bit(planes.main(block)), 1, [*d; 2])
    }
}

impl SuperBlockScales<2> for TQ2_0 {
    #[inline(always)]
    fn read<S: Simd>(bytes: &[u8; 2]) -> [Self::Scales; SUPER_BLOCK] {
        [half_at::<S, _>(bytes, 0); SUPER_BLOCK]
    }
}

/// Returns the blocks of `TQ2_0` with the weights of blocks of `TQ1_0`.
///
/// A byte holds weights as digits to the base 3: the fraction `byte / 256` is `0.abcde` in that base, rounded up (as in
/// ggml). Bytes 0 to 31 hold weights `32n + m` in digit `n` of byte `m`, bytes 32 to 47 weights `160 + 16n + m`, and the
/// last four weights `240 + 4n + m`.
pub(crate) fn tq2_of_tq1(file: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(file.len() / 54 * 66);
    for block in file.chunks_exact(Encoding::TQ1_0.file_block_bytes()) {
        let (digits, d) = block.split_at(FIVES + FOURS);
        let mut q = [0; 256];
        let mut weights = q.iter_mut();
        for (bytes, count) in [
            (&digits[..32], 5),
            (&digits[32..FIVES], 5),
            (&digits[FIVES..], 4),
        ] {
            for digit in 0..count {
                let power = 3u8.pow(digit);
                for (byte, q) in bytes.iter().zip(&mut weights) {
                    *q = ((u16::from(byte.wrapping_mul(power)) * 3) >> 8) as u8;
                }
            }
        }
        for half in q.chunks_exact(128) {
            out.extend(
                (0..32).map(|m| (0..4).fold(0u8, |byte, l| byte | half[32 * l + m] << (2 * l))),
            );
        }
        out.extend_from_slice(d);
    }
    out
}
