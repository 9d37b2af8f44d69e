//! Scalar and vector functions, written so that LLVM vectorises loops over them.

use wisp_weights::blocks::{Portable, Simd, simd};

/// 1.5 * 2^23: added to a small number, it leaves the nearest integer, the even one of two, in the lowest bits. LLVM
/// vectorises this, but not the cast of a float that may be out of range.
pub(super) const ROUND: f32 = 12582912.0;

/// Computes `e^x` to within 2 units in the last place; 0 where the result is subnormal.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`, `e^r` by its Taylor polynomial of degree 7 (remainder
/// below 6e-9), `2^n` by the exponent's bits.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x.clamp(-87.5, 88.8) * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x.clamp(-87.5, 88.8) - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = 1.0 / 5040.0;
    for c in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        p = p * r + c;
    }
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    // In two factors, since 2^128 is not representable.
    let half = exponent >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    let y = p * power(half) * power(exponent.wrapping_sub(half));
    let y = if x < -87.336_54 { 0.0 } else { y };
    if x > 88.722_84 { f32::INFINITY } else { y }
}

/// Computes the natural logarithm of a positive normal number to within 2e-6 plus 3e-7 of its magnitude.
///
/// `x = 2^n m` with `m` from `sqrt(1/2)` to `sqrt(2)`, `ln m` by the series of `2 atanh(t)` with `t = (m - 1) / (m + 1)`
/// (remainder below 1e-9).
#[inline(always)]
pub(super) fn ln(x: f32) -> f32 {
    let n =
        (x.to_bits() as i32).wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32) >> 23;
    let m = f32::from_bits(x.to_bits().wrapping_sub((n << 23) as u32));
    let t = (m - 1.0) / (m + 1.0);
    let square = t * t;
    let mut p = 1.0 / 9.0;
    for c in [1.0 / 7.0, 0.2, 1.0 / 3.0, 1.0] {
        p = p * square + c;
    }
    n as f32 * std::f32::consts::LN_2 + 2.0 * t * p
}

/// Computes a sample of the standard Gumbel distribution to within 2e-6: `-ln(-ln(1 - v))`, where `v` is `(n + 0.5) / 2^24`
/// with the upper 24 bits `n` of a hash.
#[inline(always)]
pub(super) fn approximate_gumbel(hash: u32) -> f32 {
    const UNIT: f32 = 1.0 / 16_777_216.0;
    let n = (hash >> 8) as i32;
    let v = (n as f32 + 0.5) * UNIT;
    // Near v = 0, where 1 - v has few of its bits, by the series.
    let series = v * (1.0 + v * (0.5 + v * (1.0 / 3.0 + v * 0.25)));
    let logarithm = -ln(((16_777_216 - n) as f32 - 0.5) * UNIT);
    -ln(if v < 0.03 { series } else { logarithm })
}

/// Returns the larger number, or `a` if one is NaN. Not `f32::max`, which takes three instructions to handle NaN.
#[inline(always)]
pub(super) fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// Computes SiLU, `x * sigmoid(x)`.
#[inline(always)]
pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

simd! {
    /// Returns the sum of `a[i] * b[i]` over the shorter length.
    pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 where S: Simd {
        dot_in::<S>(a, b)
    }
}

#[inline(always)]
fn dot_in<S: Simd>(a: &[f32], b: &[f32]) -> f32 {
    S::reduce_add(products_in::<S>(a, b))
}

/// Returns sums of `a[i] * b[i]` over the shorter length, which are yet to be added; inlined into a function of
/// `simd!`.
#[inline(always)]
pub(super) fn products_in<S: Simd>(a: &[f32], b: &[f32]) -> S::Floats {
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<16>();
    let (b, b_rest) = b[..len].as_chunks::<16>();
    let (a_pairs, a) = a.as_chunks::<2>();
    let (b_pairs, b) = b.as_chunks::<2>();
    let mut sums = [S::splat(0.0); 2];
    for (a, b) in a_pairs.iter().zip(b_pairs) {
        sums[0] = S::mul_add(S::load(&a[0]), S::load(&b[0]), sums[0]);
        sums[1] = S::mul_add(S::load(&a[1]), S::load(&b[1]), sums[1]);
    }
    for (a, b) in a.iter().zip(b) {
        sums[0] = S::mul_add(S::load(a), S::load(b), sums[0]);
    }
    if !a_rest.is_empty() {
        let mut rest = [[0.0; 16]; 2];
        rest[0][..a_rest.len()].copy_from_slice(a_rest);
        rest[1][..b_rest.len()].copy_from_slice(b_rest);
        sums[1] = S::mul_add(S::load(&rest[0]), S::load(&rest[1]), sums[1]);
    }
    S::add(sums[0], sums[1])
}

/// Performs one step of an online softmax: replaces scores by their weights relative to the largest
/// score so far, adds the weights to `total`, and returns the factor by which earlier sums must be
/// rescaled.
#[inline(always)]
pub(super) fn exp_sum(scores: &mut [f32], row_max: &mut f32, total: &mut f32) -> f32 {
    let before = *row_max;
    let mut lanes = [before; 16];
    let (chunks, rest) = scores.as_chunks::<16>();
    for chunk in chunks {
        for i in 0..16 {
            lanes[i] = larger(lanes[i], chunk[i]);
        }
    }
    *row_max = lanes.iter().chain(rest).fold(before, |a, b| a.max(*b));
    for score in scores.iter_mut() {
        *score = exp(*score - *row_max);
    }
    let (chunks, rest) = scores.as_chunks::<16>();
    let mut lanes = [0.0; 16];
    for chunk in chunks {
        for i in 0..16 {
            lanes[i] += chunk[i];
        }
    }
    let rescale = exp(before - *row_max);
    *total = *total * rescale + sum(&lanes) + rest.iter().sum::<f32>();
    rescale
}

/// Returns the sum of 16 numbers by pairwise halving.
#[inline(always)]
fn sum(values: &[f32; 16]) -> f32 {
    Portable::reduce_add(*values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_is_accurate() {
        for i in 1..500_000u32 {
            let x = f32::from_bits(f32::MIN_POSITIVE.to_bits() + 4261 * i);
            let expected = f64::from(x).ln();
            let error = (f64::from(ln(x)) - expected).abs();
            assert!(
                error < 2e-6 + 3e-7 * expected.abs(),
                "{x}: {} for {expected}",
                ln(x)
            );
        }
    }

    #[test]
    fn approximate_gumbel_is_accurate() {
        let some = (0..1 << 24).step_by(37);
        for n in some.chain([1, 2, 503_316, 503_317, 0xff_fffe, 0xff_ffff]) {
            let v = (f64::from(n) + 0.5) / 16_777_216.0;
            let expected = -(-(-v).ln_1p()).ln();
            let actual = approximate_gumbel(n << 8 | 93);
            assert!(
                (f64::from(actual) - expected).abs() < 2e-6,
                "{n}: {actual} for {expected}"
            );
        }
    }

    #[test]
    fn exp_is_accurate() {
        for i in -95_000..90_000 {
            let x = i as f32 * 1e-3 + 3e-5;
            let expected = f64::from(x).exp();
            let actual = exp(x);
            if expected < f64::from(f32::MIN_POSITIVE) {
                assert!(actual <= 1.001 * f32::MIN_POSITIVE, "{x}: {actual}");
            } else if expected > f64::from(f32::MAX) {
                assert_eq!(actual, f32::INFINITY, "{x}");
            } else {
                let error = (f64::from(actual) - expected).abs() / expected;
                assert!(error < 2.4e-7, "{x}: {actual} for {expected}");
            }
        }
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
    }
}
