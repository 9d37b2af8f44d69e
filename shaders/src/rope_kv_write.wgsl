// Rope of the queries and keys, and the keys and values into the paged cache, from the fused
// projection. An invocation does one vec4 of one head. With `norm` each head's query and key is first
// normalised by its root mean square, which every invocation computes for itself.
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
@group(0) @binding(6) var<storage, read_write> k_cache: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> v_cache: array<vec4<f32>>;
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
    let all_heads = p.heads + 2u * p.kv_heads;
    let i = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if i >= all_heads * quads || t >= p.tokens {
        return;
    }
    let head = i / quads;
    let quad = i % quads;
    let at = index[t];
    let begin = (t * all_heads + head) * p.head_dim;
    let is_value = head >= p.heads + p.kv_heads;
    var scale = 1.0;
    if !is_value {
        scale = head_scale(begin);
    }
    let weights = select(0u, p.head_dim, head >= p.heads);
    var four = vec4(0.0);
    for (var j = 0u; j < 4u; j++) {
        let d = 4u * quad + j;
        if d < p.head_dim {
            if is_value {
                four[j] = qkv[begin + d];
            } else {
                four[j] = rotated(begin, d, at.y, scale, weights);
            }
        }
    }
    if head < p.heads {
        for (var j = 0u; j < 4u; j++) {
            let d = 4u * quad + j;
            if d < p.head_dim {
                q[(t * p.heads + head) * p.head_dim + d] = four[j];
            }
        }
        return;
    }
    let page = page_table[at.x * p.max_pages + at.y / p.page_size];
    let row = cache_row(page, at.y, p.page_size, p.kv_heads);
    if is_value {
        v_cache[(row + head - p.heads - p.kv_heads) * quads + quad] = four;
    } else {
        k_cache[(row + head - p.heads) * quads + quad] = four;
    }
}
