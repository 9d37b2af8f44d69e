//! Quantisers to `Q4_K`, `Q5_K` and `Q6_K`. As in ggml's reference implementation, the scale of a sub-block is the
//! best of several near the obvious one, each fitted to its levels by least squares.

use std::ops::RangeInclusive;

use super::rounding::{extreme, inverse, push_half, push_nibbles};

/// A sub-block whose magnitudes are below this is stored as zeros.
const NEGLIGIBLE: f32 = 1e-15;

/// Rounds to the nearest level; ties to even.
fn nearest(x: f32, low: i32, high: i32) -> i32 {
    (x.round_ties_even() as i32).clamp(low, high)
}

/// The scales that are tried for sub-blocks with a scale and a minimum.
struct Search {
    max_level: i32,
    /// What is added to the largest level, first and last, in steps of a tenth.
    tenths: RangeInclusive<i32>,
}

const Q4_K: Search = Search {
    max_level: 15,
    tenths: -10..=10,
};

const Q5_K: Search = Search {
    max_level: 31,
    tenths: -5..=10,
};

/// Fits `x = scale * level - min` with levels from 0 on to a sub-block, such that the squared error is small,
/// in which larger weights count more. Returns the scale and the minimum.
fn fit_affine(block: &[f32], search: &Search) -> (f32, f32) {
    let max_level = search.max_level;
    let mean = (block.iter().map(|x| x * x).sum::<f32>() / block.len() as f32).sqrt();
    let importance = |x: f32| mean + x.abs();
    let low = block.iter().copied().fold(0.0, f32::min);
    let high = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if high <= low {
        return (0.0, -low);
    }
    let error = |scale: f32, min: f32, factor: f32| -> f32 {
        let off = |&x: &f32| {
            let level = nearest(factor * (x - low), 0, max_level) as f32;
            importance(x) * (scale * level + min - x).powi(2)
        };
        block.iter().map(off).sum()
    };
    let width = high - low;
    let (mut scale, mut min) = (width / max_level as f32, low);
    let mut best = error(scale, min, max_level as f32 / width);
    for tenths in search.tenths.clone() {
        let factor = (max_level as f32 + 0.1 * tenths as f32) / width;
        let [mut w, mut x1, mut l1, mut l2, mut xl] = [0.0f32; 5];
        for &x in block {
            let (weight, level) = (
                importance(x),
                nearest(factor * (x - low), 0, max_level) as f32,
            );
            w += weight;
            x1 += weight * x;
            l1 += weight * level;
            l2 += weight * level * level;
            xl += weight * level * x;
        }
        let determinant = w * l2 - l1 * l1;
        if determinant <= 0.0 {
            continue;
        }
        let mut fitted = (w * xl - x1 * l1) / determinant;
        let mut base = (l2 * x1 - l1 * xl) / determinant;
        // The format cannot store a base above zero.
        if base > 0.0 {
            (fitted, base) = (xl / l2, 0.0);
        }
        let off = error(fitted, base, factor);
        if off < best {
            (best, scale, min) = (off, fitted, base);
        }
    }
    (scale, -min)
}

/// Appends a super-block of `Q4_K`.
pub(super) fn q4_k(block: &[f32], out: &mut Vec<u8>) {
    let levels = affine(block, &Q4_K, out);
    push_nibbles(&levels, 32, out);
}

/// Appends a super-block of `Q5_K`: the fifth bits of levels come before the others, those of each sub-block as another bit of
/// 32 bytes.
pub(super) fn q5_k(block: &[f32], out: &mut Vec<u8>) {
    let levels = affine(block, &Q5_K, out);
    out.extend((0..32).map(|l| (0..8).fold(0, |byte, s| byte | (levels[32 * s + l] >> 4) << s)));
    push_nibbles(&levels, 32, out);
}

