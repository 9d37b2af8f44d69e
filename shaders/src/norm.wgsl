// RMS norm (Zhang and Sennrich 2019): out[t, :] = x[t, :] / sqrt(mean(x[t, :]^2) + eps) * (weight +
// weight_offset). With `layer` layer norm (Ba et al. 2016): the mean is taken off first, and a bias
// added. With `add` (the ops add_rms_norm, add_layer_norm) after x += y_scale * y in place. A
// workgroup does one row.
import package::reduce::workgroup_sum;
import constants::WG;

struct NormParams {
    rows: u32,
    cols: u32,
    eps: f32,
    weight_offset: f32,
    y_scale: f32,
    has_bias: u32,
}

@group(0) @binding(0) var<uniform> p: NormParams;
@if(!add) @group(0) @binding(1) var<storage, read> x: array<f32>; // [rows, cols]
@if(!add) @group(0) @binding(2) var<storage, read> weight: array<f32>; // [cols]
@if(!add) @group(0) @binding(3) var<storage, read_write> out: array<f32>; // [rows, cols]
@if(layer && !add) @group(0) @binding(4) var<storage, read> bias: array<f32>; // [cols]
@if(add) @group(0) @binding(1) var<storage, read_write> x: array<f32>; // [rows, cols]
@if(add) @group(0) @binding(2) var<storage, read> y: array<f32>; // [rows, cols]
@if(add) @group(0) @binding(3) var<storage, read> weight: array<f32>; // [cols]
@if(add) @group(0) @binding(4) var<storage, read_write> out: array<f32>; // [rows, cols]
@if(layer && add) @group(0) @binding(5) var<storage, read> bias: array<f32>; // [cols]

const TILE = vec2<u32>(1u, 1u);

// What is added to column `c`.
@if(layer)
fn bias_at(c: u32) -> f32 {
    if p.has_bias != 0u {
        return bias[c];
    }
    return 0.0;
}

@if(!layer)
fn bias_at(c: u32) -> f32 {
    return 0.0;
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
    let base = row * p.cols;
    var squares = 0.0;
    var total = 0.0;
    for (var c = lid; c < p.cols; c += WG) {
        @if(!add) let v = x[base + c];
        @if(add) let v = x[base + c] + p.y_scale * y[base + c];
        @if(add) x[base + c] = v;
        total += v;
        squares += v * v;
    }
    var mean = 0.0;
    // Each invocation reads back only what it wrote itself.
    @if(layer) {
        mean = workgroup_sum(total, lid) / f32(p.cols);
        squares = 0.0;
        for (var c = lid; c < p.cols; c += WG) {
            let v = x[base + c] - mean;
            squares += v * v;
        }
    }
    let scale = inverseSqrt(workgroup_sum(squares, lid) / f32(p.cols) + p.eps);
    for (var c = lid; c < p.cols; c += WG) {
        out[base + c] = (x[base + c] - mean) * scale * (weight[c] + p.weight_offset) + bias_at(c);
    }
}
