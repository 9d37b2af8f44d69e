// Attention of many tokens, as in attention.wgsl, but a workgroup computes a tile: ROWS queries of one KV
// head against POSITIONS keys and values at a time (FlashAttention-2, Dao 2023). Its rows are the queries of
// consecutive tokens, those of one token next to each other, so that grouped heads share keys and values.
// Where tokens of several sequences meet in a tile, the sequences are computed one after the other, each from the
// start and up to its results, so that numbers of one that are not finite never reach another.
//
// Keys, values and queries pass through workgroup memory in slices, decoded, so that every format of the
// cache and head of any size is computed alike. Four rows are a vector. LANES invocations share four rows of
// scores, each with every LANES-th position; COLUMNS share a band of the result's rows, each with every
// COLUMNS-th vec4 of a head.
import package::attention_io::{index, cache_pages, load_query, visible_kv_row, visible_range};
import package::attention_params::{p, capped, store_out, LOWEST, MASKED};
import package::cache::{head_offset, key_vec4, value_vec4};
import constants::{ROWS, OWN_VEC4S};

const WG: u32 = 64u;
const TILE = vec2<u32>(1u, ROWS);
const POSITIONS: u32 = 32u;
// vec4s of a key that are in workgroup memory at a time.
const SLICE: u32 = 8u;
// Elements of workgroup memory from one key to the next, padded so that they are in different banks.
const STRIDE: u32 = SLICE + 1u;
const QUADS: u32 = ROWS / 4u;
const LANES: u32 = WG / QUADS;
const OWN_POSITIONS: u32 = POSITIONS / LANES;
const COLUMNS: u32 = 16u;
const OWN_QUADS: u32 = QUADS * COLUMNS / WG;
// vec4s of the largest head.
const VEC4S: u32 = COLUMNS * OWN_VEC4S;
// Values that are in workgroup memory at a time.
const VALUES: u32 = POSITIONS * SLICE / VEC4S;

// [POSITIONS, STRIDE] of keys, or [VALUES, VEC4S] of values.
var<workgroup> kv: array<vec4<f32>, POSITIONS * STRIDE>;
// [elements of a slice, QUADS] of queries, then [POSITIONS, QUADS] weights.
var<workgroup> rows: array<vec4<f32>, POSITIONS * QUADS>;
var<workgroup> lane_quads: array<vec4<f32>, WG>;
var<workgroup> rescales: array<vec4<f32>, QUADS>;
// Offsets of the queries in `q` and `out`.
var<workgroup> bases: array<u32, ROWS>;
// Offsets of the keys and values in the cache.
var<workgroup> head_offsets: array<u32, POSITIONS>;

// Loads a slice of the queries and of the keys, from vec4 `slice` on.
fn load_keys(lid: u32, slice: u32, vec4s: u32) {
    for (var unit = lid; unit < QUADS * SLICE; unit += WG) {
        let quad = unit % QUADS;
        let i = unit / QUADS;
        let x = load_query(bases[4u * quad], slice + i);
        let y = load_query(bases[4u * quad + 1u], slice + i);
        let z = load_query(bases[4u * quad + 2u], slice + i);
        let w = load_query(bases[4u * quad + 3u], slice + i);
        let at = 4u * i * QUADS + quad;
        rows[at] = vec4(x.x, y.x, z.x, w.x);
        rows[at + QUADS] = vec4(x.y, y.y, z.y, w.y);
        rows[at + 2u * QUADS] = vec4(x.z, y.z, z.z, w.z);
        rows[at + 3u * QUADS] = vec4(x.w, y.w, z.w, w.w);
    }
    for (var unit = lid; unit < POSITIONS * SLICE; unit += WG) {
        let position = unit / SLICE;
        let i = unit % SLICE;
        var key = vec4(0.0);
        if slice + i < vec4s {
            key = key_vec4(head_offsets[position], vec4s, slice + i);
        }
        kv[position * STRIDE + i] = key;
    }
}

