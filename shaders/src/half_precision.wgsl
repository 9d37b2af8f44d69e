// Scaling by powers of two, so that sums of products in half precision neither overflow nor vanish.

// The exponent of the power of two 2^(e - 127), as floats store it.
fn power_of_two(e: u32) -> f32 {
    return bitcast<f32>(e << 23u);
}

// Returns the exponent `e` of a magnitude `m`, as floats store it: `m` is less than 2^(e - 126). It is clamped, so that
// the scales made from it are powers of two also if `m` is 0, infinite or NaN; magnitudes below 2^-87 count as that.
fn exponent_of(m: f32) -> u32 {
    return clamp(bitcast<u32>(m) >> 23u, 40u, 252u);
}

// The largest of `m` and the magnitudes of four numbers.
fn max_magnitude(v: vec4<f32>, m: f32) -> f32 {
    return max(max(max(abs(v.x), abs(v.y)), max(abs(v.z), abs(v.w))), m);
}

// The factor by which a row of numbers up to the magnitude `m` is scaled: to magnitudes below 2^11, so that a number that
// is 2^-25 times the largest one still has all bits of a half.
fn half_scale(m: f32) -> f32 {
    return power_of_two(264u - exponent_of(m));
}

// The factor that undoes the scaling by `half_scale`.
fn half_unscale(m: f32) -> f32 {
    return power_of_two(exponent_of(m) - 10u);
}

// Splits two numbers into two halves each, whose sum differs from the number by at most one unit in the last place of f32,
// unless the second half is subnormal. Returns a word of the first halves and a word of the second ones, which are
// multiplied by `unit`.
fn two_halves(v: vec2<f32>, unit: f32) -> vec2<u32> {
    let first = pack2x16float(v);
    return vec2(first, pack2x16float(unit * (v - unpack2x16float(first))));
}

// Four numbers as halves, clamped to the finite ones.
@if(halves)
fn finite_halves(v: vec4<f32>) -> vec4<f16> {
    return vec4<f16>(clamp(v, vec4(-65504.0), vec4(65504.0)));
}
