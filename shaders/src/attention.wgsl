// Attention of ragged queries over a paged cache, with an online softmax (FlashAttention, Dao et al.
// 2022): causal, or with `both_ways` also of what follows. A workgroup does one head of one token, WG
// positions at a time: first each invocation scores one position, then they share out the head's
// vec4s and, where these are fewer than WG, the positions.
import package::attention_io::{p, index, load_query, row_of, scored, seen, store_out, LOWEST};
import package::cache::{head_at, value};
import package::query::{query, MAX_QUADS};
import package::reduce::{workgroup_sum, workgroup_max};
import constants::WG;

const TILE = vec2<u32>(1u, 1u);

var<workgroup> weights: array<f32, WG>;
var<workgroup> places: array<u32, WG>;
var<workgroup> sums: array<vec4<f32>, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let head = wid.x;
    let t = wid.y;
    if head >= p.heads || t >= p.tokens {
        return;
    }
    let quads = min((p.head_dim + 3u) / 4u, MAX_QUADS);
    let base = (t * p.heads + head) * p.head_dim;
    let kv_head = head / (p.heads / p.kv_heads);
    for (var i = lid; i < quads; i += WG) {
        query[i] = load_query(base, i);
    }
    let at = index[t];
    let range = seen(at);
    // Invocation `lid` owns vec4 `lid % quads` and every `lanes`th position of a step.
    let lanes = WG / quads;
    let quad = lid % quads;
    let lane = lid / quads;
    var greatest = LOWEST;
    var total = 0.0;
    var acc = vec4(0.0);
    workgroupBarrier();
    for (var first = range.x; first < range.y; first += WG) {
        let position = first + lid;
        var own = LOWEST;
        if position < range.y {
            let place = head_at(row_of(at.x, position, kv_head), quads);
            places[lid] = place;
            own = scored(place, quads);
        }
        let before = greatest;
        greatest = max(greatest, workgroup_max(own, lid));
        let weight = select(0.0, exp(own - greatest), position < range.y);
        weights[lid] = weight;
        // The sum's barriers also order `places` and `weights` before their readers.
        let fade = exp(before - greatest);
        total = total * fade + workgroup_sum(weight, lid);
        acc *= fade;
        let count = min(WG, range.y - first);
        if lane < lanes {
            for (var j = lane; j < count; j += lanes) {
                acc += weights[j] * value(places[j], quads, quad);
            }
        }
        // The next step overwrites `places` and `weights`.
        workgroupBarrier();
    }
    sums[lid] = acc;
    workgroupBarrier();
    if lid < quads {
        for (var i = 1u; i < lanes; i++) {
            acc += sums[lid + i * quads];
        }
        store_out(base, lid, acc / total);
    }
}
