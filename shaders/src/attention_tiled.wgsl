// Attention of many tokens, as in attention.wgsl, but a workgroup computes a tile: ROWS queries of one KV
// head against POSITIONS keys and values at a time (FlashAttention-2, Dao 2023). Its rows are the queries of
// consecutive tokens, those of one token next to each other, so that grouped heads share keys and values.
// Where tokens of several sequences meet in a tile, the sequences are computed one after the other, each from the
// start and up to its results, so that numbers of one that are not finite never reach another.
//
// Queries, keys and values pass through workgroup memory in slices, decoded, so that every format of the cache and
// heads of any size are computed alike. An invocation computes the scores of four rows at four positions, and
// sums the values of four rows, OWN_VEC4S vec4s of each. A weight stays with the invocation that computed its
// score until the values of its position are in workgroup memory.
import package::attention_io::{index, add_dot, cache_pages, load_query, run_of_tokens, visible_kv_row, visible_range};
import package::attention_params::{p, capped, store_out, with_sink, LOWEST, MASKED};
import package::cache::{head_offset, key_vec4, value_vec4};
import package::query::MAX_VEC4S;
import constants::OWN_VEC4S;

const ROWS: u32 = 64u;
const POSITIONS: u32 = 64u;
// vec4s of queries and keys that are in workgroup memory at a time.
const SLICE: u32 = 4u;
// Each invocation loads one vec4 of a slice of the queries, and one of the keys.
const WG: u32 = ROWS * SLICE;
const TILE = vec2<u32>(1u, ROWS);
// vec4s of workgroup memory from one query or key to the next, padded so that they are in different banks.
const STRIDE: u32 = SLICE + 1u;
// Invocations that share four rows: in scores, each has four positions.
const LANES: u32 = POSITIONS / 4u;
// vec4s of the largest value. Heads may be larger: only slices of them are in memory.
const VEC4S: u32 = LANES * OWN_VEC4S;
// Values that are in workgroup memory at a time.
const VALUES: u32 = min(16u, 512u / VEC4S);

// [POSITIONS, STRIDE] of keys, [WG] of four rows' numbers, or [VALUES, VEC4S] of values.
var<workgroup> kv: array<vec4<f32>, max(POSITIONS * STRIDE, VALUES * VEC4S)>;
// [ROWS, STRIDE] of queries, or [VALUES / 4, ROWS] weights, each of four positions.
var<workgroup> rows: array<vec4<f32>, ROWS * STRIDE>;
// [ROWS / 4], of four rows.
var<workgroup> rescales: array<vec4<f32>, ROWS / 4u>;
// Offsets of the queries in `q`.
var<workgroup> bases: array<u32, ROWS>;
// Offsets of the keys and values in the cache.
var<workgroup> head_offsets: array<u32, POSITIONS>;

// Loads a slice of the queries and of the keys, from vec4 `slice` on. Beyond the head's end, queries are 0 and keys
// repeat their last vec4. Keys `lane * 4 + s` are stored in the order of `s`, so that lanes read from different banks.
fn load_keys(lid: u32, slice: u32, vec4s: u32) {
    let i = lid % SLICE;
    let row = lid / SLICE;
    rows[row * STRIDE + i] = load_query(bases[row], slice + i);
    let key = row % 4u * LANES + row / 4u;
    kv[key * STRIDE + i] = key_vec4(head_offsets[row], vec4s, min(slice + i, vec4s - 1u));
}

