//! The formulas by which encodings compute weights from integers.
//!
//! No closures and no `array::map` here or in what calls this: neither is sure to be inlined, and what is not inlined
//! is compiled without the vector instructions.

use super::simd::Simd;

/// Computes `scale * (q - offset)`, with a scale for each half of the block.
#[inline(always)]
pub(super) fn symmetric<S: Simd>(q: S::Bytes, offset: u8, scales: [f32; 2]) -> [S::Floats; 2] {
    let q = S::i8_to_f32(S::sub_bytes(q, offset));
    [
        S::mul(q[0], S::splat(scales[0])),
        S::mul(q[1], S::splat(scales[1])),
    ]
}

/// Computes `scale * table[q]` for 32 nibbles.
#[inline(always)]
pub(super) fn lookup<S: Simd>(table: &[f32; 16], q: &[u8; 16], scale: f32) -> [S::Floats; 2] {
    S::lookup(S::mul(S::load(table), S::splat(scale)), q)
}

/// Computes `scale * (q - 8)` for 32 nibbles.
#[inline(always)]
pub(super) fn symmetric_nibbles<S: Simd>(q: &[u8; 16], scale: f32) -> [S::Floats; 2] {
    match S::FAST_LOOKUP {
        true => lookup::<S>(&SIGNED_NIBBLES, q, scale),
        false => symmetric::<S>(S::unpack_4bit(q), 8, [scale; 2]),
    }
}

/// Computes `scale * q + minimum` for 32 nibbles. The product is exact: see [`affine`].
#[inline(always)]
pub(super) fn affine_nibbles<S: Simd>(q: &[u8; 16], scale: f32, minimum: f32) -> [S::Floats; 2] {
    if !S::FAST_LOOKUP {
        return affine::<S>(S::unpack_4bit(q), [scale; 2], [minimum; 2]);
    }
    let table = S::mul_add(S::splat(scale), S::load(&NIBBLES), S::splat(minimum));
    S::lookup(table, q)
}

/// The values of nibbles.
const NIBBLES: [f32; 16] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0,
];

/// What nibbles stand for in `Q4_0`.
const SIGNED_NIBBLES: [f32; 16] = [
    -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,
];

/// Computes `scale * q + minimum`, with a scale and a minimum for each half of the block.
///
/// The product is exact, so it does not matter whether it is rounded: a scale has the 11 significant bits
/// of a half and at most 6 of its own, an integer has at most 5, and a float holds 24.
#[inline(always)]
pub(super) fn affine<S: Simd>(q: S::Bytes, scales: [f32; 2], minima: [f32; 2]) -> [S::Floats; 2] {
    let q = S::u8_to_f32(q);
    [
        S::mul_add(S::splat(scales[0]), q[0], S::splat(minima[0])),
        S::mul_add(S::splat(scales[1]), q[1], S::splat(minima[1])),
    ]
}

/// Computes `scale * (q + add)` for 32 nibbles.
#[inline(always)]
pub(super) fn shifted_nibbles<S: Simd>(q: &[u8; 16], scale: f32, add: f32) -> [S::Floats; 2] {
    if !S::FAST_LOOKUP {
        return shifted_bytes::<S>(S::unpack_4bit(q), scale, add);
    }
    let table = S::add(S::load(&NIBBLES), S::splat(add));
    S::lookup(S::mul(table, S::splat(scale)), q)
}

/// Computes `scale * (q + add)` for signed bytes.
#[inline(always)]
pub(super) fn shifted_bytes<S: Simd>(q: S::Bytes, scale: f32, add: f32) -> [S::Floats; 2] {
    let q = S::i8_to_f32(q);
    [
        S::mul(S::add(q[0], S::splat(add)), S::splat(scale)),
        S::mul(S::add(q[1], S::splat(add)), S::splat(scale)),
    ]
}
