// Attention of few tokens, with heads of up to 256 elements, on NVIDIA's tensor cores, as accurate as in f32: chunks of what a
// token sees as in attention_split.wgsl, whose scores and weighted sums are products of matrices of halves as in attention_mma.wgsl, which
// says how accurate they are.
//
// A workgroup computes one chunk for up to eight query heads of one KV head, and a subgroup every fourth run of 32 positions
// (attention_split_scores.wgsl); subgroups do not wait for each other.
import package::attention_chunks::{chunk_count, chunk_range, part_offset, share_of, CHUNK_STEP};
import package::attention_halves::{next_reference, LN_2};
import package::attention_io::{cache_pages, index, visible_kv_row, visible_range};
import package::attention_params::{p, store_out, with_sink, LOWEST};
import package::attention_parts::store_part;
import package::attention_split_scores::{
    load_queries, memory, score_positions, sum_values, weights_of, HEADS, LOADED, SUBGROUPS, VALUE_SLICE, WG,
};
import package::cache::{head_offset, LOAD_VEC4S};
import package::quad::{quad_max, quad_sum};
import constants::DIMS;

const TILE = vec2<u32>(CHUNK_STEP, 1u);
const MIN_SUBGROUP = 32u;
// Slices of a value, and those of which a lane has the sums in registers: with all of them there, fewer workgroups would run at
// once.
const SLICES: u32 = DIMS / VALUE_SLICE;
const NEAR_SLICES: u32 = 128u / VALUE_SLICE;

// The sums of the other slices: [slice, element of a load, invocation].
var<workgroup> far_sums: array<vec2<f32>, (SLICES - NEAR_SLICES) * LOADED * WG>;
// [subgroup, head]: the largest scores, times log2(e), and the sums of weights where those have the weight 1.
var<workgroup> maxima: array<f32, SUBGROUPS * HEADS>;
var<workgroup> totals: array<f32, SUBGROUPS * HEADS>;

fn sum_at(half: u32, head: u32, own_vec4: u32) -> u32 {
    return (half * HEADS + head) * (DIMS / 4u) + own_vec4;
}

fn far_at(s: u32, i: u32, lid: u32) -> u32 {
    return ((s - NEAR_SLICES) * LOADED + i) * WG + lid;
}

