// Attention of few tokens, as in attention.wgsl, but with what a token sees split into chunks (FlashDecoding,
// Dao et al. 2023), so that one token of a long sequence occupies a whole GPU. A workgroup computes one
// chunk for up to HEADS query heads of one KV head, and reads each key and value once. Per step of
// CHUNK_STEP positions each invocation first computes the scores of two positions. Then the values are
// summed as in attention.wgsl, eight positions at a time. For wide heads each invocation makes OWN_LOADS loads of a
// value, and there are fewer heads, so that workgroup memory suffices.
import package::attention_chunks::{chunk_count, chunk_range, part_offset, share_of, CHUNK_STEP};
import package::attention_io::{index, add_dot, cache_pages, load_query, visible_kv_row, visible_range};
import package::attention_params::{p, capped, store_out, with_sink, LOWEST, MASKED};
import package::attention_parts::store_part;
import package::cache::{head_offset, key_vec4, key_vec4s};
@if(whole_values) import package::cache::{unpack_vec4, value_load};
@if(!whole_values) import package::cache::value_vec4;
import constants::{HEADS, KEY_VEC4S, OWN_LOADS};

const WG: u32 = 64u;
// vec4s of the largest value; those of the largest head are KEY_VEC4S, as many or more.
const VEC4S: u32 = WG * OWN_LOADS;
// vec4s of a load, and all that an invocation sums. With more than two heads, sums of pairs take too many registers.
@if(whole_values) const LOADED: u32 = 2u;
@if(!whole_values) const LOADED: u32 = 1u;
const OWN_VEC4S: u32 = LOADED * OWN_LOADS;
// Invocations that have room for their sums in `queries`; there are LOADED times as many.
const PART: u32 = WG / LOADED;
// Weights of a step that one invocation computes: all of them of one head.
const OWN_WEIGHTS: u32 = CHUNK_STEP * HEADS / WG;
// The grid counts positions.
const TILE = vec2<u32>(CHUNK_STEP, 1u);

// [HEADS, KEY_VEC4S] queries; in the end [HEADS, OWN_VEC4S, PART] sums of values.
var<workgroup> queries: array<vec4<f32>, HEADS * KEY_VEC4S>;
// [CHUNK_STEP, HEADS] scores, then weights.
var<workgroup> weights: array<f32, CHUNK_STEP * HEADS>;
var<workgroup> head_offsets: array<u32, CHUNK_STEP>;
var<workgroup> partials: array<f32, WG>;
var<workgroup> rescales: array<f32, HEADS>;

// Load `i` of the value at offset `head`.
fn load_value(head: u32, vec4s: u32, i: u32) -> array<vec4<f32>, LOADED> {
    @if(whole_values) {
        let halves = value_load(head, i);
        return array(unpack_vec4(halves.xy), unpack_vec4(halves.zw));
    }
    @if(!whole_values) { return array(value_vec4(head, vec4s, i)); }
}

