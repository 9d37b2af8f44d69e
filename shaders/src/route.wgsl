// A mixture's router: the `chosen` likeliest experts of each token and their weights, which are the
// softmax over all experts, with `normalise` made to sum to 1 (Shazeer et al. 2017). A workgroup does
// one token. Equal experts are taken in their order.
import package::reduce::{workgroup_sum, workgroup_max};
import package::order::{ordered_key, workgroup_best, Best};
import constants::WG;

struct RouteParams {
    tokens: u32,
    experts: u32,
    chosen: u32,
    normalise: u32,
}

@group(0) @binding(0) var<uniform> p: RouteParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>; // [tokens, experts]
@group(0) @binding(2) var<storage, read_write> ids: array<u32>; // [tokens, chosen]
@group(0) @binding(3) var<storage, read_write> weights: array<f32>; // [tokens, chosen]

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
    var greatest = -3.4e38;
    for (var e = lid; e < p.experts; e += WG) {
        greatest = max(greatest, logits[base + e]);
    }
    greatest = workgroup_max(greatest, lid);
    var total = 0.0;
    for (var e = lid; e < p.experts; e += WG) {
        total += exp(logits[base + e] - greatest);
    }
    total = workgroup_sum(total, lid);
    var last = Best(0xffffffffu, 0u);
    var sum = 0.0;
    for (var j = 0u; j < p.chosen; j++) {
        // The best of those that come after the last one chosen.
        var best = Best(0u, min(lid, p.experts - 1u));
        for (var e = lid; e < p.experts; e += WG) {
            let key = ordered_key(logits[base + e]);
            let after = j == 0u || key < last.key || (key == last.key && e > last.id);
            if after && key > best.key {
                best = Best(key, e);
            }
        }
        last = workgroup_best(best, lid);
        let weight = exp(logits[base + last.id] - greatest) / total;
        sum += weight;
        if lid == 0u {
            ids[t * p.chosen + j] = last.id;
            weights[t * p.chosen + j] = weight;
        }
    }
    if lid == 0u && p.normalise != 0u {
        for (var j = 0u; j < p.chosen; j++) {
            weights[t * p.chosen + j] /= sum;
        }
    }
}
