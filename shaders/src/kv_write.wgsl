// Writes new keys and values into the paged cache. An invocation writes one vec4 of both.
import package::paged::cache_row;
import constants::WG;

struct KvWriteParams {
    tokens: u32,
    kv_heads: u32,
    head_dim: u32,
    k_stride: u32,
    k_offset: u32,
    v_stride: u32,
    v_offset: u32,
    page_size: u32,
    max_pages: u32,
}

@group(0) @binding(0) var<uniform> p: KvWriteParams;
@group(0) @binding(1) var<storage, read> k: array<f32>; // [tokens, k_stride]
@group(0) @binding(2) var<storage, read> v: array<f32>; // [tokens, v_stride]
@group(0) @binding(3) var<storage, read> index: array<vec2<u32>>; // [tokens] (sequence, position)
@group(0) @binding(4) var<storage, read> page_table: array<u32>; // [batch, max_pages]
@group(0) @binding(5) var<storage, read_write> k_cache: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> v_cache: array<vec4<f32>>;

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let quads = (p.head_dim + 3u) / 4u;
    let i = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if i >= p.kv_heads * quads || t >= p.tokens {
        return;
    }
    let head = i / quads;
    let quad = i % quads;
    let at = index[t];
    let page = page_table[at.x * p.max_pages + at.y / p.page_size];
    let row = cache_row(page, at.y, p.page_size, p.kv_heads) + head;
    let from_k = t * p.k_stride + p.k_offset + head * p.head_dim;
    let from_v = t * p.v_stride + p.v_offset + head * p.head_dim;
    var key = vec4(0.0);
    var value = vec4(0.0);
    for (var j = 0u; j < 4u; j++) {
        let d = 4u * quad + j;
        if d < p.head_dim {
            key[j] = k[from_k + d];
            value[j] = v[from_v + d];
        }
    }
    k_cache[row * quads + quad] = key;
    v_cache[row * quads + quad] = value;
}
