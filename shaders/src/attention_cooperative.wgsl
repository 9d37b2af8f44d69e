// Attention of many tokens on the matrix units of GPUs: tiles as in attention_tiled.wgsl, whose scores and weighted sums
// are products of cooperative matrices of halves, summed in single precision (FlashAttention-2, Dao 2023). Natively only:
// browsers have no cooperative matrices.
//
// ROW_SUBGROUPS subgroups compute a patch of 16 rows. Each has a share of the head's elements: it keeps these of the queries,
// and these columns of the sums, as matrices. Its part of the scores, and weights, pass through workgroup memory, where every
// invocation has a row's scores at some of the tile's positions. If a workgroup has too few subgroups for all patches at once, all
// steps are repeated for the others. It has enough for one patch: devices with cooperative matrices have subgroups of at most 64
// invocations (`Capabilities::matrix_size`).
//
// In workgroup memory, what a lane holds of a matrix is contiguous on AMD's GPUs: elements of a query or a key, positions of
// weights and of values.
//
// Keys and values are rounded as a cache in half precision would hold them. A row of queries is scaled by a power of two,
// and weights are relative to a reference that is below the row's largest score. Only when a score exceeds it by more than
// halves can hold is there a new one, and the sums are rescaled: they are matrices whose rows the kernel cannot tell apart
// in registers (the rare rescaling is FlashAttention-4's).
import package::attention_io::{cache_pages, index, load_query, run_of_tokens, visible_kv_row, visible_range};
import package::attention_params::{p, capped, store_out, with_sink, LOWEST, MASKED};
import package::cache::{head_offset, key_halves, value_halves};
import package::half_precision::{half_scale, half_unscale, max_magnitude};
import package::subgroup_number::{subgroup_count, subgroup_number};
import constants::{WG, DIMS, ROWS, ROW_SUBGROUPS, POSITIONS};

const TILE = vec2<u32>(1u, ROWS);
const MIN_SUBGROUP = 1u;

// The rows and columns of a cooperative matrix.
const EDGE: u32 = 16u;
alias LeftMatrix = coop_mat16x16<f16, A>;
alias RightMatrix = coop_mat16x16<f16, B>;
alias SumMatrix = coop_mat16x16<f32, C>;

const PATCHES: u32 = ROWS / EDGE;
// Matrices across a subgroup's share of the elements, of every ROW_SUBGROUPS-th one.
const OWN_MATRICES: u32 = DIMS / EDGE / ROW_SUBGROUPS;
// Invocations that share a row, and the scores of each.
const PARTS: u32 = WG / ROWS;
const OWN_SCORES: u32 = POSITIONS / PARTS;
const VEC4S: u32 = DIMS / 4u;
// Queries are loaded in stages, each of some of their elements, so that they fit into the memory of a tile's keys.
const STAGES: u32 = ROWS / POSITIONS;
const STAGE_MATRICES: u32 = OWN_MATRICES / STAGES;
const STAGE_VEC4S: u32 = VEC4S / STAGES;
const_assert WG >= 64u * ROW_SUBGROUPS;
const_assert STAGES * STAGE_MATRICES * ROW_SUBGROUPS * EDGE == DIMS;
const_assert KEY_LOADS * WG == POSITIONS * VEC4S;
const_assert OWN_SCORES * WG == POSITIONS * ROWS;
// What an invocation loads: vec4s of keys, and blocks of 4 elements of the values of 4 positions.
const KEY_LOADS: u32 = POSITIONS * VEC4S / WG;
const VALUE_BLOCKS: u32 = POSITIONS / 4u * VEC4S;
const VALUE_LOADS: u32 = (VALUE_BLOCKS + WG - 1u) / WG;

