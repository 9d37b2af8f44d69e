//! The arithmetic that several quantisers share.

use half::f16;

/// Appends a half and returns the value that it rounds to.
pub(super) fn push_half(value: f32, out: &mut Vec<u8>) -> f32 {
    let half = f16::from_f32(value);
    out.extend(half.to_le_bytes());
    half.to_f32()
}

/// Computes `1 / x`; 0 if `x` is 0.
pub(super) fn inverse(x: f32) -> f32 {
    if x == 0.0 { 0.0 } else { 1.0 / x }
}

/// Returns the first value of the largest magnitude, with its sign.
pub(super) fn extreme(block: &[f32]) -> f32 {
    let larger = |a: f32, &b: &f32| if b.abs() > a.abs() { b } else { a };
    block.iter().fold(0.0, larger)
}

/// Appends the low nibbles of levels: those of `step` levels are the low halves of bytes, those of the next
/// `step` levels the high halves.
pub(super) fn push_nibbles(levels: &[u8], step: usize, out: &mut Vec<u8>) {
    for part in levels.chunks_exact(2 * step) {
        let (low, high) = part.split_at(step);
        out.extend(low.iter().zip(high).map(|(low, high)| low & 15 | high << 4));
    }
}
