// Attention of ragged queries over a paged cache, with an online softmax (FlashAttention, Dao et al.
// 2022): causal or, with `bidirectional`, over later positions as well. A workgroup computes one head of
// one token, WG positions per step: first each invocation computes the score of one position. Then the
// values are summed: each invocation sums one vec4 of a value, and if a value has fewer than WG vec4s, the
// positions are distributed over the remaining invocations as well.
import package::attention_io::{index, cache_pages, capped_score, load_query, visible_kv_row, visible_range};
import package::attention_params::{p, store_out, with_sink, LOWEST};
import package::cache::{head_offset, value_vec4};
import package::query::{query, MAX_VALUE_VEC4S, MAX_VEC4S};
import package::workgroup_reduce::{workgroup_sum, workgroup_max};
import constants::WG;

const TILE = vec2<u32>(1u, 1u);

var<workgroup> weights: array<f32, WG>;
var<workgroup> head_offsets: array<u32, WG>;
var<workgroup> lane_sums: array<vec4<f32>, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let head = wid.x;
    let t = wid.y;
    if head >= p.heads || t >= p.tokens {
        return;
    }
    let vec4s = min((p.head_dim + 3u) / 4u, MAX_VEC4S);
    let base = (t * p.heads + head) * p.head_dim;
    let kv_head = head / (p.heads / p.kv_heads);
    for (var i = lid; i < vec4s; i += WG) {
        query[i] = load_query(base, i);
    }
    let token = index[t];
    let pages = cache_pages(vec4s);
    let visible = visible_range(token, pages);
    // Invocation `lid` sums vec4 `lid % columns` of the value of every `lanes`-th position of a step.
    let columns = clamp((p.value_dim + 3u) / 4u, 1u, MAX_VALUE_VEC4S);
    let lanes = WG / columns;
    let own_vec4 = lid % columns;
    let lane = lid / columns;
    var row_max = LOWEST;
    var total = 0.0;
    var acc = vec4(0.0);
    workgroupBarrier();
    for (var first = visible.x; first < visible.y; first += WG) {
        let position = first + lid;
        var masked_score = LOWEST;
        if position < visible.y {
            let key = head_offset(visible_kv_row(token.x, position, kv_head, pages), vec4s);
            head_offsets[lid] = key;
            masked_score = capped_score(key, vec4s);
        }
        let old_max = row_max;
        row_max = max(row_max, workgroup_max(masked_score, lid));
        let weight = select(0.0, exp(masked_score - row_max), position < visible.y);
        weights[lid] = weight;
        // The barriers in `workgroup_sum` also order `head_offsets` and `weights` before their reads.
        let rescale = exp(old_max - row_max);
        total = total * rescale + workgroup_sum(weight, lid);
        acc *= rescale;
        let count = min(WG, visible.y - first);
        if lane < lanes {
            for (var j = lane; j < count; j += lanes) {
                acc += weights[j] * value_vec4(head_offsets[j], vec4s, own_vec4);
            }
        }
        // Waits before the next step overwrites `head_offsets` and `weights`.
        workgroupBarrier();
    }
    lane_sums[lid] = acc;
    workgroupBarrier();
    if lid < columns {
        for (var i = 1u; i < lanes; i++) {
            acc += lane_sums[lid + i * columns];
        }
        store_out((t * p.heads + head) * p.value_dim, lid, acc, with_sink(head, row_max, total));
    }
}