// From one row, position or element in workgroup memory to the next, so that they begin in other banks.
const QUERY_STRIDE: u32 = DIMS / STAGES + 8u;
const KEY_STRIDE: u32 = DIMS + 8u;
const VALUE_STRIDE: u32 = POSITIONS + 8u;
const SCORE_STRIDE: u32 = POSITIONS + 4u;
const WEIGHT_STRIDE: u32 = POSITIONS + 8u;
// What a subgroup exchanges with others: the scores of a patch, or a matrix of its sums.
const AREA: u32 = EDGE * SCORE_STRIDE;
const PATCH_AREA: u32 = ROW_SUBGROUPS * AREA;

// A new reference gives the largest score the weight exp(5), and holds until a score has a weight above exp(11), which is
// less than the largest half: so 2^-21 is the smallest part of the largest weight that has all bits of a half.
const FIRST_EXPONENT: f32 = 5.0;
const LAST_EXPONENT: f32 = 11.0;

// These three come first, with sizes that are multiples of 16 bytes, to which the addresses of matrices must be aligned.
var<workgroup> kv: array<f16, max(max(POSITIONS * KEY_STRIDE, DIMS * VALUE_STRIDE), ROWS * QUERY_STRIDE)>; // keys as [position, element], values as [element, position], or queries as [row, element]
var<workgroup> scores: array<f32, PATCHES * PATCH_AREA>; // [patch, subgroup, row, position], the largest scores or total weights of the parts of a row, or [patch, subgroup, row, column] of sums
var<workgroup> weights: array<f16, ROWS * WEIGHT_STRIDE>; // [row, position]
var<workgroup> row_values: array<f32, ROWS>; // the factors of a rescaling, or the total weights
var<workgroup> rescales: u32; // 1 if a row's sums are to be rescaled
var<workgroup> largest: array<atomic<u32>, ROWS>; // the largest magnitude of a query, as bits
var<workgroup> head_offsets: array<u32, POSITIONS>; // offsets of the keys and values in the cache

fn store_halves(at: u32, v: vec4<f16>) {
    kv[at] = v.x;
    kv[at + 1u] = v.y;
    kv[at + 2u] = v.z;
    kv[at + 3u] = v.w;
}

// The head of a row of queries, among those of all tokens.
fn query_head(row: u32, kv_head: u32, group: u32) -> u32 {
    return (row / group * p.kv_heads + kv_head) * group + row % group;
}

// Loads an invocation's keys. Beyond the head's end they repeat the last vec4, where queries are 0.
fn load_keys(lid: u32, vec4s: u32) -> array<vec4<f16>, KEY_LOADS> {
    var keys: array<vec4<f16>, KEY_LOADS>;
    for (var k = 0u; k < KEY_LOADS; k++) {
        let i = k * WG + lid;
        keys[k] = key_halves(head_offsets[i / VEC4S], vec4s, min(i % VEC4S, vec4s - 1u));
    }
    return keys;
}

fn store_keys(lid: u32, keys: array<vec4<f16>, KEY_LOADS>) {
    for (var k = 0u; k < KEY_LOADS; k++) {
        let i = k * WG + lid;
        store_halves(i / VEC4S * KEY_STRIDE + 4u * (i % VEC4S), keys[k]);
    }
}

// The elements of 4 positions.
alias Block = array<vec4<f16>, 4>;

// Loads an invocation's values. Beyond the value's end they repeat the last vec4, whose sums nothing reads.
fn load_values(lid: u32, vec4s: u32, value_vec4s: u32) -> array<Block, VALUE_LOADS> {
    var values: array<Block, VALUE_LOADS>;
    for (var k = 0u; k < VALUE_LOADS; k++) {
        let i = (k * WG + lid) % VALUE_BLOCKS;
        let position = i % (POSITIONS / 4u) * 4u;
        let own_vec4 = min(i / (POSITIONS / 4u), value_vec4s - 1u);
        for (var j = 0u; j < 4u; j++) {
            values[k][j] = value_halves(head_offsets[position + j], vec4s, own_vec4);
        }
    }
    return values;
}

