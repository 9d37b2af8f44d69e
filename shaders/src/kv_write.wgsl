// Writes new keys and values, or with `keys` only keys, into the paged cache. An invocation writes one unit of a key and
// of a value.
import package::cache::{UNIT, cached_heads, head_offset, store_key};
@if(!keys) import package::cache::store_value;
import package::paged::{has_table_entry, kv_row, page_count};
import constants::WG;

/// `kv_write`: `k_cache[page, slot, h, :] = k[t, h, :]`, and the same for `v`. The page table gives the
/// page of the token's position; the slot is the position within the page. What pads a head to
/// whole vec4s of elements, and in q8_0 its bytes and its scales to 16 bytes each, is 0. Grid: `[kv_heads * head_units, tokens]`, with the units of
/// [`CacheFormat::head_units`](crate::CacheFormat::head_units).
///
/// `key_write`: the same for keys alone, in a cache whose keys are values as well. The fields of `v` are not read.
///
/// Nothing is written for a token whose sequence or position is outside the page table, or whose page is
/// outside the cache; the host's twin returns an error.
struct KvWriteParams {
    /// Tokens in the batch.
    tokens: u32,
    /// KV heads.
    kv_heads: u32,
    /// Elements in a head.
    head_dim: u32,
    /// Elements from one token of `k` to the next.
    k_stride: u32,
    /// Index of the first key head within a token of `k`.
    k_offset: u32,
    /// Elements from one token of `v` to the next.
    v_stride: u32,
    /// Index of the first value head within a token of `v`.
    v_offset: u32,
    /// Positions in a page.
    page_size: u32,
    /// Entries of a sequence in the page table.
    max_pages: u32,
}

@group(0) @binding(0) var<uniform> p: KvWriteParams;
@group(0) @binding(1) var<storage, read> k: array<f32>; // [tokens, k_stride]
@if(!keys) @group(0) @binding(2) var<storage, read> v: array<f32>; // [tokens, v_stride]
@if(!keys) @group(0) @binding(3) var<storage, read> index: array<vec2<u32>>; // [tokens], of (sequence, position)
@if(!keys) @group(0) @binding(4) var<storage, read> page_table: array<u32>; // [batch, max_pages]
@if(keys) @group(0) @binding(2) var<storage, read> index: array<vec2<u32>>; // [tokens], of (sequence, position)
@if(keys) @group(0) @binding(3) var<storage, read> page_table: array<u32>; // [batch, max_pages]
// Bindings 5 and 6 are the cache, or with `keys` binding 4.

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let vec4s = (p.head_dim + 3u) / 4u;
    let units = (vec4s + UNIT - 1u) / UNIT;
    let i = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if i >= p.kv_heads * units || t >= p.tokens {
        return;
    }
    let head = i / units;
    let unit = i % units;
    let token = index[t];
    // Invalid sequence or position: nothing is written.
    if !has_table_entry(token, arrayLength(&page_table), p.page_size, p.max_pages) {
        return;
    }
    let page = page_table[token.x * p.max_pages + token.y / p.page_size];
    // Invalid page: nothing is written.
    if page >= page_count(cached_heads(vec4s), p.page_size, p.kv_heads) {
        return;
    }
    let destination = head_offset(kv_row(page, token.y, p.page_size, p.kv_heads) + head, vec4s);
    let k_base = t * p.k_stride + p.k_offset + head * p.head_dim;
    @if(!keys) let v_base = t * p.v_stride + p.v_offset + head * p.head_dim;
    var keys: array<vec4<f32>, UNIT>;
    @if(!keys) var values: array<vec4<f32>, UNIT>;
    for (var j = 0u; j < 4u * UNIT; j++) {
        let d = 4u * UNIT * unit + j;
        if d < p.head_dim {
            keys[j / 4u][j % 4u] = k[k_base + d];
            @if(!keys) { values[j / 4u][j % 4u] = v[v_base + d]; }
        }
    }
    store_key(destination, vec4s, unit, keys);
    @if(!keys) { store_value(destination, vec4s, unit, values); }
}
