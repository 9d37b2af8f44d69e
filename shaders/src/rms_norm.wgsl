// RMS norm (Zhang and Sennrich 2019): out[t, :] = x[t, :] / sqrt(mean(x[t, :]^2) + eps) * (weight +
// weight_offset); with `add` (the op add_rms_norm) after x += y in place. A workgroup does one row.
import package::reduce::workgroup_sum;
import constants::WG;

struct RmsNormParams {
    rows: u32,
    cols: u32,
    eps: f32,
    weight_offset: f32,
}

@group(0) @binding(0) var<uniform> p: RmsNormParams;
@if(!add) @group(0) @binding(1) var<storage, read> x: array<f32>; // [rows, cols]
@if(!add) @group(0) @binding(2) var<storage, read> weight: array<f32>; // [cols]
@if(!add) @group(0) @binding(3) var<storage, read_write> out: array<f32>; // [rows, cols]
@if(add) @group(0) @binding(1) var<storage, read_write> x: array<f32>; // [rows, cols]
@if(add) @group(0) @binding(2) var<storage, read> y: array<f32>; // [rows, cols]
@if(add) @group(0) @binding(3) var<storage, read> weight: array<f32>; // [cols]
@if(add) @group(0) @binding(4) var<storage, read_write> out: array<f32>; // [rows, cols]

const TILE = vec2<u32>(1u, 1u);

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
    for (var c = lid; c < p.cols; c += WG) {
        @if(!add) let v = x[base + c];
        @if(add) let v = x[base + c] + y[base + c];
        @if(add) x[base + c] = v;
        squares += v * v;
    }
    let scale = inverseSqrt(workgroup_sum(squares, lid) / f32(p.cols) + p.eps);
    // Each invocation reads back only what it wrote itself.
    for (var c = lid; c < p.cols; c += WG) {
        out[base + c] = x[base + c] * scale * (weight[c] + p.weight_offset);
    }
}