fn store_values(lid: u32, values: array<Block, VALUE_LOADS>) {
    for (var k = 0u; k < VALUE_LOADS; k++) {
        let i = k * WG + lid;
        if VALUE_LOADS * WG > VALUE_BLOCKS && i >= VALUE_BLOCKS {
            break;
        }
        let at = i / (POSITIONS / 4u) * 4u * VALUE_STRIDE + i % (POSITIONS / 4u) * 4u;
        for (var j = 0u; j < 4u; j++) {
            store_halves(at + j * VALUE_STRIDE, vec4(values[k][0][j], values[k][1][j], values[k][2][j], values[k][3][j]));
        }
    }
}

// Finds where a tile's keys and values are. Positions beyond the last visible one repeat it, with weight 0.
fn find_heads(lid: u32, sequence: u32, first: u32, end: u32, kv_head: u32, pages: u32, vec4s: u32) {
    if lid < POSITIONS && first < end {
        let row = visible_kv_row(sequence, min(first + lid, end - 1u), kv_head, pages);
        head_offsets[lid] = head_offset(row, vec4s);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let kv_head = wid.x;
    let group = p.heads / p.kv_heads;
    let first_row = wid.y * ROWS;
    // One expression, because naga's analysis does not follow `||`.
    if (kv_head >= p.kv_heads) | (first_row >= p.tokens * group) {
        return;
    }
    let vec4s = clamp((p.head_dim + 3u) / 4u, 1u, VEC4S);
    let value_vec4s = clamp((p.value_dim + 3u) / 4u, 1u, VEC4S);
    let pages = cache_pages(vec4s);
    // naga's SPIR-V needs names for the stride and the index of a store.
    let score_stride = SCORE_STRIDE;
    let last_row = min(first_row + ROWS, p.tokens * group) - 1u;
    let end_token = last_row / group + 1u;
    if lid < ROWS {
        atomicStore(&largest[lid], 0u);
    }
    // Has a barrier.
    let subgroup = subgroup_number(lid, lane);
    // This invocation's row, and its part of the positions.
    let row = lid % ROWS;
    let part = lid / ROWS;
    let row_token = (first_row + row) / group;
    let row_head = kv_head * group + (first_row + row) % group;
    let row_area = row / EDGE * PATCH_AREA + row % EDGE * SCORE_STRIDE;
    let own_scores = row_area + part * OWN_SCORES;
    var magnitude = 0.0;
    // Rows beyond the last one repeat it; nothing reads their results.
    let base = query_head(min(first_row + row, last_row), kv_head, group) * p.head_dim;
    for (var i = part; i < vec4s; i += PARTS) {
        magnitude = max_magnitude(load_query(base, i), magnitude);
    }
    atomicMax(&largest[row], bitcast<u32>(magnitude));
    workgroupBarrier();
    let patches_at_once = max(subgroup_count(lid) / ROW_SUBGROUPS, 1u);
    let unscale = half_unscale(bitcast<f32>(atomicLoad(&largest[row])));
    for (var first_patch = 0u; first_patch < PATCHES; first_patch += patches_at_once) {
        // Subgroups beyond the last patch compute it again, because all must take part, but do not store it.
        let own_patch = first_patch + subgroup / ROW_SUBGROUPS;
        let stores = own_patch < min(first_patch + patches_at_once, PATCHES);
        let patch_row = EDGE * min(own_patch, PATCHES - 1u);
        let share = subgroup % ROW_SUBGROUPS;
        let area = patch_row / EDGE * PATCH_AREA + share * AREA;
        let is_computed = row / EDGE - first_patch < patches_at_once;
        var queries: array<LeftMatrix, OWN_MATRICES>;
        for (var stage = 0u; stage < STAGES; stage++) {
            for (var k = 0u; k < ROWS * STAGE_VEC4S / WG; k++) {
                let i = k * WG + lid;
                let stage_row = i / STAGE_VEC4S;
                let own_vec4 = i % STAGE_VEC4S;
                let query = query_head(min(first_row + stage_row, last_row), kv_head, group) * p.head_dim;
                let scale = half_scale(bitcast<f32>(atomicLoad(&largest[stage_row])));
                let elements = scale * load_query(query, stage * STAGE_VEC4S + own_vec4);
                store_halves(stage_row * QUERY_STRIDE + 4u * own_vec4, vec4<f16>(elements));
            }
            workgroupBarrier();
            for (var d = 0u; d < STAGE_MATRICES; d++) {
                let at = patch_row * QUERY_STRIDE + EDGE * (d * ROW_SUBGROUPS + share);
                queries[stage * STAGE_MATRICES + d] = coopLoadT<LeftMatrix>(&kv[at], QUERY_STRIDE);
            }
            workgroupBarrier();
        }
        var token = first_row / group;
        while token < end_token {
            let first_token = token;
            let run = run_of_tokens(token, end_token, pages);
            token = run.end;
            var start = 0u;
            var count = 0u;
            if is_computed && first_row + row <= last_row && row_token >= first_token && row_token < token {
                let range = visible_range(index[row_token], pages);
                start = range.x;
                count = range.y - range.x;
            }
            var reference = LOWEST;
            // Of this invocation's positions.
            var total = 0.0;
            var sums: array<SumMatrix, OWN_MATRICES>;
            for (var c = 0u; c < OWN_MATRICES; c++) {
                sums[c] = SumMatrix();
            }
            find_heads(lid, run.sequence, run.visible.x, run.visible.y, kv_head, pages, vec4s);
            workgroupBarrier();
            var keys: array<vec4<f16>, KEY_LOADS>;
            if run.visible.x < run.visible.y {
                keys = load_keys(lid, vec4s);
            }
            for (var first = run.visible.x; first < run.visible.y; first += POSITIONS) {
                store_keys(lid, keys);
                let values = load_values(lid, vec4s, value_vec4s);
                workgroupBarrier();
                for (var c = 0u; c < POSITIONS; c += EDGE) {
                    var tile = SumMatrix();
                    for (var d = 0u; d < OWN_MATRICES; d++) {
                        let right = coopLoad<RightMatrix>(&kv[c * KEY_STRIDE + EDGE * (d * ROW_SUBGROUPS + share)], KEY_STRIDE);
                        tile = coopMultiplyAdd(queries[d], right, tile);
                    }
                    if stores {
                        let at = area + c;
                        coopStoreT(tile, &scores[at], score_stride);
                    }
                }
                workgroupBarrier();
                var own: array<f32, OWN_SCORES>;
                var part_max = LOWEST;
                if is_computed {
                    for (var i = 0u; i < OWN_SCORES; i++) {
                        var score = scores[own_scores + i];
                        for (var s = 1u; s < ROW_SUBGROUPS; s++) {
                            score += scores[own_scores + s * AREA + i];
                        }
                        own[i] = unscale * score;
                    }
                    if p.softcap != 0.0 {
                        for (var i = 0u; i < OWN_SCORES; i++) {
                            own[i] = capped(own[i]);
                        }
                    }
                    for (var i = 0u; i < OWN_SCORES; i++) {
                        own[i] = select(MASKED, own[i], first + part * OWN_SCORES + i - start < count);
                        part_max = max(part_max, own[i]);
                    }
                    // In the place of a score that only this invocation reads.
                    scores[own_scores] = part_max;
                }
                store_values(lid, values);
                if lid == 0u {
                    rescales = 0u;
                }
                let next = first + POSITIONS;
                find_heads(lid, run.sequence, next, run.visible.y, kv_head, pages, vec4s);
                workgroupBarrier();
                if is_computed {
                    var row_max = LOWEST;
                    for (var i = 0u; i < PARTS; i++) {
                        row_max = max(row_max, scores[row_area + i * OWN_SCORES]);
                    }
                    var rescale = 1.0;
                    if row_max - reference > LAST_EXPONENT {
                        rescale = exp(reference - (row_max - FIRST_EXPONENT));
                        // Sums that are still 0 stay so.
                        if reference > LOWEST {
                            rescales = 1u;
                        }
                        reference = row_max - FIRST_EXPONENT;
                    }
                    if part == 0u {
                        row_values[row] = rescale;
                    }
                    total *= rescale;
                    for (var i = 0u; i < OWN_SCORES; i++) {
                        let weight = f16(exp(own[i] - reference));
                        weights[row * WEIGHT_STRIDE + part * OWN_SCORES + i] = weight;
                        total += f32(weight);
                    }
                }
                if next < run.visible.y {
                    keys = load_keys(lid, vec4s);
                }
                // Has barriers.
                if workgroupUniformLoad(&rescales) != 0u {
                    for (var c = 0u; c < OWN_MATRICES; c++) {
                        if stores {
                            coopStoreT(sums[c], &scores[area], score_stride);
                        }
                        workgroupBarrier();
                        if is_computed {
                            for (var i = part; i < ROW_SUBGROUPS * EDGE; i += PARTS) {
                                scores[row_area + i / EDGE * AREA + i % EDGE] *= row_values[row];
                            }
                        }
                        workgroupBarrier();
                        sums[c] = coopLoadT<SumMatrix>(&scores[area], score_stride);
                        workgroupBarrier();
                    }
                }
                for (var k = 0u; k < POSITIONS; k += EDGE) {
                    let left = coopLoadT<LeftMatrix>(&weights[patch_row * WEIGHT_STRIDE + k], WEIGHT_STRIDE);
                    for (var c = 0u; c < OWN_MATRICES; c++) {
                        let column = EDGE * (c * ROW_SUBGROUPS + share);
                        let right = coopLoad<RightMatrix>(&kv[column * VALUE_STRIDE + k], VALUE_STRIDE);
                        sums[c] = coopMultiplyAdd(left, right, sums[c]);
                    }
                }
                workgroupBarrier();
            }
            scores[own_scores] = total;
            workgroupBarrier();
            if part == 0u {
                var all = 0.0;
                for (var i = 0u; i < PARTS; i++) {
                    all += scores[row_area + i * OWN_SCORES];
                }
                row_values[row] = with_sink(row_head, reference, all);
            }
            workgroupBarrier();
            for (var c = 0u; c < OWN_MATRICES; c++) {
                if stores {
                    coopStoreT(sums[c], &scores[area], score_stride);
                }
                workgroupBarrier();
                // The vec4s of a row one after the other, so that lanes store them side by side.
                let end_patch = min(first_patch + patches_at_once, PATCHES);
                for (var i = first_patch * ROW_SUBGROUPS * EDGE * 4u + lid; i < end_patch * ROW_SUBGROUPS * EDGE * 4u; i += WG) {
                    let own_area = i / (EDGE * 4u);
                    let out_row = own_area / ROW_SUBGROUPS * EDGE + i / 4u % EDGE;
                    let out_token = (first_row + out_row) / group;
                    let vec4_index = (c * ROW_SUBGROUPS + own_area % ROW_SUBGROUPS) * 4u + i % 4u;
                    if first_row + out_row <= last_row && out_token >= first_token && out_token < token && vec4_index < value_vec4s {
                        let at = own_area * AREA + i / 4u % EDGE * SCORE_STRIDE + i % 4u * 4u;
                        let sum = vec4(scores[at], scores[at + 1u], scores[at + 2u], scores[at + 3u]);
                        store_out(query_head(first_row + out_row, kv_head, group) * p.value_dim, vec4_index, sum, row_values[out_row]);
                    }
                }
                workgroupBarrier();
            }
        }
    }
}
