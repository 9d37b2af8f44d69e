// Signed bytes with a scale for every 32: the inputs of products in the precision int8.
import constants::WG;

/// `quantize`: `x[t, 32 * b + i]` is about `d * q[i]` with signed bytes `q` and a scale `d` for every block `b` of 32
/// columns. Columns past the end count as 0. Grid: `[blocks, tokens]`.
///
/// The bytes and scales are the same on every device: all operations are exact, or rounded as IEEE 754 states. The
/// largest magnitude of a block is rounded up to 8 significant bits, `M * 2^e`, and becomes 127: `d = M * 2^e / 127`, and
/// `x` is multiplied with an integer quotient `127 / M` times a power of two. A block whose magnitudes are all
/// below 2^-100 becomes 0. One with an infinity or NaN has the scale NaN and zeros; one with a magnitude above 3.39e38,
/// which is rounded up to 2^128, has an infinite scale.
struct QuantizeParams {
    /// Rows of `x`.
    tokens: u32,
    /// Columns of `x`.
    cols: u32,
    /// Blocks of 32 columns in a row of the result.
    blocks: u32,
}

@group(0) @binding(0) var<uniform> p: QuantizeParams;
@if(scalar) @group(0) @binding(1) var<storage, read> x: array<f32>; // [tokens, cols]
@if(!scalar) @group(0) @binding(1) var<storage, read> x: array<vec4<f32>>; // [tokens, cols], in vec4s
@group(0) @binding(2) var<storage, read_write> out: array<u32>; // [tokens, blocks, 8], four bytes a word, the first the lowest
@group(0) @binding(3) var<storage, read_write> factors: array<vec2<u32>>; // [tokens, blocks], of the scale's bits and the sums of 16 bytes each (low, high)

const TILE = vec2<u32>(WG, 1u);
@if(scalar) const COLS_MULTIPLE = 1u;
@if(!scalar) const COLS_MULTIPLE = 32u;

// 2^-100, below which a block counts as 0, and infinity, as bits.
const LEAST: u32 = 0x0d800000u;
const INFINITE: u32 = 0x7f800000u;
const NAN: u32 = 0x7fc00000u;
// The float next to 1 / 127.
const ONE_127TH: f32 = 0.007874016;

// Group `g` of four columns of row `t`.
@if(scalar)
fn load_x(t: u32, g: u32) -> vec4<f32> {
    let at = vec4(4u * g) + vec4(0u, 1u, 2u, 3u);
    let i = vec4(t * p.cols) + min(at, vec4(p.cols - 1u));
    return select(vec4(0.0), vec4(x[i.x], x[i.y], x[i.z], x[i.w]), at < vec4(p.cols));
}

@if(!scalar)
fn load_x(t: u32, g: u32) -> vec4<f32> {
    return x[t * (p.cols / 4u) + g];
}

// What all columns of a block are rounded with.
struct Scale {
    // The scale, as bits.
    d: u32,
    // The factor from x to bytes; 0 if all bytes are to be 0.
    inverse: f32,
    is_zero: bool,
}

// Returns the scale of a block whose largest magnitude has these bits: as integers, the bits of magnitudes have their
// order.
fn scale_of(largest: u32) -> Scale {
    if largest < LEAST {
        return Scale(0u, 0.0, true);
    }
    if largest >= INFINITE {
        return Scale(NAN, 0.0, true);
    }
    // The carry of the mantissa goes on into the exponent.
    let rounded = (largest + 0xffffu) & 0xffff0000u;
    let mantissa = 128u + ((rounded >> 16u) & 0x7fu);
    let exponent = (rounded >> 23u) - 127u;
    // Less than 2^24, so that its float is exact.
    let quotient = f32((127u << 24u) / mantissa);
    let inverse = bitcast<f32>(bitcast<u32>(quotient) + ((0xffffffefu - exponent) << 23u));
    if rounded == INFINITE {
        return Scale(INFINITE, inverse, false);
    }
    return Scale(bitcast<u32>(bitcast<f32>(rounded) * ONE_127TH), inverse, false);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let b = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if b >= p.blocks || t >= p.tokens {
        return;
    }
    var v: array<vec4<f32>, 8>;
    var largest = vec4(0u);
    for (var g = 0u; g < 8u; g++) {
        v[g] = load_x(t, 8u * b + g);
        largest = max(largest, bitcast<vec4<u32>>(v[g]) & vec4(0x7fffffffu));
    }
    let scale = scale_of(max(max(largest.x, largest.y), max(largest.z, largest.w)));
    let block = t * p.blocks + b;
    var sums = array(0, 0);
    for (var g = 0u; g < 8u; g++) {
        let q = select(clamp(vec4<i32>(round(v[g] * scale.inverse)), vec4(-127), vec4(127)), vec4(0), vec4(scale.is_zero));
        sums[g / 4u] += (q.x + q.y) + (q.z + q.w);
        out[8u * block + g] = pack4xI8(q);
    }
    factors[block] = vec2(scale.d, (bitcast<u32>(sums[0]) & 0xffffu) | (bitcast<u32>(sums[1]) << 16u));
}
