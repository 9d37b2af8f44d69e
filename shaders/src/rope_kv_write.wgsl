// Rotary position embedding of queries and keys from a fused projection. The queries are written to
// `q`, the keys and values to the paged cache. An invocation computes one unit of one head. With `norm`,
// each query and key head is first divided by its root mean square, which every invocation recomputes.
import package::cache::{UNIT, cached_heads, head_offset, store_key, store_value};
import package::paged::{has_table_entry, kv_row, page_count};
import constants::WG;

/// `rope_kv_write`: `rope` of the queries and keys and `kv_write` in one kernel. Grid: `[(heads + 2 *
/// kv_heads) * head_units, tokens]`, with the units of
/// [`CacheFormat::head_units`](crate::CacheFormat::head_units).
///
/// `norm_rope_kv_write`: the same after an `rms_norm` of each query and key head, with the same grid.
///
/// A token whose position is outside `table` is not rotated. Its keys and values are not written if its
/// sequence or position is outside the page table or the page is outside the cache. The host's twin
/// returns an error in both cases.
struct RopeKvWriteParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Query heads.
    heads: u32,
    /// KV heads.
    kv_heads: u32,
    /// Elements in a head.
    head_dim: u32,
    /// Elements of a head that rotate: even, at most `head_dim`.
    rotary_dim: u32,
    /// Which pairs of elements rotate together, as in [`RopeParams::interleaved`].
    interleaved: u32,
    /// Positions in a page.
    page_size: u32,
    /// Entries of a sequence in the page table.
    max_pages: u32,
    /// Added to the mean square before the square root of the norm.
    eps: f32,
    /// Added to each weight of the norm: 1 for Gemma models, else 0.
    weight_offset: f32,
}

@group(0) @binding(0) var<uniform> p: RopeKvWriteParams;
@group(0) @binding(1) var<storage, read> qkv: array<f32>; // [tokens, heads + 2 * kv_heads, head_dim]
@group(0) @binding(2) var<storage, read_write> q: array<f32>; // [tokens, heads, head_dim]
@group(0) @binding(3) var<storage, read> index: array<vec2<u32>>; // [tokens], of (sequence, position)
@group(0) @binding(4) var<storage, read> table: array<vec2<f32>>; // [positions, rotary_dim / 2], of (cosine, sine)
@group(0) @binding(5) var<storage, read> page_table: array<u32>; // [batch, max_pages]
// Bindings 6 and 7 are the cache.
@if(norm) @group(0) @binding(8) var<storage, read> norms: array<f32>; // [2, head_dim]: for queries, for keys

const TILE = vec2<u32>(WG, 1u);

// A head of the projection and how it is transformed.
struct Head {
    // Index of its first element in `qkv`.
    base: u32,
    // Factor of the norm.
    scale: f32,
    // Index of its first weight in `norms`.
    weights: u32,
    // Elements that rotate.
    rotary_dim: u32,
    // Index of the first pair's cosine and sine in `table`.
    rotation: u32,
}

// The factor that a norm applies to the head at `base`.
@if(norm)
fn norm_scale(base: u32) -> f32 {
    var squares = 0.0;
    for (var d = 0u; d < p.head_dim; d++) {
        squares += qkv[base + d] * qkv[base + d];
    }
    return inverseSqrt(squares / f32(p.head_dim) + p.eps);
}

@if(!norm)
fn norm_scale(base: u32) -> f32 {
    return 1.0;
}

// Element `d` of a head after the norm.
@if(norm)
fn normalised(head: Head, d: u32) -> f32 {
    return qkv[head.base + d] * head.scale * (norms[head.weights + d] + p.weight_offset);
}

@if(!norm)
fn normalised(head: Head, d: u32) -> f32 {
    return qkv[head.base + d];
}

// Element `d` of a head after norm and rotation.
fn rotated(head: Head, d: u32) -> f32 {
    let own = normalised(head, d);
    if d >= head.rotary_dim {
        return own;
    }
    let pairs = p.rotary_dim / 2u;
    var pair = d % pairs;
    var is_second = d >= pairs;
    var partner = select(d + pairs, d - pairs, is_second);
    if p.interleaved != 0u {
        pair = d / 2u;
        is_second = (d & 1u) != 0u;
        partner = d ^ 1u;
    }
    let cos_sin = table[head.rotation + pair];
    let other = normalised(head, partner);
    return own * cos_sin.x + select(-cos_sin.y, cos_sin.y, is_second) * other;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let vec4s = (p.head_dim + 3u) / 4u;
    let units = (vec4s + UNIT - 1u) / UNIT;
    let all_heads = p.heads + 2u * p.kv_heads;
    let i = (wid.x + wid.z * groups.x) * WG + lid;
    let t = wid.y;
    if i >= all_heads * units || t >= p.tokens {
        return;
    }
    let h = i / units;
    let unit = i % units;
    let token = index[t];
    let is_value = h >= p.heads + p.kv_heads;
    var head = Head((t * all_heads + h) * p.head_dim, 1.0, select(0u, p.head_dim, h >= p.heads), 0u, 0u);
    if !is_value {
        head.scale = norm_scale(head.base);
    }
    let pairs = p.rotary_dim / 2u;
    // Invalid position: nothing rotates.
    if token.y < arrayLength(&table) / max(pairs, 1u) {
        head.rotary_dim = p.rotary_dim;
        head.rotation = token.y * pairs;
    }
    var elements: array<vec4<f32>, UNIT>;
    for (var j = 0u; j < 4u * UNIT; j++) {
        let d = 4u * UNIT * unit + j;
        if d < p.head_dim {
            if is_value {
                elements[j / 4u][j % 4u] = qkv[head.base + d];
            } else {
                elements[j / 4u][j % 4u] = rotated(head, d);
            }
        }
    }
    if h < p.heads {
        for (var j = 0u; j < 4u * UNIT; j++) {
            let d = 4u * UNIT * unit + j;
            if d < p.head_dim {
                q[(t * p.heads + h) * p.head_dim + d] = elements[j / 4u][j % 4u];
            }
        }
        return;
    }
    // Invalid sequence or position: nothing is written to the cache.
    if !has_table_entry(token, arrayLength(&page_table), p.page_size, p.max_pages) {
        return;
    }
    let page = page_table[token.x * p.max_pages + token.y / p.page_size];
    // Invalid page: nothing is written to the cache.
    if page >= page_count(cached_heads(vec4s), p.page_size, p.kv_heads) {
        return;
    }
    let row = kv_row(page, token.y, p.page_size, p.kv_heads) + h - p.heads;
    if is_value {
        store_value(head_offset(row - p.kv_heads, vec4s), vec4s, unit, elements);
    } else {
        store_key(head_offset(row, vec4s), vec4s, unit, elements);
    }
}
