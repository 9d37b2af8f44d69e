// The weighted sum of the outputs of a token's experts.
import constants::WG;

/// `combine_experts`: `out[t, :] = sum over j of weights[t, j] * x[t, j, :]`. Grid: `[tokens * cols]`.
struct CombineExpertsParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Experts that each token was sent to.
    experts_per_token: u32,
    /// Elements in a row.
    cols: u32,
}

@group(0) @binding(0) var<uniform> p: CombineExpertsParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [tokens, experts_per_token, cols]
@group(0) @binding(2) var<storage, read> weights: array<f32>; // [tokens, experts_per_token]
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
    var sum = 0.0;
    for (var j = 0u; j < p.experts_per_token; j++) {
        let pair = t * p.experts_per_token + j;
        sum += weights[pair] * x[pair * p.cols + c];
    }
    out[i] = sum;
}
