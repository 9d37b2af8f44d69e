//! Quantisers to blocks of 32 weights with one scale.

use super::rounding::{extreme, inverse, push_half};

/// Appends a block of `Q8_0`, scaled so that the largest magnitude becomes 127. The scale is rounded to a
/// half only in the file.
pub(super) fn q8_0(block: &[f32], out: &mut Vec<u8>) {
    let d = extreme(block).abs() / 127.0;
    let scale = inverse(d);
    push_half(d, out);
    out.extend(block.iter().map(|&x| (x * scale).round() as i8 as u8));
}

/// Appends a block of `Q4_0`, scaled so that the extreme becomes -8: the levels are -8 to 7.
pub(super) fn q4_0(block: &[f32], out: &mut Vec<u8>) {
    let d = extreme(block) / -8.0;
    let scale = inverse(d);
    push_half(d, out);
    let level = |x: f32| (x * scale + 8.5).clamp(0.0, 15.0) as u8;
    let (low, high) = block.split_at(block.len() / 2);
    out.extend(
        low.iter()
            .zip(high)
            .map(|(&a, &b)| level(a) | level(b) << 4),
    );
}