// Loads the values of a few positions, from `first` of the tile on. Beyond the value's end they repeat its last
// vec4, whose sums nothing reads.
fn load_values(lid: u32, first: u32, vec4s: u32, value_vec4s: u32) {
    let i = min(lid % VEC4S, value_vec4s - 1u);
    for (var k = 0u; k < VALUES * VEC4S / WG; k++) {
        kv[lid + k * WG] = value_vec4(head_offsets[first + lid / VEC4S + k * (WG / VEC4S)], vec4s, i);
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
    let vec4s = clamp((p.head_dim + 3u) / 4u, 1u, MAX_VEC4S);
    let value_vec4s = clamp((p.value_dim + 3u) / 4u, 1u, VEC4S);
    let pages = cache_pages(vec4s);
    let last_row = min(first_row + ROWS, p.tokens * group) - 1u;
    let end_token = last_row / group + 1u;
    if lid < ROWS {
        // Rows beyond the last one repeat it; nothing reads their results.
        let row = min(first_row + lid, last_row);
        bases[lid] = (row / group * p.heads + kv_head * group + row % group) * p.head_dim;
    }
    // This invocation's four rows, and its share of the positions or of the vec4s of a head.
    let quad = lid / LANES;
    let lane = lid % LANES;
    // [4 rows, OWN_VEC4S]
    var acc: array<vec4<f32>, 4u * OWN_VEC4S>;
    var token = first_row / group;
    while token < end_token {
        let first_token = token;
        let run = run_of_tokens(token, end_token, pages);
        let visible = run.visible;
        token = run.end;
        for (var i = 0u; i < 4u * OWN_VEC4S; i++) {
            acc[i] = vec4(0.0);
        }
        var row_max = vec4(LOWEST);
        // Of this invocation's positions.
        var total = vec4(0.0);
        var starts = vec4(0u);
        var counts = vec4(0u);
        for (var r = 0u; r < 4u; r++) {
            let t = (first_row + 4u * quad + r) / group;
            if t >= first_token && t < token {
                let range = visible_range(index[t], pages);
                starts[r] = range.x;
                counts[r] = range.y - range.x;
            }
        }
        for (var first = visible.x; first < visible.y; first += POSITIONS) {
            let count = min(POSITIONS, visible.y - first);
            if lid < POSITIONS {
                // Those beyond the end repeat the last position, with weight 0.
                let row = visible_kv_row(run.sequence, first + min(lid, count - 1u), kv_head, pages);
                head_offsets[lid] = head_offset(row, vec4s);
            }
            workgroupBarrier();
            // [4 rows], of four positions; then weights. A declaration in a loop does not clear an array on every
            // adapter.
            var scores: array<vec4<f32>, 4>;
            for (var r = 0u; r < 4u; r++) {
                scores[r] = vec4(0.0);
            }
            for (var slice = 0u; slice < vec4s; slice += SLICE) {
                load_keys(lid, slice, vec4s);
                workgroupBarrier();
                for (var i = 0u; i < SLICE; i++) {
                    var keys: array<vec4<f32>, 4>;
                    for (var s = 0u; s < 4u; s++) {
                        keys[s] = kv[lane * STRIDE + (s * LANES * STRIDE + i)];
                    }
                    for (var r = 0u; r < 4u; r++) {
                        let query = rows[4u * quad * STRIDE + (r * STRIDE + i)];
                        for (var s = 0u; s < 4u; s++) {
                            scores[r][s] = add_dot(query, keys[s], scores[r][s]);
                        }
                    }
                }
                workgroupBarrier();
            }
            let positions = first + 4u * lane + vec4(0u, 1u, 2u, 3u);
            var lane_max = vec4(LOWEST);
            for (var r = 0u; r < 4u; r++) {
                if p.softcap != 0.0 {
                    scores[r] = vec4(capped(scores[r].x), capped(scores[r].y), capped(scores[r].z), capped(scores[r].w));
                }
                scores[r] = select(vec4(MASKED), scores[r], positions - starts[r] < vec4(counts[r]));
                lane_max[r] = max(max(scores[r].x, scores[r].y), max(scores[r].z, scores[r].w));
            }
            kv[lid] = lane_max;
            workgroupBarrier();
            let old_max = row_max;
            for (var i = 0u; i < LANES; i++) {
                row_max = max(row_max, kv[quad * LANES + i]);
            }
            let rescale = exp(old_max - row_max);
            if lane == 0u {
                rescales[quad] = rescale;
            }
            total *= rescale;
            for (var r = 0u; r < 4u; r++) {
                scores[r] = exp(scores[r] - row_max[r]);
                total[r] += (scores[r].x + scores[r].y) + (scores[r].z + scores[r].w);
            }
            workgroupBarrier();
            for (var r = 0u; r < 4u; r++) {
                for (var c = 0u; c < OWN_VEC4S; c++) {
                    acc[r * OWN_VEC4S + c] *= rescales[quad][r];
                }
            }
            for (var few = 0u; few < count; few += VALUES) {
                load_values(lid, few, vec4s, value_vec4s);
                if 4u * lane / VALUES == few / VALUES {
                    for (var r = 0u; r < 4u; r++) {
                        rows[lane % (VALUES / 4u) * ROWS + 4u * quad + r] = scores[r];
                    }
                }
                workgroupBarrier();
                for (var i = 0u; i < VALUES; i += 4u) {
                    var weights: array<vec4<f32>, 4>;
                    for (var r = 0u; r < 4u; r++) {
                        weights[r] = rows[4u * quad + (i / 4u * ROWS + r)];
                    }
                    for (var j = 0u; j < 4u; j++) {
                        for (var c = 0u; c < OWN_VEC4S; c++) {
                            let value = kv[lane + ((i + j) * VEC4S + LANES * c)];
                            for (var r = 0u; r < 4u; r++) {
                                let at = r * OWN_VEC4S + c;
                                acc[at] = fma(vec4(weights[r][j]), value, acc[at]);
                            }
                        }
                    }
                }
                workgroupBarrier();
            }
        }
        workgroupBarrier();
        kv[lid] = total;
        workgroupBarrier();
        for (var r = 0u; r < 4u; r++) {
            let row = 4u * quad + r;
            let t = (first_row + row) / group;
            if t < first_token || t >= token || first_row + row > last_row {
                continue;
            }
            var all = 0.0;
            for (var i = 0u; i < LANES; i++) {
                all += kv[quad * LANES + i][r];
            }
            let head = kv_head * group + (first_row + row) % group;
            all = with_sink(head, row_max[r], all);
            let base = (t * p.heads + head) * p.value_dim;
            for (var c = 0u; c < OWN_VEC4S; c++) {
                if lane + LANES * c < value_vec4s {
                    store_out(base, lane + LANES * c, acc[r * OWN_VEC4S + c], all);
                }
            }
        }
    }
}