// The largest of `maxima` for a head.
fn largest_of(head: u32) -> f32 {
    var largest = LOWEST;
    for (var i = 0u; i < SUBGROUPS; i++) {
        largest = max(largest, maxima[i * HEADS + head]);
    }
    return largest;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let share = share_of(wid.x + wid.z * groups.x, HEADS);
    let chunks = chunk_count();
    let token_number = wid.y;
    if share.chunk >= chunks || token_number >= p.tokens {
        return;
    }
    let vec4s = clamp((p.head_dim + 3u) / 4u, 1u, DIMS / 4u);
    let value_vec4s = clamp((p.value_dim + 3u) / 4u, 1u, DIMS / 4u);
    let token = index[token_number];
    let pages = cache_pages(vec4s);
    let range = chunk_range(visible_range(token, pages), share.chunk);
    load_queries(lid, token_number, share.first_head, share.heads);
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
    var acc: array<array<vec2<f32>, LOADED>, NEAR_SLICES>;
    for (var s = 0u; s < SLICES; s++) {
        for (var i = 0u; i < LOADED; i++) {
            if s < NEAR_SLICES {
                acc[s][i] = vec2(0.0);
            } else if VALUE_SLICE * s < p.value_dim {
                far_sums[far_at(s, i, lid)] = vec2(0.0);
            }
        }
    }
    for (var first = range.x + 32u * subgroup; first < range.y; first += CHUNK_STEP) {
        // Positions beyond the last one repeat it, with weight 0.
        let row = visible_kv_row(token.x, min(first + lane, range.y - 1u), share.kv_head, pages);
        let offset = head_offset(row, vec4s);
        let scores = score_positions(offset, first, range.y, vec4s, g, t);
        let largest = max(max(scores[0], scores[1]), max(scores[2], scores[3]));
        row_max = max(row_max, quad_max(max(largest.x, largest.y)));
        let before = reference;
        reference = next_reference(before, row_max);
        let rescale = exp2(before - reference);
        total *= rescale;
        let weights = weights_of(scores, reference, &total);
        var value_offsets: array<vec4<u32>, 2>;
        for (var j = 0u; j < 2u; j++) {
            let own = 16u * j + 2u * t;
            value_offsets[j] = vec4(
                subgroupShuffle(offset, own), subgroupShuffle(offset, own + 1u),
                subgroupShuffle(offset, own + 8u), subgroupShuffle(offset, own + 9u),
            );
        }
        for (var s = 0u; s < SLICES; s++) {
            if VALUE_SLICE * s < p.value_dim {
                let steps = sum_values(weights, value_offsets, vec4s, s, g, last_load);
                for (var i = 0u; i < LOADED; i++) {
                    if s < NEAR_SLICES {
                        acc[s][i] = fma(acc[s][i], vec2(rescale), steps[i]);
                    } else {
                        let at = far_at(s, i, lid);
                        far_sums[at] = fma(far_sums[at], vec2(rescale), steps[i]);
                    }
                }
            }
        }
    }
    total = quad_sum(total);
    if t == 0u {
        maxima[subgroup * HEADS + g] = row_max;
        totals[subgroup * HEADS + g] = total * exp2(reference - row_max);
    }
    // Queries are read no more; sums take their place.
    workgroupBarrier();
    let factor = exp2(reference - largest_of(g));
    // Two of the subgroups write, and the others add to what is there.
    for (var turn = 0u; turn < 2u; turn++) {
        if subgroup / 2u == turn {
            for (var s = 0u; s < SLICES; s++) {
                if VALUE_SLICE * s < p.value_dim {
                    var own: array<vec2<f32>, LOADED>;
                    for (var i = 0u; i < LOADED; i++) {
                        if s < NEAR_SLICES {
                            own[i] = acc[s][i];
                        } else {
                            own[i] = far_sums[far_at(s, i, lid)];
                        }
                    }
                    for (var i = 0u; i < 2u * LOAD_VEC4S; i++) {
                        let e = i % LOAD_VEC4S * 4u;
                        let column = i / LOAD_VEC4S;
                        let at = sum_at(subgroup % 2u, g, VALUE_SLICE / 4u * s + 2u * LOAD_VEC4S * t + i);
                        var sum = factor * vec4(own[e][column], own[e + 1u][column], own[e + 2u][column], own[e + 3u][column]);
                        if turn == 1u {
                            sum += bitcast<vec4<f32>>(memory[at]);
                        }
                        memory[at] = bitcast<vec4<u32>>(sum);
                    }
                }
            }
        }
        workgroupBarrier();
    }
    for (var i = lid; i < share.heads * value_vec4s; i += WG) {
        let h = i / value_vec4s;
        let own_vec4 = i % value_vec4s;
        let sum = bitcast<vec4<f32>>(memory[sum_at(0u, h, own_vec4)]) + bitcast<vec4<f32>>(memory[sum_at(1u, h, own_vec4)]);
        let largest = largest_of(h);
        var all = 0.0;
        for (var j = h; j < SUBGROUPS * HEADS; j += HEADS) {
            all += totals[j] * exp2(maxima[j] - largest);
        }
        let head = share.first_head + h;
        if chunks == 1u {
            let base = (token_number * p.heads + head) * p.value_dim;
            store_out(base, own_vec4, sum, with_sink(head, LN_2 * largest, all));
        } else {
            store_part(part_offset(token_number, share.chunk, head, value_vec4s), own_vec4, value_vec4s, sum, LN_2 * largest, all);
        }
    }
}
