//! Quantisers to blocks of 32 weights with one scale, and perhaps a minimum. All scales are rounded to a half only in the file.

use super::rounding::{extreme, inverse, push_half, push_nibbles};

/// Appends a block of `Q8_0`, scaled so that the largest magnitude becomes 127.
pub(super) fn q8_0(block: &[f32], out: &mut Vec<u8>) {
    let d = extreme(block).abs() / 127.0;
    let scale = inverse(d);
    push_half(d, out);
    out.extend(block.iter().map(|&x| (x * scale).round() as i8 as u8));
}

/// Appends a block of `Q4_0`, scaled so that the extreme becomes -8: the levels are -8 to 7.
pub(super) fn q4_0(block: &[f32], out: &mut Vec<u8>) {
    let levels = symmetric(block, 8.0, out);
    push_nibbles(&levels, 16, out);
}

/// Appends a block of `Q5_0`, scaled so that the extreme becomes -16: the levels are -16 to 15.
pub(super) fn q5_0(block: &[f32], out: &mut Vec<u8>) {
    let levels = symmetric(block, 16.0, out);
    push_fifth_bits(&levels, out);
    push_nibbles(&levels, 16, out);
}

/// Appends a block of `Q4_1`, whose least weight has the level 0, and whose largest one 15.
pub(super) fn q4_1(block: &[f32], out: &mut Vec<u8>) {
    let levels = affine(block, 15.0, out);
    push_nibbles(&levels, 16, out);
}

/// Appends a block of `Q5_1`, whose least weight has the level 0, and whose largest one 31.
pub(super) fn q5_1(block: &[f32], out: &mut Vec<u8>) {
    let levels = affine(block, 31.0, out);
    push_fifth_bits(&levels, out);
    push_nibbles(&levels, 16, out);
}

/// Appends the scale with which the extreme becomes `-half`, and returns the levels plus `half`.
fn symmetric(block: &[f32], half: f32, out: &mut Vec<u8>) -> Vec<u8> {
    let d = extreme(block) / -half;
    let scale = inverse(d);
    push_half(d, out);
    let level = |x: &f32| (x * scale + (half + 0.5)).clamp(0.0, 2.0 * half - 1.0) as u8;
    block.iter().map(level).collect()
}

/// Appends the scale and the minimum with which the levels are 0 to `most`, and returns these.
fn affine(block: &[f32], most: f32, out: &mut Vec<u8>) -> Vec<u8> {
    let low = block.iter().copied().fold(f32::INFINITY, f32::min);
    let high = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let d = (high - low) / most;
    let scale = inverse(d);
    push_half(d, out);
    push_half(low, out);
    let level = |x: &f32| ((x - low) * scale + 0.5).clamp(0.0, most) as u8;
    block.iter().map(level).collect()
}

/// Appends the fifth bits of levels, as bits of a word.
fn push_fifth_bits(levels: &[u8], out: &mut Vec<u8>) {
    let bits = levels.iter().rev();
    let word = bits.fold(0u32, |word, level| word << 1 | u32::from(level >> 4));
    out.extend(word.to_le_bytes());
}
