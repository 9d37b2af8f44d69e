// The router of a mixture of experts: selects the most probable experts of each token, whose weights
// are the softmax over all experts (Shazeer et al. 2017). A workgroup routes one token.
import package::workgroup_reduce::{workgroup_sum, workgroup_max};
import package::order::{ordered_key, workgroup_best, Candidate};
import constants::WG;

/// `route`: the `experts_per_token` most probable experts of each token, the lower id first among
/// equals, and their weights: the softmax over all experts, divided by the sum of the selected weights
/// if `normalise` is set (Shazeer et al. 2017). Grid: `[tokens]`.
struct RouteParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Experts of the layer.
    experts: u32,
    /// Experts that each token is sent to, at most `experts`.
    experts_per_token: u32,
    /// 1 to divide a token's weights by their sum, else 0.
    normalise: u32,
}

@group(0) @binding(0) var<uniform> p: RouteParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>; // [tokens, experts]
@group(0) @binding(2) var<storage, read_write> ids: array<u32>; // [tokens, experts_per_token]
@group(0) @binding(3) var<storage, read_write> weights: array<f32>; // [tokens, experts_per_token]

const TILE = vec2<u32>(1u, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let t = wid.x + wid.y * groups.x;
    if t >= p.tokens {
        return;
    }
    let base = t * p.experts;
    var row_max = -3.4e38;
    for (var e = lid; e < p.experts; e += WG) {
        row_max = max(row_max, logits[base + e]);
    }
    row_max = workgroup_max(row_max, lid);
    var total = 0.0;
    for (var e = lid; e < p.experts; e += WG) {
        total += exp(logits[base + e] - row_max);
    }
    total = workgroup_sum(total, lid);
    var last = Candidate(0xffffffffu, 0u);
    var selected_sum = 0.0;
    for (var j = 0u; j < p.experts_per_token; j++) {
        // The best expert that comes after `last` in descending order.
        var best = Candidate(0u, min(lid, p.experts - 1u));
        for (var e = lid; e < p.experts; e += WG) {
            let key = ordered_key(logits[base + e]);
            let is_after = j == 0u || key < last.key || (key == last.key && e > last.id);
            if is_after && key > best.key {
                best = Candidate(key, e);
            }
        }
        last = workgroup_best(best, lid);
        let weight = exp(logits[base + last.id] - row_max) / total;
        selected_sum += weight;
        if lid == 0u {
            ids[t * p.experts_per_token + j] = last.id;
            weights[t * p.experts_per_token + j] = weight;
        }
    }
    if lid == 0u && p.normalise != 0u {
        for (var j = 0u; j < p.experts_per_token; j++) {
            weights[t * p.experts_per_token + j] /= selected_sum;
        }
    }
}