/// Appends the scales of a super-block of eight sub-blocks of 32 weights, whose scales and minima are 6-bit multiples of two
/// halves, and returns the levels.
fn affine(block: &[f32], search: &Search, out: &mut Vec<u8>) -> [u8; 256] {
    let mut fits = [(0.0, 0.0); 8];
    for (fit, sub) in fits.iter_mut().zip(block.chunks_exact(32)) {
        *fit = fit_affine(sub, search);
    }
    let largest = |of: fn(&(f32, f32)) -> f32| fits.iter().map(of).fold(0.0, f32::max);
    let (scale, min) = (largest(|fit| fit.0), largest(|fit| fit.1));
    let six_bits = |x: f32, largest: f32| nearest(63.0 * inverse(largest) * x, 0, 63) as u8;
    let d = push_half(scale / 63.0, out);
    let dmin = push_half(min / 63.0, out);
    let scales = fits.map(|fit| six_bits(fit.0, scale));
    let mins = fits.map(|fit| six_bits(fit.1, min));
    // The first four scales and minima, with the high bits of the last four above them.
    out.extend((0..4).map(|i| scales[i] | (scales[4 + i] >> 4) << 6));
    out.extend((0..4).map(|i| mins[i] | (mins[4 + i] >> 4) << 6));
    out.extend((4..8).map(|i| scales[i] & 15 | (mins[i] & 15) << 4));
    let mut levels = [0u8; 256];
    for (i, (level, &x)) in levels.iter_mut().zip(block).enumerate() {
        let sub = i / 32;
        let (scale, min) = (d * f32::from(scales[sub]), dmin * f32::from(mins[sub]));
        *level = nearest((x + min) * inverse(scale), 0, search.max_level) as u8;
    }
    levels
}

/// Fits `x = scale * level` with levels -32 to 31 to a sub-block, such that the squared error is small, in
/// which a weight counts by its square. Returns the scale.
fn fit_symmetric(block: &[f32]) -> f32 {
    const HALF: i32 = 32;
    let extreme = extreme(block);
    if extreme.abs() < NEGLIGIBLE {
        return 0.0;
    }
    let (mut scale, mut best) = (0.0, 0.0);
    for step in -9..=9 {
        let factor = -(HALF as f32 + 0.1 * step as f32) / extreme;
        let (mut xl, mut l2) = (0.0f32, 0.0f32);
        for &x in block {
            let level = nearest(factor * x, -HALF, HALF - 1) as f32;
            xl += x * x * x * level;
            l2 += x * x * level * level;
        }
        if l2 > 0.0 && xl * xl > best * l2 {
            scale = xl / l2;
            best = scale * xl;
        }
    }
    scale
}

/// Appends a super-block of `Q6_K`: sixteen sub-blocks of 16 weights, whose scales are 8-bit multiples of a
/// half.
pub(super) fn q6_k(block: &[f32], out: &mut Vec<u8>) {
    let mut fits = [0.0; 16];
    for (fit, sub) in fits.iter_mut().zip(block.chunks_exact(16)) {
        *fit = fit_symmetric(sub);
    }
    let factor = -128.0 * inverse(extreme(&fits));
    let d = half::f16::from_f32(inverse(factor)).to_f32();
    let scales = fits.map(|scale| nearest(factor * scale, -128, 127) as i8);
    let mut levels = [0u8; 256];
    for (i, (level, &x)) in levels.iter_mut().zip(block).enumerate() {
        let scale = d * f32::from(scales[i / 16]);
        *level = (nearest(x * inverse(scale), -32, 31) + 32) as u8;
    }
    // For each half of 128 weights, the low nibbles of weights `l` and `64 + l` share a byte. The high pairs
    // of bits follow.
    for half in levels.chunks_exact(128) {
        push_nibbles(half, 64, out);
    }
    for half in levels.chunks_exact(128) {
        out.extend(
            (0..32).map(|l| (0..4).fold(0, |byte, s| byte | (half[32 * s + l] >> 4) << (2 * s))),
        );
    }
    out.extend(scales.map(|scale| scale as u8));
    push_half(d, out);
}
