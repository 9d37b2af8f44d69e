//! Loops over the values of many tokens, written so that LLVM vectorises them.

use wisp_shaders::params::SampleSettings;
use wisp_weights::blocks::simd;

use super::hash;
use crate::{
    argmax::finite,
    math::{approximate_gumbel, exp, larger},
};

/// By how much two sums of [`add_noise`] are off at most, beside a millionth of their magnitude: more than twice the error of
/// [`approximate_gumbel`].
const NOISE_ERROR: f32 = 5e-4;

simd! {
    /// Divides logits by the temperature, and makes them finite.
    pub(super) fn scale(logits: &mut [f32], temperature: f32) {
        // A temperature that is NaN selects greedy sampling, too.
        match temperature > 0.0 {
            true => for z in logits {
                *z = finite(finite(*z) / temperature);
            },
            false => for z in logits {
                *z = finite(*z);
            },
        }
    }
}

simd! {
    /// Returns the sum of the weights of some values relative to `max`, in f64, because an f32 sum would lose many small ones.
    pub(super) fn total_weight(values: &[f32], max: f32) -> f64 {
        let (chunks, rest) = values.as_chunks::<16>();
        let mut sums = [0.0; 16];
        for chunk in chunks {
            for i in 0..16 {
                sums[i] += f64::from(exp(finite(chunk[i]) - max));
            }
        }
        for (sum, z) in sums.iter_mut().zip(rest) {
            *sum += f64::from(exp(finite(*z) - max));
        }
        let mut total = 0.0;
        for sum in sums {
            total += sum;
        }
        total
    }
}

simd! {
    /// Writes the sums of values, those of the tokens from `first` on, and their approximate noise. Returns a bound: with exact
    /// noise, no sum below it is the largest of those whose value is `max + kept` or more.
    pub(super) fn add_noise(values: &[u32], first: u32, s: &SampleSettings, max: f32, kept: f32, sums: &mut [f32]) -> f32 {
        let mut lanes = [f32::MIN; 16];
        let (chunks, rest) = values.as_chunks::<16>();
        let (sum_chunks, sum_rest) = sums.as_chunks_mut::<16>();
        for (c, (sums, values)) in sum_chunks.iter_mut().zip(chunks).enumerate() {
            let first = first.wrapping_add(16 * c as u32);
            for i in 0..16 {
                lanes[i] = larger(lanes[i], add_one(values[i], first.wrapping_add(i as u32), s, [max, kept], &mut sums[i]));
            }
        }
        let first = first.wrapping_add(16 * chunks.len() as u32);
        for (i, (sum, z)) in sum_rest.iter_mut().zip(rest).enumerate() {
            lanes[i] = larger(lanes[i], add_one(*z, first.wrapping_add(i as u32), s, [max, kept], sum));
        }
        let mut most = f32::MIN;
        for lane in lanes {
            most = most.max(lane);
        }
        finite(most - (NOISE_ERROR + 1e-6 * most.abs()))
    }
}

/// Writes the sum of a token, and returns it if its value is `max + kept` or more. The difference is compared, as min-p compares
/// it: `max` may be too large to be changed by `kept`.
#[inline(always)]
fn add_one(z: u32, token: u32, s: &SampleSettings, [max, kept]: [f32; 2], sum: &mut f32) -> f32 {
    let z = f32::from_bits(z);
    *sum = z + approximate_gumbel(hash([s.seed, s.position, token, 0]));
    if z - max >= kept { *sum } else { f32::MIN }
}