// Loads the values of a few positions, from `first` of the tile on.
fn load_values(lid: u32, first: u32, vec4s: u32) {
    for (var unit = lid; unit < VALUES * VEC4S; unit += WG) {
        let i = unit % VEC4S;
        var value = vec4(0.0);
        if i < vec4s {
            value = value_vec4(head_offsets[first + unit / VEC4S], vec4s, i);
        }
        kv[unit] = value;
    }
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let kv_head = wid.x;
    let group = p.heads / p.kv_heads;
    let first_row = wid.y * ROWS;
    if kv_head >= p.kv_heads || first_row >= p.tokens * group {
        return;
    }
    let vec4s = min((p.head_dim + 3u) / 4u, VEC4S);
    let pages = cache_pages(vec4s);
    let last_row = min(first_row + ROWS, p.tokens * group) - 1u;
    let end_token = last_row / group + 1u;
    if lid < ROWS {
        // Rows beyond the last one repeat it; nothing reads their results.
        let row = min(first_row + lid, last_row);
        bases[lid] = (row / group * p.heads + kv_head * group + row % group) * p.head_dim;
    }
    let quad = lid / LANES;
    let lane = lid % LANES;
    let column = lid % COLUMNS;
    let band = lid / COLUMNS * OWN_QUADS;
    // [OWN_QUADS * 4 rows, OWN_VEC4S]
    var acc: array<vec4<f32>, OWN_QUADS * 4u * OWN_VEC4S>;
    var token = first_row / group;
    while token < end_token {
        // The tokens of one sequence that follow each other, and all that they see.
        let sequence = index[token].x;
        let first_token = token;
        var visible = vec2(0xffffffffu, 0u);
        while token < end_token && index[token].x == sequence {
            let range = visible_range(index[token], pages);
            if range.x < range.y {
                visible = vec2(min(visible.x, range.x), max(visible.y, range.y));
            }
            token++;
        }
        var row_max = vec4(LOWEST);
        // Of this invocation's positions.
        var total = vec4(0.0);
        for (var i = 0u; i < OWN_QUADS * 4u * OWN_VEC4S; i++) {
            acc[i] = vec4(0.0);
        }
        var starts = vec4(0u);
        var ends = vec4(0u);
        for (var j = 0u; j < 4u; j++) {
            let t = (first_row + 4u * quad + j) / group;
            if t >= first_token && t < token {
                let range = visible_range(index[t], pages);
                starts[j] = range.x;
                ends[j] = range.y;
            }
        }
        for (var first = visible.x; first < visible.y; first += POSITIONS) {
            let count = min(POSITIONS, visible.y - first);
            if lid < POSITIONS {
                // Those beyond the end repeat the last position, with weight 0.
                let row = visible_kv_row(sequence, first + min(lid, count - 1u), kv_head, pages);
                head_offsets[lid] = head_offset(row, vec4s);
            }
            workgroupBarrier();
            var scores: array<vec4<f32>, OWN_POSITIONS>;
            // A declaration in a loop does not clear an array on every adapter.
            for (var s = 0u; s < OWN_POSITIONS; s++) {
                scores[s] = vec4(0.0);
            }
            for (var slice = 0u; slice < vec4s; slice += SLICE) {
                load_keys(lid, slice, vec4s);
                workgroupBarrier();
                for (var i = 0u; i < SLICE; i++) {
                    let x = rows[4u * i * QUADS + quad];
                    let y = rows[(4u * i + 1u) * QUADS + quad];
                    let z = rows[(4u * i + 2u) * QUADS + quad];
                    let w = rows[(4u * i + 3u) * QUADS + quad];
                    for (var s = 0u; s < OWN_POSITIONS; s++) {
                        let key = kv[(lane + LANES * s) * STRIDE + i];
                        scores[s] = fma(x, vec4(key.x), scores[s]);
                        scores[s] = fma(y, vec4(key.y), scores[s]);
                        scores[s] = fma(z, vec4(key.z), scores[s]);
                        scores[s] = fma(w, vec4(key.w), scores[s]);
                    }
                }
                workgroupBarrier();
            }
            var lane_max = vec4(LOWEST);
            for (var s = 0u; s < OWN_POSITIONS; s++) {
                let position = vec4(first + lane + LANES * s);
                let score = vec4(capped(scores[s].x), capped(scores[s].y), capped(scores[s].z), capped(scores[s].w));
                scores[s] = select(vec4(MASKED), score, (position >= starts) & (position < ends));
                lane_max = max(lane_max, scores[s]);
            }
            lane_quads[lid] = lane_max;
            workgroupBarrier();
            let old_max = row_max;
            for (var i = 0u; i < LANES; i++) {
                row_max = max(row_max, lane_quads[quad * LANES + i]);
            }
            let rescale = exp(old_max - row_max);
            if lane == 0u {
                rescales[quad] = rescale;
            }
            total *= rescale;
            for (var s = 0u; s < OWN_POSITIONS; s++) {
                let weight = exp(scores[s] - row_max);
                total += weight;
                rows[(lane + LANES * s) * QUADS + quad] = weight;
            }
            workgroupBarrier();
            for (var r = 0u; r < OWN_QUADS * 4u; r++) {
                for (var c = 0u; c < OWN_VEC4S; c++) {
                    acc[r * OWN_VEC4S + c] *= rescales[band + r / 4u][r % 4u];
                }
            }
            for (var few = 0u; few < count; few += VALUES) {
                load_values(lid, few, vec4s);
                workgroupBarrier();
                for (var i = 0u; i < VALUES; i++) {
                    for (var o = 0u; o < OWN_QUADS; o++) {
                        let weight = rows[(few + i) * QUADS + band + o];
                        for (var c = 0u; c < OWN_VEC4S; c++) {
                            let value = kv[i * VEC4S + column + COLUMNS * c];
                            let at = 4u * o * OWN_VEC4S + c;
                            acc[at] = fma(vec4(weight.x), value, acc[at]);
                            acc[at + OWN_VEC4S] = fma(vec4(weight.y), value, acc[at + OWN_VEC4S]);
                            acc[at + 2u * OWN_VEC4S] = fma(vec4(weight.z), value, acc[at + 2u * OWN_VEC4S]);
                            acc[at + 3u * OWN_VEC4S] = fma(vec4(weight.w), value, acc[at + 3u * OWN_VEC4S]);
                        }
                    }
                }
                workgroupBarrier();
            }
        }
        workgroupBarrier();
        lane_quads[lid] = total;
        workgroupBarrier();
        for (var r = 0u; r < OWN_QUADS * 4u; r++) {
            let row = band * 4u + r;
            let t = (first_row + row) / group;
            if t < first_token || t >= token || first_row + row > last_row {
                continue;
            }
            var all = 0.0;
            for (var i = 0u; i < LANES; i++) {
                all += lane_quads[row / 4u * LANES + i][r % 4u];
            }
            for (var c = 0u; c < OWN_VEC4S; c++) {
                if column + COLUMNS * c < vec4s {
                    store_out(bases[row], column + COLUMNS * c, acc[r * OWN_VEC4S + c], all);
                }
            }
        }
    }
}
