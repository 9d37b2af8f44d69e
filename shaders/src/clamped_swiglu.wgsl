// The gated product of gpt-oss, whose operands are clamped.
import constants::WG;

/// `clamped_swiglu`: `out[i] = (u + 1) * g * sigmoid(alpha * g)`, where `g = min(gate[i], limit)` and `u` is `up[i]`
/// limited to `-limit..=limit` (OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card"). Grid: `[len]`.
struct ClampedSwigluParams {
    /// Elements of each operand and of the result.
    len: u32,
    /// Factor on the gate in the sigmoid.
    alpha: f32,
    /// The largest gate, and the largest magnitude of `up`.
    limit: f32,
}

@group(0) @binding(0) var<uniform> p: ClampedSwigluParams;
@group(0) @binding(1) var<storage, read> gate: array<f32>; // [len]
@group(0) @binding(2) var<storage, read> up: array<f32>; // [len]
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [len]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.len {
        return;
    }
    let g = min(gate[i], p.limit);
    let u = clamp(up[i], -p.limit, p.limit);
    // exp overflows above 88.
    out[i] = (u + 1.0) * g / (1.0 + exp(min(-p.alpha * g, 87.0)));
}
