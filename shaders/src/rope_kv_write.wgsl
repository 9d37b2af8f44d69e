// Rope of the queries and keys, and the keys and values into the paged cache, from the fused
// projection. An invocation does one unit of one head. With `norm` each head's query and key is first
// normalised by its root mean square, which every invocation computes for itself.
import package::cache::{UNIT, head_at, store_key, store_value};
import package::paged::cache_row;
import constants::WG;

struct RopeKvWriteParams {
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    rotary_dim: u32,
    interleaved: u32,
    page_size: u32,
    max_pages: u32,
    eps: f32,
    weight_offset: f32,
}

@group(0) @binding(0) var<uniform> p: RopeKvWriteParams;
@group(0) @binding(1) var<storage, read> qkv: array<f32>; // [tokens, (heads + 2 * kv_heads) * head_dim]
@group(0) @binding(2) var<storage, read_write> q: array<f32>; // [tokens, heads * head_dim]
@group(0) @binding(3) var<storage, read> index: array<vec2<u32>>; // [tokens] (sequence, position)
@group(0) @binding(4) var<storage, read> table: array<vec2<f32>>; // [positions, rotary_dim / 2] (cosine, sine)
@group(0) @binding(5) var<storage, read> page_table: array<u32>; // [batch, max_pages]
// 6 and 7: the cache.
@if(norm) @group(0) @binding(8) var<storage, read> norms: array<f32>; // [2, head_dim] (of queries, of keys)

const TILE = vec2<u32>(WG, 1u);

// What a head is multiplied by before its norm's weight.
@if(norm)
fn head_scale(head: u32) -> f32 {
    var squares = 0.0;
    for (var d = 0u; d < p.head_dim; d++) {
        squares += qkv[head + d] * qkv[head + d];
    }
    return inverseSqrt(squares / f32(p.head_dim) + p.eps);
}

@if(!norm)
fn head_scale(head: u32) -> f32 {
    return 1.0;
}

// Element `d` of the head that begins at `head`, normalised with the weights at `weights`.
@if(norm)
fn element(head: u32, d: u32, scale: f32, weights: u32) -> f32 {
    return qkv[head + d] * scale * (norms[weights + d] + p.weight_offset);
}

@if(!norm)
fn element(head: u32, d: u32, scale: f32, weights: u32) -> f32 {
    return qkv[head + d];
}

// Element `d` of the head that begins at `head`, rotated to `position`.
fn rotated(head: u32, d: u32, position: u32, scale: f32, weights: u32) -> f32 {
    let own = element(head, d, scale, weights);
    if d >= p.rotary_dim {
        return own;
    }
    let half = p.rotary_dim / 2u;
    var pair = d % half;
    var second = d >= half;
    var partner = select(d + half, d - half, second);
    if p.interleaved != 0u {
        pair = d / 2u;
        second = (d & 1u) != 0u;
        partner = d ^ 1u;
    }
    let turn = table[position * half + pair];
    let other = element(head, partner, scale, weights);
    return own * turn.x + select(-turn.y, turn.y, second) * other;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let quads = (p.head_dim + 3u) / 4u;
    let units = (quads + UNIT - 1u) / UNIT;
    let all_heads = p.heads + 2u * p.kv_heads;
    let i = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if i >= all_heads * units || t >= p.tokens {
        return;
    }
    let head = i / units;
    let unit = i % units;
    let at = index[t];
    let begin = (t * all_heads + head) * p.head_dim;
    let is_value = head >= p.heads + p.kv_heads;
    var scale = 1.0;
    if !is_value {
        scale = head_scale(begin);
    }
    let weights = select(0u, p.head_dim, head >= p.heads);
    var fours: array<vec4<f32>, UNIT>;
    for (var j = 0u; j < 4u * UNIT; j++) {
        let d = 4u * UNIT * unit + j;
        if d < p.head_dim {
            if is_value {
                fours[j / 4u][j % 4u] = qkv[begin + d];
            } else {
                fours[j / 4u][j % 4u] = rotated(begin, d, at.y, scale, weights);
            }
        }
    }
    if head < p.heads {
        for (var j = 0u; j < 4u * UNIT; j++) {
            let d = 4u * UNIT * unit + j;
            if d < p.head_dim {
                q[(t * p.heads + head) * p.head_dim + d] = fours[j / 4u][j % 4u];
            }
        }
        return;
    }
    let page = page_table[at.x * p.max_pages + at.y / p.page_size];
    let row = cache_row(page, at.y, p.page_size, p.kv_heads) + head - p.heads;
    if is_value {
        store_value(head_at(row - p.kv_heads, quads), quads, unit, fours);
    } else {
        store_key(head_at(row, quads), quads, unit, fours);
    }
}
