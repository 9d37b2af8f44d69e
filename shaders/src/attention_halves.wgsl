// Shared by the kernels of attention on NVIDIA's tensor cores, which multiply queries and weights as two halves each.

// The factor by which second halves of queries are scaled, so that they have as many bits as first ones.
const SECOND_UNIT: f32 = 2048.0;
// The largest weight is 2^14, so that one that is 2^-28 times as large still has all bits of a half.
const LARGEST_EXPONENT: f32 = 14.0;
const LOG2_E: f32 = 1.442695;
const LN_2: f32 = 0.6931472;

// The score that has the weight 1 next, where the largest score is `row_max`. All are times log2(e).
fn next_reference(before: f32, row_max: f32) -> f32 {
    let lower = row_max - LARGEST_EXPONENT;
    // Floats from 2^25 on are so far apart that the difference may be too large for a half.
    return max(before, select(lower, row_max, row_max - lower > 15.0));
}