// Writes the scores of this invocation's two positions of a step.
fn store_scores(lid: u32, count: u32, vec4s: u32) {
    let keys = vec2(head_offsets[lid], head_offsets[lid + WG]);
    var scores: array<vec2<f32>, HEADS>;
    var i = 0u;
    for (; i + 4u <= vec4s; i += 4u) {
        var first = key_vec4s(keys.x, vec4s, i);
        var second = key_vec4s(keys.y, vec4s, i);
        for (var u = 0u; u < 4u; u++) {
            for (var h = 0u; h < HEADS; h++) {
                let x = queries[h * KEY_VEC4S + i + u];
                scores[h] = vec2(add_dot(x, first[u], scores[h].x), add_dot(x, second[u], scores[h].y));
            }
        }
    }
    for (; i < vec4s; i++) {
        let first = key_vec4(keys.x, vec4s, i);
        let second = key_vec4(keys.y, vec4s, i);
        for (var h = 0u; h < HEADS; h++) {
            let x = queries[h * KEY_VEC4S + i];
            scores[h] = vec2(add_dot(x, first, scores[h].x), add_dot(x, second, scores[h].y));
        }
    }
    for (var h = 0u; h < HEADS; h++) {
        weights[lid * HEADS + h] = select(MASKED, capped(scores[h].x), lid < count);
        weights[(lid + WG) * HEADS + h] = select(MASKED, capped(scores[h].y), lid + WG < count);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let share = share_of(wid.x + wid.z * groups.x, HEADS);
    let heads = share.heads;
    let chunks = chunk_count();
    let t = wid.y;
    if share.chunk >= chunks || t >= p.tokens {
        return;
    }
    let vec4s = min((p.head_dim + 3u) / 4u, KEY_VEC4S);
    let value_vec4s = clamp((p.value_dim + 3u) / 4u, 1u, VEC4S);
    let token = index[t];
    let pages = cache_pages(vec4s);
    let range = chunk_range(visible_range(token, pages), share.chunk);
    let start = range.x;
    let end = range.y;
    // An empty chunk needs no queries, and there would be no barrier before its sums, which replace them.
    for (var i = lid; i < HEADS * vec4s && start < end; i += WG) {
        // Those beyond the group repeat its last head; nothing reads their results.
        let h = min(i / vec4s, heads - 1u);
        let base = (t * p.heads + share.first_head + h) * p.head_dim;
        queries[i / vec4s * KEY_VEC4S + i % vec4s] = load_query(base, i % vec4s);
    }
    // Invocation `place` of a part sums the vec4s of load `place % columns` and of those `columns` further. Each part has
    // `lanes` lanes, and all lanes take turns at eight positions of a step. Beyond the value's end they repeat its last
    // load, which may have a vec4 beyond the end as well; nothing reads their sums.
    let loads = (value_vec4s + LOADED - 1u) / LOADED;
    let columns = (loads + OWN_LOADS - 1u) / OWN_LOADS;
    let lanes = PART / columns;
    let place = lid % PART;
    let own_load = place % columns;
    let lane = place / columns;
    // Of head `lid % HEADS`; the total is that of this invocation's weights.
    var row_max = LOWEST;
    var total = 0.0;
    // [OWN_VEC4S, HEADS]
    var acc: array<vec4<f32>, HEADS * OWN_VEC4S>;
    for (var first = start; first < end; first += CHUNK_STEP) {
        let count = min(CHUNK_STEP, end - first);
        // Loops with constant bounds, which compilers unroll.
        for (var k = 0u; k < CHUNK_STEP / WG; k++) {
            let i = lid + k * WG;
            // Those beyond the chunk repeat its last position, with weight 0.
            let row = visible_kv_row(token.x, first + min(i, count - 1u), share.kv_head, pages);
            head_offsets[i] = head_offset(row, vec4s);
        }
        // Orders the queries, too.
        workgroupBarrier();
        store_scores(lid, count, vec4s);
        workgroupBarrier();
        var lane_max = LOWEST;
        for (var k = 0u; k < OWN_WEIGHTS; k++) {
            lane_max = max(lane_max, weights[lid + k * WG]);
        }
        partials[lid] = lane_max;
        workgroupBarrier();
        let old_max = row_max;
        for (var k = 0u; k < WG / HEADS; k++) {
            row_max = max(row_max, partials[lid % HEADS + k * HEADS]);
        }
        let rescale = exp(old_max - row_max);
        total *= rescale;
        for (var k = 0u; k < OWN_WEIGHTS; k++) {
            let weight = exp(weights[lid + k * WG] - row_max);
            weights[lid + k * WG] = weight;
            total += weight;
        }
        if lid < HEADS {
            rescales[lid] = rescale;
        }
        workgroupBarrier();
        for (var c = 0u; c < OWN_VEC4S; c++) {
            for (var h = 0u; h < HEADS; h++) {
                acc[c * HEADS + h] *= rescales[h];
            }
        }
        if lane < lanes {
            for (var j = 8u * (lid / PART * lanes + lane); j < count; j += 8u * LOADED * lanes) {
                for (var u = 0u; u < 8u; u++) {
                    for (var c = 0u; c < OWN_LOADS; c++) {
                        let i = min(own_load + c * columns, loads - 1u);
                        let values = load_value(head_offsets[j + u], vec4s, i);
                        for (var h = 0u; h < HEADS; h++) {
                            let weight = vec4(weights[(j + u) * HEADS + h]);
                            for (var e = 0u; e < LOADED; e++) {
                                let at = (c * LOADED + e) * HEADS + h;
                                acc[at] = fma(weight, values[e], acc[at]);
                            }
                        }
                    }
                }
            }
        }
        // Waits before the next step overwrites `head_offsets` and `weights`.
        workgroupBarrier();
    }
    weights[lid] = total;
    partials[lid] = row_max;
    // The queries are read no more. The first part adds the sums of the second.
    @if(whole_values) {
        for (var i = 0u; i < OWN_VEC4S * HEADS; i++) {
            if lid >= PART {
                queries[i % HEADS * VEC4S + i / HEADS * PART + place] = acc[i];
            }
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < OWN_VEC4S * HEADS; i++) {
        if lid < PART {
            let at = i % HEADS * VEC4S + i / HEADS * PART + place;
            @if(whole_values) queries[at] += acc[i];
            @if(!whole_values) queries[at] = acc[i];
        }
    }
    workgroupBarrier();
    for (var i = lid; i < heads * value_vec4s; i += WG) {
        let h = i / value_vec4s;
        let out_vec4 = i % value_vec4s;
        let load = out_vec4 / LOADED;
        let own = (load / columns * LOADED + out_vec4 % LOADED) * PART + load % columns;
        var sum = vec4(0.0);
        for (var j = 0u; j < lanes * columns; j += columns) {
            sum += queries[h * VEC4S + own + j];
        }
        var all = 0.0;
        for (var j = h; j < WG; j += HEADS) {
            all += weights[j];
        }
        let head = share.first_head + h;
        if chunks == 1u {
            store_out((t * p.heads + head) * p.value_dim, out_vec4, sum, with_sink(head, partials[h], all));
        } else {
            store_part(part_offset(t, share.chunk, head, value_vec4s), out_vec4, value_vec4s, sum, partials[h], all);
        }
    }
}
