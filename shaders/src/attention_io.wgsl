// What every `attention` kernel is given: its bindings, its query, the positions that a token sees, and
// how it scores them.
import package::cache::score;
import package::paged::cache_row;

struct AttentionParams {
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    page_size: u32,
    max_pages: u32,
    window: u32,
    scale: f32,
    softcap: f32,
}

@group(0) @binding(0) var<uniform> p: AttentionParams;
@group(0) @binding(1) var<storage, read> q: array<f32>; // [tokens, heads, head_dim]
// 2 and 3: the cache.
@group(0) @binding(4) var<storage, read> index: array<vec2<u32>>; // [tokens] (sequence, position)
@group(0) @binding(5) var<storage, read> page_table: array<u32>; // [batch, max_pages]
@group(0) @binding(6) var<storage, read_write> out: array<f32>; // [tokens, heads, head_dim]
@if(both_ways) @group(0) @binding(7) var<storage, read> lengths: array<u32>; // [batch]

// Below every score that matters; finite, so that differences are.
const LOWEST: f32 = -3.0e38;

fn load_query(base: u32, quad: u32) -> vec4<f32> {
    var four = vec4(0.0);
    for (var j = 0u; j < 4u; j++) {
        if 4u * quad + j < p.head_dim {
            four[j] = q[base + 4u * quad + j];
        }
    }
    return four * p.scale;
}

fn store_out(base: u32, quad: u32, four: vec4<f32>) {
    for (var j = 0u; j < 4u; j++) {
        if 4u * quad + j < p.head_dim {
            out[base + 4u * quad + j] = four[j];
        }
    }
}

// The first position that a token sees, and the one after the last.
fn seen(at: vec2<u32>) -> vec2<u32> {
    let own_end = at.y + 1u;
    let start = select(0u, own_end - min(p.window, own_end), p.window != 0u);
    @if(!both_ways) let end = own_end;
    @if(both_ways) let length = max(lengths[at.x], own_end);
    @if(both_ways) let end = select(length, at.y + min(p.window, length - at.y), p.window != 0u);
    return vec2(start, end);
}

// The number of a head of the cache at a position.
fn row_of(sequence: u32, position: u32, kv_head: u32) -> u32 {
    let page = page_table[sequence * p.max_pages + position / p.page_size];
    return cache_row(page, position, p.page_size, p.kv_heads) + kv_head;
}

// What the query gives the key at `place`.
fn scored(place: u32, quads: u32) -> f32 {
    let plain = score(place, quads);
    if p.softcap == 0.0 {
        return plain;
    }
    // tanh's argument is bounded: some devices overflow inside it.
    return p.softcap * tanh(clamp(plain / p.softcap, -20.0, 20.0));
}
