// The gated product of a feed-forward layer.
import package::activation::activate;
import constants::WG;

/// `gated`: `out[t, i] = activation(gate[t, i]) * up[t, i]` (Shazeer 2020, "GLU Variants Improve
/// Transformer"). `gate` and `up` may be parts of one stacked tensor. Grid: `[tokens * cols]`.
struct GatedParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Elements in a row of the result.
    cols: u32,
    /// Elements from one row of `gate` to the next.
    gate_stride: u32,
    /// Index of the first gate element within a row.
    gate_offset: u32,
    /// Elements from one row of `up` to the next.
    up_stride: u32,
    /// Index of the first `up` element within a row.
    up_offset: u32,
    /// One of the constants `ACTIVATION_…`.
    activation: u32,
}

@group(0) @binding(0) var<uniform> p: GatedParams;
@group(0) @binding(1) var<storage, read> gate: array<f32>; // [tokens, gate_stride]
@group(0) @binding(2) var<storage, read> up: array<f32>; // [tokens, up_stride]
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [tokens, cols]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.tokens * p.cols {
        return;
    }
    let t = i / p.cols;
    let c = i % p.cols;
    let g = gate[t * p.gate_stride + p.gate_offset + c];
    out[i] = activate(g, p.activation) * up[t * p.up_stride + p.up_offset + c];
}
