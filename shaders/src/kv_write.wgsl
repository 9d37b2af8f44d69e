// Writes new keys and values into the paged cache. An invocation writes one unit of both.
import package::cache::{UNIT, head_at, store_key, store_value};
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
// 5 and 6: the cache.

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let quads = (p.head_dim + 3u) / 4u;
    let units = (quads + UNIT - 1u) / UNIT;
    let i = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if i >= p.kv_heads * units || t >= p.tokens {
        return;
    }
    let head = i / units;
    let unit = i % units;
    let at = index[t];
    let page = page_table[at.x * p.max_pages + at.y / p.page_size];
    let place = head_at(cache_row(page, at.y, p.page_size, p.kv_heads) + head, quads);
    let from_k = t * p.k_stride + p.k_offset + head * p.head_dim;
    let from_v = t * p.v_stride + p.v_offset + head * p.head_dim;
    var keys: array<vec4<f32>, UNIT>;
    var values: array<vec4<f32>, UNIT>;
    for (var j = 0u; j < 4u * UNIT; j++) {
        let d = 4u * UNIT * unit + j;
        if d < p.head_dim {
            keys[j / 4u][j % 4u] = k[from_k + d];
            values[j / 4u][j % 4u] = v[from_v + d];
        }
    }
    store_key(place, quads, unit, keys);
    store_value(place, quads, unit, values);
}
