// Attention of few tokens for heads of more than 256 elements on NVIDIA's tensor cores, as accurate as in f32: chunks of what a
// token sees as in attention_split.wgsl.
//
// A workgroup computes one chunk for up to eight query heads of one KV head, 128 positions at a time: each subgroup scores 32 of
// them (attention_split_scores.wgsl), and sums its share of the values' elements over all of them. The largest scores and the
// weights pass through workgroup memory.
import package::attention_chunks::{chunk_count, chunk_range, part_offset, share_of, CHUNK_STEP, WIDE_SPLIT_HEADS};
import package::attention_halves::{next_reference, LN_2};
import package::attention_io::{cache_pages, index, visible_kv_row, visible_range};
import package::attention_params::{p, store_out, with_sink, LOWEST};
import package::attention_parts::store_part;
import package::attention_split_scores::{
    load_queries, score_positions, sum_values, weights_of, HEADS, LOADED, SUBGROUPS, VALUE_SLICE, WG,
};
import package::cache::{head_offset, LOAD_VEC4S};
import package::quad::{quad_max, quad_sum};
import package::query::{MAX_VALUE_DIM, MAX_VALUE_VEC4S};
import constants::DIMS;

const TILE = vec2<u32>(CHUNK_STEP, 1u);
const MIN_SUBGROUP = 32u;
// Slices of a value that a subgroup sums, of every fourth one.
const OWN_SLICES: u32 = MAX_VALUE_DIM / VALUE_SLICE / SUBGROUPS;

// [subgroup, head]: the largest scores of a subgroup's positions, times log2(e), and the sums of its weights.
var<workgroup> maxima: array<f32, SUBGROUPS * HEADS>;
var<workgroup> totals: array<f32, SUBGROUPS * HEADS>;
// In two halves each: [subgroup, half of its positions, lane].
var<workgroup> weights: array<vec4<u32>, 2u * WG>;
// Offsets of the keys and values in the cache: [position].
var<workgroup> head_offsets: array<u32, WG>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    // Every other workgroup computes the heads of two.
    let share = share_of(wid.x + wid.z * groups.x, WIDE_SPLIT_HEADS);
    let group = p.heads / p.kv_heads;
    let first_of_group = share.first_head - share.kv_head * group;
    let heads = min(HEADS, group - first_of_group);
    let chunks = chunk_count();
    let token_number = wid.y;
    if share.chunk >= chunks || token_number >= p.tokens || first_of_group % HEADS != 0u {
        return;
    }
    let vec4s = clamp((p.head_dim + 3u) / 4u, 1u, DIMS / 4u);
    let value_vec4s = clamp((p.value_dim + 3u) / 4u, 1u, MAX_VALUE_VEC4S);
    let token = index[token_number];
    let pages = cache_pages(vec4s);
    let range = chunk_range(visible_range(token, pages), share.chunk);
    load_queries(lid, token_number, share.first_head, heads);
    let lane = lid % 32u;
    let subgroup = lid / 32u;
    let g = lane / 4u;
    let t = lane % 4u;
    // The last load of a head. Lanes beyond it load it again, and nothing reads their sums.
    let last_load = (vec4s - 1u) / LOAD_VEC4S;
    workgroupBarrier();
    // The largest score, times log2(e), and the one that has the weight 1.
    var row_max = LOWEST;
    var reference = LOWEST;
    // Of this lane's positions.
    var total = 0.0;
    // For each slice, elements `i` of loads `2 * t` and `2 * t + 1`.
    var acc: array<array<vec2<f32>, LOADED>, OWN_SLICES>;
    for (var s = 0u; s < OWN_SLICES; s++) {
        for (var i = 0u; i < LOADED; i++) {
            acc[s][i] = vec2(0.0);
        }
    }
    for (var first = range.x; first < range.y; first += CHUNK_STEP) {
        // Positions beyond the last one repeat it, with weight 0.
        let row = visible_kv_row(token.x, min(first + lid, range.y - 1u), share.kv_head, pages);
        let offset = head_offset(row, vec4s);
        let scores = score_positions(offset, first + 32u * subgroup, range.y, vec4s, g, t);
        let largest = max(max(scores[0], scores[1]), max(scores[2], scores[3]));
        let own_max = quad_max(max(largest.x, largest.y));
        if t == 0u {
            maxima[subgroup * HEADS + g] = own_max;
        }
        // Weights and offsets before these have been read as well.
        workgroupBarrier();
        for (var i = 0u; i < SUBGROUPS; i++) {
            row_max = max(row_max, maxima[i * HEADS + g]);
        }
        let before = reference;
        reference = next_reference(before, row_max);
        let rescale = exp2(before - reference);
        total *= rescale;
        let own_weights = weights_of(scores, reference, &total);
        for (var j = 0u; j < 2u; j++) {
            weights[(2u * subgroup + j) * 32u + lane] = own_weights[j];
        }
        head_offsets[lid] = offset;
        workgroupBarrier();
        for (var s = 0u; s < OWN_SLICES; s++) {
            for (var i = 0u; i < LOADED; i++) {
                acc[s][i] *= rescale;
            }
        }
        for (var run = 0u; run < CHUNK_STEP; run += 32u) {
            if first + run >= range.y {
                break;
            }
            var run_weights: array<vec4<u32>, 2>;
            var offsets: array<vec4<u32>, 2>;
            for (var j = 0u; j < 2u; j++) {
                run_weights[j] = weights[2u * run + j * 32u + lane];
                let own = run + 16u * j + 2u * t;
                offsets[j] = vec4(head_offsets[own], head_offsets[own + 1u], head_offsets[own + 8u], head_offsets[own + 9u]);
            }
            for (var s = 0u; s < OWN_SLICES; s++) {
                let slice = s * SUBGROUPS + subgroup;
                if VALUE_SLICE * slice < p.value_dim {
                    let steps = sum_values(run_weights, offsets, vec4s, slice, g, last_load);
                    for (var i = 0u; i < LOADED; i++) {
                        acc[s][i] += steps[i];
                    }
                }
            }
        }
    }
    total = quad_sum(total);
    if t == 0u {
        totals[subgroup * HEADS + g] = total;
    }
    workgroupBarrier();
    if g >= heads {
        return;
    }
    var all = 0.0;
    for (var i = 0u; i < SUBGROUPS; i++) {
        all += totals[i * HEADS + g];
    }
    // As where the largest score has the weight 1.
    let factor = exp2(reference - row_max);
    all *= factor;
    let head = share.first_head + g;
    for (var s = 0u; s < OWN_SLICES; s++) {
        for (var i = 0u; i < 2u * LOAD_VEC4S; i++) {
            let own_vec4 = VALUE_SLICE / 4u * (s * SUBGROUPS + subgroup) + 2u * LOAD_VEC4S * t + i;
            let e = i % LOAD_VEC4S * 4u;
            let column = i / LOAD_VEC4S;
            let sum = factor * vec4(acc[s][e][column], acc[s][e + 1u][column], acc[s][e + 2u][column], acc[s][e + 3u][column]);
            if own_vec4 >= value_vec4s {
                continue;
            }
            if chunks == 1u {
                let base = (token_number * p.heads + head) * p.value_dim;
                store_out(base, own_vec4, sum, with_sink(head, LN_2 * row_max, all));
            } else {
                let part = part_offset(token_number, share.chunk, head, value_vec4s);
                store_part(part, own_vec4, value_vec4s, sum, LN_2 * row_max, all);
            }
        }
    }
}
