// Attention of ragged queries over a paged cache, with an online softmax (FlashAttention, Dao et al.
// 2022): causal, or with `both_ways` also of what follows. A workgroup does one head of one token, WG
// positions at a time: first each invocation scores one position, then they share out the head's
// vec4s and, where these are fewer than WG, the positions.
import package::cache::{head_at, score, value};
import package::paged::cache_row;
import package::query::{query, MAX_QUADS};
import package::reduce::{workgroup_sum, workgroup_max};
import constants::WG;

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

const TILE = vec2<u32>(1u, 1u);
// Below every score that matters; finite, so that differences are.
const LOWEST: f32 = -3.0e38;

var<workgroup> weights: array<f32, WG>;
var<workgroup> places: array<u32, WG>;
var<workgroup> sums: array<vec4<f32>, WG>;

fn load_query(base: u32, quad: u32) -> vec4<f32> {
    var four = vec4(0.0);
    for (var j = 0u; j < 4u; j++) {
        if 4u * quad + j < p.head_dim {
            four[j] = q[base + 4u * quad + j];
        }
    }
    return four * p.scale;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let head = wid.x;
    let t = wid.y;
    if head >= p.heads || t >= p.tokens {
        return;
    }
    let quads = min((p.head_dim + 3u) / 4u, MAX_QUADS);
    let base = (t * p.heads + head) * p.head_dim;
    let kv_head = head / (p.heads / p.kv_heads);
    for (var i = lid; i < quads; i += WG) {
        query[i] = load_query(base, i);
    }
    let at = index[t];
    let own_end = at.y + 1u;
    let start = select(0u, own_end - min(p.window, own_end), p.window != 0u);
    @if(!both_ways) let end = own_end;
    @if(both_ways) let length = max(lengths[at.x], own_end);
    @if(both_ways) let end = select(length, at.y + min(p.window, length - at.y), p.window != 0u);
    // Invocation `lid` owns vec4 `lid % quads` and every `lanes`th position of a step.
    let lanes = WG / quads;
    let quad = lid % quads;
    let lane = lid / quads;
    var greatest = LOWEST;
    var total = 0.0;
    var acc = vec4(0.0);
    workgroupBarrier();
    for (var first = start; first < end; first += WG) {
        let position = first + lid;
        var own = LOWEST;
        if position < end {
            let page = page_table[at.x * p.max_pages + position / p.page_size];
            let row = cache_row(page, position, p.page_size, p.kv_heads) + kv_head;
            let place = head_at(row, quads);
            places[lid] = place;
            own = score(place, quads);
            if p.softcap != 0.0 {
                // tanh's argument is bounded: some devices overflow inside it.
                own = p.softcap * tanh(clamp(own / p.softcap, -20.0, 20.0));
            }
        }
        let before = greatest;
        greatest = max(greatest, workgroup_max(own, lid));
        let weight = select(0.0, exp(own - greatest), position < end);
        weights[lid] = weight;
        // The sum's barriers also order `places` and `weights` before their readers.
        let fade = exp(before - greatest);
        total = total * fade + workgroup_sum(weight, lid);
        acc *= fade;
        let count = min(WG, end - first);
        if lane < lanes {
            for (var j = lane; j < count; j += lanes) {
                acc += weights[j] * value(places[j], quads, quad);
            }
        }
        // The next step overwrites `places` and `weights`.
        workgroupBarrier();
    }
    sums[lid] = acc;
    workgroupBarrier();
    if lid < quads {
        for (var i = 1u; i < lanes; i++) {
            acc += sums[lid + i * quads];
        }
        acc /= total;
        for (var j = 0u; j < 4u; j++) {
            if 4u * lid + j < p.head_dim {
                out[base + 4u * lid + j] = acc[j];
            }
        }
    }
}
