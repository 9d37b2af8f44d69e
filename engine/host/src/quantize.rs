//! `quantize`: rows of activations in 8 bits.

use rayon::prelude::*;
use wisp_shaders::params::QuantizeParams;

use super::args::{Args, size};
use super::error::HostError;
use super::math::ROUND;
use wisp_types::encoding::BLOCK;
use wisp_weights::blocks::simd;

/// Bits of the least magnitude that is not taken for 0: 2^-100.
const LEAST: u32 = 0x0d80_0000;

/// Bits of the infinity; those of NaN are larger.
const INFINITY: u32 = 0x7f80_0000;

/// Blocks of one parallel task.
const TASK: usize = 256;

/// The scale of a block, and the sums of the bytes of its halves.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct BlockFactors {
    pub(super) scale: f32,
    pub(super) sums: [i16; 2],
}

/// The twin of `quantize.wgsl`.
pub(super) fn quantize(args: &Args) -> Result<(), HostError> {
    let p: QuantizeParams = args.params()?;
    let cols = p.cols as usize;
    let blocks = cols.div_ceil(BLOCK);
    if p.blocks as usize != blocks {
        return Err(args.value("blocks", blocks, p.blocks));
    }
    let x: &[f32] = args.read(1, size(&[p.tokens, p.cols]))?;
    quantize_rows(args, x, cols, [2, 3])
}

/// Writes the bytes and factors of rows of `cols` numbers to bindings.
pub(super) fn quantize_rows(
    args: &Args,
    x: &[f32],
    cols: usize,
    [bytes, factors]: [usize; 2],
) -> Result<(), HostError> {
    if cols == 0 {
        return Ok(());
    }
    let blocks = cols.div_ceil(BLOCK);
    let len = x.len() / cols * blocks;
    let out: &mut [[i8; BLOCK]] = args.write(bytes, len)?;
    let factors: &mut [BlockFactors] = args.write(factors, len)?;
    let rows = x.par_chunks_exact(cols).with_min_len(TASK / blocks + 1);
    rows.zip(out.par_chunks_exact_mut(blocks))
        .zip(factors.par_chunks_exact_mut(blocks))
        .for_each(|((x, out), factors)| quantize_row(x, out, factors));
    Ok(())
}

simd! {
    fn quantize_row(x: &[f32], out: &mut [[i8; BLOCK]], factors: &mut [BlockFactors]) {
        let (blocks, rest) = x.as_chunks::<BLOCK>();
        for ((x, out), factors) in blocks.iter().zip(&mut *out).zip(&mut *factors) {
            *factors = quantize_block(x, out);
        }
        if let (false, [.., out], [.., factors]) = (rest.is_empty(), out, factors) {
            let mut padded = [0.0; BLOCK];
            padded[..rest.len()].copy_from_slice(rest);
            *factors = quantize_block(&padded, out);
        }
    }
}

/// Quantises a block by operations that every device computes to the bit: the scale is the largest magnitude,
/// rounded up to 8 significant bits, over 127; its inverse is found by a division of integers.
#[inline(always)]
fn quantize_block(x: &[f32; BLOCK], out: &mut [i8; BLOCK]) -> BlockFactors {
    let magnitudes = x.iter().map(|x| x.to_bits() & 0x7fff_ffff);
    let largest = magnitudes.fold(0, u32::max);
    if !(LEAST..INFINITY).contains(&largest) {
        *out = [0; BLOCK];
        let scale = if largest < LEAST { 0.0 } else { f32::NAN };
        return BlockFactors {
            scale,
            sums: [0; 2],
        };
    }
    let rounded = (largest + 0xffff) & 0xffff_0000;
    let mantissa = 128 + (rounded >> 16 & 0x7f);
    let exponent = (rounded >> 23) as i32 - 127;
    let quotient = ((127 << 24) / mantissa) as f32;
    let shift = ((-17 - exponent) as u32) << 23;
    let inverse = f32::from_bits(quotient.to_bits().wrapping_add(shift));
    let mut integers = [0; BLOCK];
    for (q, x) in integers.iter_mut().zip(x) {
        // At most 127 in magnitude, but for rounding.
        let shifted = x * inverse + ROUND;
        *q = (shifted.to_bits() as i32 - ROUND.to_bits() as i32).clamp(-127, 127);
    }
    for (out, q) in out.iter_mut().zip(integers) {
        *out = q as i8;
    }
    let (low, high) = integers.split_at(BLOCK / 2);
    let sums = [low, high].map(|half| half.iter().sum::<i32>() as i16);
    let scale = match rounded {
        INFINITY => f32::INFINITY,
        _ => f32::from_bits(rounded) * (1.0 / 127.0),
    };
    BlockFactors { scale, sums }
}
