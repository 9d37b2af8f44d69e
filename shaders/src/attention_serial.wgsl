// Attention as in attention.wgsl, but one invocation computes a head of a token, position by position.
// It uses no workgroup memory and no barriers, because both are slow on software adapters.
import package::attention_io::{index, cache_pages, capped_score, load_query, visible_kv_row, visible_range};
import package::attention_params::{p, store_out, with_sink, LOWEST};
import package::cache::{head_offset, value_vec4};
import package::query::{query, MAX_VALUE_VEC4S, MAX_VEC4S};
import constants::WG;

const TILE = vec2<u32>(WG, 1u);

var<private> acc: array<vec4<f32>, MAX_VALUE_VEC4S>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let head = wid.x * WG + lid;
    let t = wid.y;
    if head >= p.heads || t >= p.tokens {
        return;
    }
    let vec4s = min((p.head_dim + 3u) / 4u, MAX_VEC4S);
    let base = (t * p.heads + head) * p.head_dim;
    let kv_head = head / (p.heads / p.kv_heads);
    let value_vec4s = min((p.value_dim + 3u) / 4u, MAX_VALUE_VEC4S);
    for (var i = 0u; i < vec4s; i++) {
        query[i] = load_query(base, i);
    }
    for (var i = 0u; i < value_vec4s; i++) {
        acc[i] = vec4(0.0);
    }
    let token = index[t];
    let pages = cache_pages(vec4s);
    let visible = visible_range(token, pages);
    var row_max = LOWEST;
    var total = 0.0;
    let page_size = max(p.page_size, 1u);
    var position = visible.x;
    while position < visible.y {
        // Within a page, the heads of consecutive positions are `kv_heads` apart.
        var row = visible_kv_row(token.x, position, kv_head, pages);
        let page_end = min(visible.y, position + page_size - position % page_size);
        for (; position < page_end; position++) {
            let kv = head_offset(row, vec4s);
            let score = capped_score(kv, vec4s);
            if score > row_max {
                let rescale = exp(row_max - score);
                row_max = score;
                total *= rescale;
                for (var i = 0u; i < value_vec4s; i++) {
                    acc[i] *= rescale;
                }
            }
            let weight = exp(score - row_max);
            total += weight;
            for (var i = 0u; i < value_vec4s; i++) {
                acc[i] += weight * value_vec4(kv, vec4s, i);
            }
            row += p.kv_heads;
        }
    }
    total = with_sink(head, row_max, total);
    for (var i = 0u; i < value_vec4s; i++) {
        store_out((t * p.heads + head) * p.value_dim, i, acc[i], total);
    }
}
