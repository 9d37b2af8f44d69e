// RMS norm and, with `layer`, layer norm of each row. With `add` (the ops add_rms_norm and
// add_layer_norm) a scaled tensor is first added to x in place. A workgroup computes one row. With `vec4` an
// element of the arrays is a vec4, otherwise a number. With `int8`, which needs vec4s, an RMS norm also writes its result
// in signed bytes.
import package::workgroup_reduce::workgroup_sum_in;
@if(int8) import package::quantize_block::quantize_block;
import constants::WG;

/// `rms_norm`: `out[r, :] = x[r, :] / sqrt(mean(x[r, :]^2) + eps) * (weight + weight_offset)`
/// (Zhang and Sennrich 2019). Grid: `[rows]`.
///
/// `layer_norm`: `out[r, :] = (x[r, :] - mean) / sqrt(variance + eps) * (weight + weight_offset) +
/// bias`, with the mean and variance of `x[r, :]` (Ba et al. 2016). Grid: `[rows]`.
///
/// `add_rms_norm` and `add_layer_norm` first add `y_scale * y` to `x` in place. Grid: `[rows]`.
///
/// `rms_norm_int8` and `add_rms_norm_int8` also quantise the result: `bytes` and `factors` are those of `quantize`.
struct NormParams {
    /// Number of rows: tokens, or tokens times heads.
    rows: u32,
    /// Elements in a row.
    cols: u32,
    /// Added to the mean square or variance before the square root.
    eps: f32,
    /// Added to each weight: 1 for Gemma models, else 0.
    weight_offset: f32,
    /// Factor on `y` in `add_rms_norm` and `add_layer_norm`.
    y_scale: f32,
    /// 1 if a layer norm adds `bias`; 0 if there is none, and any buffer may be bound as `bias`.
    has_bias: u32,
}

@group(0) @binding(0) var<uniform> p: NormParams;
@if(!add) @group(0) @binding(1) var<storage, read> x: array<Element>; // [rows, cols]
@if(!add) @group(0) @binding(2) var<storage, read> weight: array<Element>; // [cols]
@if(!add) @group(0) @binding(3) var<storage, read_write> out: array<Element>; // [rows, cols]
@if(layer && !add) @group(0) @binding(4) var<storage, read> bias: array<Element>; // [cols]
@if(add) @group(0) @binding(1) var<storage, read_write> x: array<Element>; // [rows, cols]
@if(add) @group(0) @binding(2) var<storage, read> y: array<Element>; // [rows, cols]
@if(add) @group(0) @binding(3) var<storage, read> weight: array<Element>; // [cols]
@if(add) @group(0) @binding(4) var<storage, read_write> out: array<Element>; // [rows, cols]
@if(layer && add) @group(0) @binding(5) var<storage, read> bias: array<Element>; // [cols]
// As `quantize` writes them: bytes, four a word, and the bits of scales with the sums of 16 bytes each.
@if(int8 && !add) @group(0) @binding(4) var<storage, read_write> bytes: array<u32>; // [rows, cols / 32, 8]
@if(int8 && !add) @group(0) @binding(5) var<storage, read_write> factors: array<vec2<u32>>; // [rows, cols / 32]
@if(int8 && add) @group(0) @binding(5) var<storage, read_write> bytes: array<u32>; // [rows, cols / 32, 8]
@if(int8 && add) @group(0) @binding(6) var<storage, read_write> factors: array<vec2<u32>>; // [rows, cols / 32]

const TILE = vec2<u32>(1u, 1u);
@if(vec4 && !int8) const COLS_MULTIPLE = 4u;
@if(int8) const COLS_MULTIPLE = 32u;
@if(subgroups) const MIN_SUBGROUP = 1u;

@if(!vec4) alias Element = f32;
@if(vec4) alias Element = vec4<f32>;

@if(!vec4) const ELEMENT_WIDTH = 1u;
@if(vec4) const ELEMENT_WIDTH = 4u;

@if(!vec4)
fn sum_of(v: Element) -> f32 {
    return v;
}

@if(vec4)
fn sum_of(v: Element) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

// The bias of element `c`.
@if(layer)
fn bias_at(c: u32) -> Element {
    if p.has_bias != 0u {
        return bias[c];
    }
    return Element(0.0);
}

@if(!layer)
fn bias_at(c: u32) -> Element {
    return Element(0.0);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let row = wid.x + wid.y * groups.x;
    if row >= p.rows {
        return;
    }
    let width = p.cols / ELEMENT_WIDTH;
    let base = row * width;
    var squares = Element(0.0);
    var total = Element(0.0);
    for (var c = lid; c < width; c += WG) {
        @if(!add) let v = x[base + c];
        @if(add) let v = x[base + c] + p.y_scale * y[base + c];
        @if(add) x[base + c] = v;
        total += v;
        squares += v * v;
    }
    var mean = 0.0;
    // Each invocation reads only elements that it wrote itself, so no barrier is needed.
    @if(layer) {
        mean = workgroup_sum_in(1u, sum_of(total), lid) / f32(p.cols);
        squares = Element(0.0);
        for (var c = lid; c < width; c += WG) {
            let v = x[base + c] - mean;
            squares += v * v;
        }
    }
    let scale = inverseSqrt(workgroup_sum_in(0u, sum_of(squares), lid) / f32(p.cols) + p.eps);
    for (var c = lid; c < width; c += WG) {
        out[base + c] = (x[base + c] - mean) * scale * (weight[c] + p.weight_offset) + bias_at(c);
    }
    @if(int8) {
        // Other invocations wrote the numbers of a block.
        storageBarrier();
        for (var b = lid; b < p.cols / 32u; b += WG) {
            let block = row * (p.cols / 32u) + b;
            var v: array<vec4<f32>, 8>;
            for (var g = 0u; g < 8u; g++) {
                v[g] = out[8u * block + g];
            }
            let quantized = quantize_block(v);
            var words = quantized.words;
            for (var g = 0u; g < 8u; g++) {
                bytes[8u * block + g] = words[g];
            }
            factors[block] = quantized.factors;
        }
    }
}
