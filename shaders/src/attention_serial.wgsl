// Attention as in attention.wgsl, but one invocation computes a head of a token, position by position.
// It uses no workgroup memory and no barriers, because both are slow on software adapters. Keys and values are read four
// vec4s a turn of a loop, because llvmpipe ends the loops of an invocation after 65,535 turns in all. Its compiler unrolls
// only the smallest loops.
import package::attention_io::{index, add_dot, cache_pages, load_query, visible_kv_row, visible_range};
import package::attention_params::{p, capped, store_out, with_sink, LOWEST};
import package::cache::{head_offset, key_vec4, value_vec4};
import package::query::{query, MAX_VALUE_VEC4S, MAX_VEC4S};
import constants::WG;

const TILE = vec2<u32>(WG, 1u);

var<private> acc: array<vec4<f32>, MAX_VALUE_VEC4S>;

// The sum, plus the product of vec4 `i` of the query and of the key at offset `head`.
fn add_product(head: u32, vec4s: u32, i: u32, sum: f32) -> f32 {
    return add_dot(query[i], key_vec4(head, vec4s, i), sum);
}

// The score of the query with the key at offset `head`.
fn score_of(head: u32, vec4s: u32) -> f32 {
    var sum = 0.0;
    var i = 0u;
    for (; i + 4u <= vec4s; i += 4u) {
        sum = add_product(head, vec4s, i, sum);
        sum = add_product(head, vec4s, i + 1u, sum);
        sum = add_product(head, vec4s, i + 2u, sum);
        sum = add_product(head, vec4s, i + 3u, sum);
    }
    for (; i < vec4s; i++) {
        sum = add_product(head, vec4s, i, sum);
    }
    return capped(sum);
}

// Scales vec4 `i` of the sum of values, and adds that of the value at offset `head`.
fn add_vec4(head: u32, vec4s: u32, i: u32, rescale: f32, weight: f32) {
    acc[i] = fma(vec4(weight), value_vec4(head, vec4s, i), rescale * acc[i]);
}

fn add_value(head: u32, vec4s: u32, value_vec4s: u32, rescale: f32, weight: f32) {
    var i = 0u;
    for (; i + 4u <= value_vec4s; i += 4u) {
        add_vec4(head, vec4s, i, rescale, weight);
        add_vec4(head, vec4s, i + 1u, rescale, weight);
        add_vec4(head, vec4s, i + 2u, rescale, weight);
        add_vec4(head, vec4s, i + 3u, rescale, weight);
    }
    for (; i < value_vec4s; i++) {
        add_vec4(head, vec4s, i, rescale, weight);
    }
}

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
            let score = score_of(kv, vec4s);
            let new_max = max(row_max, score);
            let rescale = exp(row_max - new_max);
            let weight = exp(score - new_max);
            row_max = new_max;
            total = fma(total, rescale, weight);
            add_value(kv, vec4s, value_vec4s, rescale, weight);
            row += p.kv_heads;
        }
    }
    total = with_sink(head, row_max, total);
    for (var i = 0u; i < value_vec4s; i++) {
        store_out((t * p.heads + head) * p.value_dim, i, acc[i], total);
    }
}
