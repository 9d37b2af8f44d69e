// Attention of many tokens on the matrix units of GPUs: tiles as in attention_tiled.wgsl, whose scores and weighted sums
// are products of cooperative matrices of halves, summed in single precision (FlashAttention-2, Dao 2023). Natively only:
// browsers have no cooperative matrices.
//
// A subgroup computes a patch of 16 rows: it keeps their queries and their sums as matrices, and scores and weights
// pass through workgroup memory, where every invocation has a row's scores at a part of the tile's positions. With fewer
// subgroups than patches all steps are repeated for the other patches.
//
// Keys and values are rounded as a cache in half precision would hold them. A row of queries is scaled by a power of two,
// and weights are relative to a reference that is below the row's largest score. Only when a score exceeds it by more than
// halves can hold is there a new one, and the sums are rescaled: they are matrices whose rows the kernel cannot tell apart
// in registers (the rare rescaling is FlashAttention-4's).
import package::attention_io::{cache_pages, index, load_query, run_of_tokens, visible_kv_row, visible_range};
import package::attention_params::{p, capped, store_out, with_sink, LOWEST, MASKED};
import package::cache::{head_offset, key_vec4, value_vec4, HOLDS_HALVES};
import package::half_precision::{half_scale, half_unscale, max_magnitude};
import package::query::MAX_VEC4S;
import package::subgroup_number::{subgroup_count, subgroup_number};
import constants::{WG, DIMS};

const ROWS: u32 = 64u;
const POSITIONS: u32 = 32u;
const TILE = vec2<u32>(1u, ROWS);
const MIN_SUBGROUP = 1u;

// The rows and columns of a cooperative matrix.
const EDGE: u32 = 16u;
alias LeftMatrix = coop_mat16x16<f16, A>;
alias RightMatrix = coop_mat16x16<f16, B>;
alias SumMatrix = coop_mat16x16<f32, C>;

const PATCHES: u32 = ROWS / EDGE;
// Invocations that share a row, and the scores of each.
const PARTS: u32 = WG / ROWS;
const OWN_SCORES: u32 = POSITIONS / PARTS;
// vec4s of the largest value. Heads may be larger: only slices of them are in memory.
const VEC4S: u32 = DIMS / 4u;
const LARGEST_HALF: f32 = 65504.0;

// From one position, or one row, in workgroup memory to the next, so that they begin in other banks.
const STRIDE: u32 = DIMS + 8u;
const SCORE_STRIDE: u32 = ROWS + 4u;
const WEIGHT_STRIDE: u32 = ROWS + 8u;

// A new reference gives the largest score the weight exp(5), and holds until a score has a weight above exp(11), which is
// less than the largest half: so 2^-21 is the smallest part of the largest weight that has all bits of a half.
const FIRST_EXPONENT: f32 = 5.0;
const LAST_EXPONENT: f32 = 11.0;

var<workgroup> kv: array<f16, POSITIONS * STRIDE>; // [position, element] of keys or values, or [row, element] of queries
var<workgroup> scores: array<f32, POSITIONS * SCORE_STRIDE>; // [position, row], or [element, row] of sums
var<workgroup> weights: array<f16, POSITIONS * WEIGHT_STRIDE>; // [position, row]
var<workgroup> part_values: array<f32, WG>; // [part, row]: the largest scores, or the total weights
var<workgroup> row_values: array<f32, ROWS>; // the factors of a rescaling, or the total weights
var<workgroup> rescales: u32; // 1 if a row's sums are to be rescaled
var<workgroup> largest: array<atomic<u32>, ROWS>; // the largest magnitude of a query, as bits
var<workgroup> bases: array<u32, ROWS>; // offsets of the queries in `q`
var<workgroup> head_offsets: array<u32, POSITIONS>; // offsets of the keys and values in the cache

fn store_halves(at: u32, v: vec4<f16>) {
    kv[at] = v.x;
    kv[at + 1u] = v.y;
    kv[at + 2u] = v.z;
    kv[at + 3u] = v.w;
}

fn cached_halves(v: vec4<f32>) -> vec4<f16> {
    if HOLDS_HALVES {
        return vec4<f16>(v);
    }
    return vec4<f16>(clamp(v, vec4(-LARGEST_HALF), vec4(LARGEST_HALF)));
}

// Loads a slice of the queries of POSITIONS rows, from vec4 `slice` on. Beyond the head's end they are 0.
fn load_queries(lid: u32, first_row: u32, slice: u32) {
    let i = lid % VEC4S;
    for (var r = lid / VEC4S; r < POSITIONS; r += WG / VEC4S) {
        let row = first_row + r;
        let scale = half_scale(bitcast<f32>(atomicLoad(&largest[row])));
        store_halves(r * STRIDE + 4u * i, vec4<f16>(scale * load_query(bases[row], slice + i)));
    }
}

