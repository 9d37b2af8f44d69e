// Signed bytes with a scale for every 32: the inputs of products in the precision int8.
import package::quantize_block::quantize_block;
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
    for (var g = 0u; g < 8u; g++) {
        v[g] = load_x(t, 8u * b + g);
    }
    let block = t * p.blocks + b;
    let quantized = quantize_block(v);
    var words = quantized.words;
    for (var g = 0u; g < 8u; g++) {
        out[8u * block + g] = words[g];
    }
    factors[block] = quantized.factors;
}