// Loads a slice of the keys, from vec4 `slice` on. Beyond the head's end they repeat the last vec4.
fn load_keys(lid: u32, slice: u32, vec4s: u32) {
    let i = lid % VEC4S;
    for (var k = 0u; k < POSITIONS * VEC4S / WG; k++) {
        let position = lid / VEC4S + k * (WG / VEC4S);
        let key = key_vec4(head_offsets[position], vec4s, min(slice + i, vec4s - 1u));
        store_halves(position * STRIDE + 4u * i, cached_halves(key));
    }
}

// Loads the values. Beyond the value's end they repeat the last vec4, whose sums nothing reads.
fn load_values(lid: u32, vec4s: u32, value_vec4s: u32) {
    let i = lid % VEC4S;
    for (var k = 0u; k < POSITIONS * VEC4S / WG; k++) {
        let position = lid / VEC4S + k * (WG / VEC4S);
        let value = value_vec4(head_offsets[position], vec4s, min(i, value_vec4s - 1u));
        store_halves(position * STRIDE + 4u * i, cached_halves(value));
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
    let vec4s = clamp((p.head_dim + 3u) / 4u, 1u, MAX_VEC4S);
    let value_vec4s = clamp((p.value_dim + 3u) / 4u, 1u, VEC4S);
    let pages = cache_pages(vec4s);
    let last_row = min(first_row + ROWS, p.tokens * group) - 1u;
    let end_token = last_row / group + 1u;
    if lid < ROWS {
        // Rows beyond the last one repeat it; nothing reads their results.
        let row = min(first_row + lid, last_row);
        bases[lid] = (row / group * p.heads + kv_head * group + row % group) * p.head_dim;
        atomicStore(&largest[lid], 0u);
    }
    // Has a barrier.
    let subgroup = subgroup_number(lid, lane);
    // This invocation's row, and its part of the positions.
    let row = lid % ROWS;
    let part = lid / ROWS;
    let row_token = (first_row + row) / group;
    let row_head = kv_head * group + (first_row + row) % group;
    var magnitude = 0.0;
    for (var i = part; i < vec4s; i += PARTS) {
        magnitude = max_magnitude(load_query(bases[row], i), magnitude);
    }
    atomicMax(&largest[row], bitcast<u32>(magnitude));
    workgroupBarrier();
    let patches_at_once = subgroup_count(lid);
    let unscale = half_unscale(bitcast<f32>(atomicLoad(&largest[row])));
    for (var first_patch = 0u; first_patch < PATCHES; first_patch += patches_at_once) {
        // Subgroups beyond the last patch compute it again, because all must take part, but do not store it.
        let patch_row = EDGE * min(first_patch + subgroup, PATCHES - 1u);
        let stores = first_patch + subgroup < PATCHES;
        let is_computed = row / EDGE - first_patch < patches_at_once;
        var token = first_row / group;
        while token < end_token {
            let first_token = token;
            let run = run_of_tokens(token, end_token, pages);
            token = run.end;
            let is_of_run = is_computed && first_row + row <= last_row && row_token >= first_token && row_token < token;
            var start = 0u;
            var count = 0u;
            if is_of_run {
                let range = visible_range(index[row_token], pages);
                start = range.x;
                count = range.y - range.x;
            }
            var reference = LOWEST;
            // Of this invocation's positions.
            var total = 0.0;
            var queries: array<LeftMatrix, DIMS / EDGE>;
            var sums: array<SumMatrix, DIMS / EDGE>;
            for (var c = 0u; c < DIMS / EDGE; c++) {
                sums[c] = SumMatrix();
            }
            find_heads(lid, run.sequence, run.visible.x, run.visible.y, kv_head, pages, vec4s);
            for (var first = run.visible.x; first < run.visible.y; first += POSITIONS) {
                var tile: array<SumMatrix, POSITIONS / EDGE>;
                for (var c = 0u; c < POSITIONS / EDGE; c++) {
                    tile[c] = SumMatrix();
                }
                for (var slice = 0u; slice < vec4s; slice += VEC4S) {
                    // Queries of one slice stay in registers. Their barriers also precede the use of the first heads.
                    // Loops of one turn or none are conditions, in which naga would not see that all take part.
                    let stages = select(0u, ROWS / POSITIONS, first == run.visible.x || vec4s > VEC4S);
                    for (var stage = 0u; stage < stages; stage++) {
                        workgroupBarrier();
                        load_queries(lid, stage * POSITIONS, slice);
                        workgroupBarrier();
                        for (var turn = u32(patch_row / POSITIONS != stage); turn < 1u; turn++) {
                            for (var d = 0u; d < DIMS / EDGE; d++) {
                                let at = patch_row % POSITIONS * STRIDE + EDGE * d;
                                queries[d] = coopLoadT<LeftMatrix>(&kv[at], STRIDE);
                            }
                        }
                    }
                    // Queries or keys before these have been read.
                    if stages > 0u {
                        workgroupBarrier();
                    }
                    load_keys(lid, slice, vec4s);
                    workgroupBarrier();
                    for (var c = 0u; c < POSITIONS / EDGE; c++) {
                        for (var d = 0u; d < DIMS / EDGE; d++) {
                            let keys = coopLoad<RightMatrix>(&kv[EDGE * c * STRIDE + EDGE * d], STRIDE);
                            tile[c] = coopMultiplyAdd(queries[d], keys, tile[c]);
                        }
                    }
                }
                // naga's SPIR-V needs names for the index and the stride.
                let score_stride = SCORE_STRIDE;
                if stores {
                    for (var c = 0u; c < POSITIONS / EDGE; c++) {
                        let at = EDGE * c * SCORE_STRIDE + patch_row;
                        coopStore(tile[c], &scores[at], score_stride);
                    }
                }
                workgroupBarrier();
                load_values(lid, vec4s, value_vec4s);
                var own: array<f32, OWN_SCORES>;
                var part_max = LOWEST;
                if is_computed {
                    for (var i = 0u; i < OWN_SCORES; i++) {
                        own[i] = unscale * scores[(part * OWN_SCORES + i) * SCORE_STRIDE + row];
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
                }
                part_values[lid] = part_max;
                if lid == 0u {
                    rescales = 0u;
                }
                workgroupBarrier();
                if is_computed {
                    var row_max = LOWEST;
                    for (var i = 0u; i < PARTS; i++) {
                        row_max = max(row_max, part_values[i * ROWS + row]);
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
                        weights[(part * OWN_SCORES + i) * WEIGHT_STRIDE + row] = weight;
                        total += f32(weight);
                    }
                }
                // Has barriers.
                if workgroupUniformLoad(&rescales) != 0u {
                    for (var c = 0u; c < DIMS / EDGE; c++) {
                        // In turn in two halves of the memory, so that the next one does not wait for this one.
                        let half = c % 2u * EDGE;
                        let at = half * SCORE_STRIDE + patch_row;
                        if stores {
                            coopStore(sums[c], &scores[at], score_stride);
                        }
                        workgroupBarrier();
                        if is_computed {
                            for (var i = 0u; i < EDGE / PARTS; i++) {
                                scores[(half + EDGE / PARTS * part + i) * SCORE_STRIDE + row] *= row_values[row];
                            }
                        }
                        workgroupBarrier();
                        sums[c] = coopLoad<SumMatrix>(&scores[at], score_stride);
                    }
                }
                for (var k = 0u; k < POSITIONS / EDGE; k++) {
                    let left = coopLoad<LeftMatrix>(&weights[EDGE * k * WEIGHT_STRIDE + patch_row], WEIGHT_STRIDE);
                    for (var c = 0u; c < DIMS / EDGE; c++) {
                        let values = coopLoadT<RightMatrix>(&kv[EDGE * k * STRIDE + EDGE * c], STRIDE);
                        sums[c] = coopMultiplyAdd(left, values, sums[c]);
                    }
                }
                let next = first + POSITIONS;
                find_heads(lid, run.sequence, next, run.visible.y, kv_head, pages, vec4s);
                workgroupBarrier();
            }
            part_values[lid] = total;
            workgroupBarrier();
            if part == 0u {
                var all = 0.0;
                for (var i = 0u; i < PARTS; i++) {
                    all += part_values[i * ROWS + row];
                }
                row_values[row] = with_sink(row_head, reference, all);
            }
            // The results of 32 elements at a time.
            for (var c = 0u; c < DIMS / EDGE; c += 2u) {
                let stride = SCORE_STRIDE;
                if stores {
                    for (var half = 0u; half < 2u; half++) {
                        let at = half * EDGE * SCORE_STRIDE + patch_row;
                        coopStore(sums[c + half], &scores[at], stride);
                    }
                }
                workgroupBarrier();
                for (var i = part; i < EDGE / 2u; i += PARTS) {
                    let vec4_index = EDGE / 4u * c + i;
                    if is_of_run && vec4_index < value_vec4s {
                        let at = 4u * i * SCORE_STRIDE + row;
                        let sum = vec4(scores[at], scores[at + SCORE_STRIDE], scores[at + 2u * SCORE_STRIDE], scores[at + 3u * SCORE_STRIDE]);
                        store_out((row_token * p.heads + row_head) * p.value_dim, vec4_index, sum, row_values[row]);
                    }
                }
                workgroupBarrier();
            }
        }
    }
}
