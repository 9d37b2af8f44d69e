// Attention of few tokens on NVIDIA's tensor cores, as accurate as in f32: chunks of what a token sees as in
// attention_split.wgsl, whose scores and weighted sums are products of matrices of halves as in attention_mma.wgsl, which
// says how accurate they are.
//
// A workgroup computes one chunk for up to eight query heads of one KV head, and a subgroup every fourth run of 32 positions;
// subgroups do not wait for each other. A matrix of 16 rows has the first halves of eight heads, then their second halves. With
// `g = lane / 4` and `t = lane % 4` a lane has the scores of head `g` for positions `2 * t` and `2 * t + 1` of eight, which are
// weights in the registers in which matrix units take them. It loads 16 bytes of keys and of values at a time from the cache.
import package::attention_chunks::{chunk_count, chunk_range, part_offset, share_of, CHUNK_STEP};
import package::attention_halves::{next_reference, LN_2, LOG2_E, SECOND_UNIT};
import package::attention_io::{cache_pages, index, load_query, visible_kv_row, visible_range};
import package::attention_params::{p, capped, store_out, with_sink, LOWEST, MASKED};
import package::attention_parts::store_part;
import package::cache::{head_offset, key_pair, value_pair};
import package::half_precision::{half_scale, half_unscale, max_magnitude, two_halves};
import package::mma::{cuda_byte_perm, cuda_mma_m16n8k16};
import package::quad::{quad_max, quad_sum};
import constants::DIMS;

const HEADS: u32 = 8u;
const WG: u32 = 128u;
const SUBGROUPS: u32 = WG / 32u;
const_assert CHUNK_STEP == WG;
const TILE = vec2<u32>(CHUNK_STEP, 1u);
const MIN_SUBGROUP = 32u;
// Slices of 64 elements of a head, and those of which a lane has the sums in registers: with all of them there, fewer workgroups
// would run at once.
const SLICES: u32 = DIMS / 64u;
const NEAR_SLICES: u32 = 2u;
// Invocations that load a query head, and the vec4s that each of them loads.
const QUERY_LANES: u32 = WG / HEADS;
const OWN_VEC4S: u32 = DIMS / 4u / QUERY_LANES;

// Two elements of a query in a word, and their second halves, then the next two: [16 elements, head, t]. In the end sums of values,
// as bits: [half of the subgroups, head, DIMS / 4].
var<workgroup> memory: array<vec4<u32>, 2u * HEADS * DIMS / 4u>;
// The sums of the other slices: [slice, element % 8, invocation].
var<workgroup> far_sums: array<vec2<f32>, (SLICES - NEAR_SLICES) * 8u * WG>;
// [head]: the factors that make sums of products scores times log2(e) or, if they are to be capped, scores.
var<workgroup> units: array<f32, HEADS>;
// [subgroup, head]: the largest scores, times log2(e), and the sums of weights where those have the weight 1.
var<workgroup> maxima: array<f32, SUBGROUPS * HEADS>;
var<workgroup> totals: array<f32, SUBGROUPS * HEADS>;

// The place of half a chunk of a query: of chunk `t` in each 32 elements, the first half belongs to the first matrix of 16
// elements, the other half to the second.
fn query_at(matrix: u32, head: u32, t: u32) -> u32 {
    return (matrix * HEADS + head) * 4u + t;
}

fn sum_at(half: u32, head: u32, own_vec4: u32) -> u32 {
    return (half * HEADS + head) * (DIMS / 4u) + own_vec4;
}

fn far_at(s: u32, i: u32, lid: u32) -> u32 {
    return ((s - NEAR_SLICES) * 8u + i) * WG + lid;
}

// Loads the queries of `heads` heads from `first_head` on; others repeat the last one, and nothing reads their results.
fn load_queries(lid: u32, token_number: u32, first_head: u32, heads: u32) {
    let h = lid / QUERY_LANES;
    let base = (token_number * p.heads + first_head + min(h, heads - 1u)) * p.head_dim;
    var query: array<vec4<f32>, OWN_VEC4S>;
    var magnitude = 0.0;
    for (var i = 0u; i < OWN_VEC4S; i++) {
        query[i] = load_query(base, i * QUERY_LANES + lid % QUERY_LANES);
        magnitude = max_magnitude(query[i], magnitude);
    }
    for (var other = 1u; other < QUERY_LANES; other *= 2u) {
        magnitude = max(magnitude, subgroupShuffleXor(magnitude, other));
    }
    let scale = half_scale(magnitude);
    for (var i = 0u; i < OWN_VEC4S; i++) {
        let own = i * QUERY_LANES + lid % QUERY_LANES;
        let halves = vec4(two_halves(scale * query[i].xy, SECOND_UNIT), two_halves(scale * query[i].zw, SECOND_UNIT));
        memory[query_at(own / 8u * 2u + own % 2u, h, own / 2u % 4u)] = halves;
    }
    if lid % QUERY_LANES == 0u {
        units[h] = select(1.0, LOG2_E, p.softcap == 0.0) * half_unscale(magnitude);
    }
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
    // The last chunk of a head, of eight elements. Lanes beyond it load it again: queries are 0 there, and nothing reads sums.
    let last_chunk = (vec4s - 1u) / 2u;
    workgroupBarrier();
    let unit = units[g];
    // The largest score, times log2(e), and the one that has the weight 1.
    var row_max = LOWEST;
    var reference = LOWEST;
    // Of this lane's positions.
    var total = 0.0;
    // For each slice and `i < 8`, elements `16 * t + i` and `16 * t + 8 + i`.
    var acc: array<array<vec2<f32>, 8>, NEAR_SLICES>;
    for (var s = 0u; s < SLICES; s++) {
        for (var i = 0u; i < 8u; i++) {
            if s < NEAR_SLICES {
                acc[s][i] = vec2(0.0);
            } else if 64u * s < p.value_dim {
                far_sums[far_at(s, i, lid)] = vec2(0.0);
            }
        }
    }
    for (var first = range.x + 32u * subgroup; first < range.y; first += CHUNK_STEP) {
        // Positions beyond the last one repeat it, with weight 0.
        let row = visible_kv_row(token.x, min(first + lane, range.y - 1u), share.kv_head, pages);
        let offset = head_offset(row, vec4s);
        var key_offsets: array<u32, 4>;
        for (var j = 0u; j < 4u; j++) {
            key_offsets[j] = subgroupShuffle(offset, 8u * j + g);
        }
        // Of eight positions each; then weights.
        var sums = array(vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
        for (var s = 0u; s < SLICES; s++) {
            if 64u * s < p.head_dim {
                for (var c = 2u * s; c < 2u * s + 2u; c++) {
                    let own_chunk = min(4u * c + t, last_chunk);
                    // A head may end in half a chunk; what the cache has in the other half is left out.
                    let is_half = 2u * own_chunk + 1u == vec4s;
                    for (var j = 0u; j < 4u; j++) {
                        let key = key_pair(key_offsets[j], own_chunk);
                        sums[j] = cuda_mma_m16n8k16(memory[query_at(2u * c, g, t)], key.xy, sums[j]);
                        let last = select(key.zw, vec2(0u), is_half);
                        sums[j] = cuda_mma_m16n8k16(memory[query_at(2u * c + 1u, g, t)], last, sums[j]);
                    }
                }
            }
        }
        var scores: array<vec2<f32>, 4>;
        for (var j = 0u; j < 4u; j++) {
            scores[j] = unit * fma(sums[j].zw, vec2(1.0 / SECOND_UNIT), sums[j].xy);
        }
        // A loop that is not unrolled, so that compilers keep this rare case short.
        let capped_matrices = select(0u, min(32u, range.y - first + 7u) / 8u, p.softcap != 0.0);
        for (var i = 0u; i < capped_matrices; i++) {
            var s = scores[0];
            for (var j = 1u; j < 4u; j++) {
                s = select(s, scores[j], i == j);
            }
            s = LOG2_E * vec2(capped(s.x), capped(s.y));
            for (var j = 0u; j < 4u; j++) {
                scores[j] = select(scores[j], s, i == j);
            }
        }
        if first + 32u > range.y {
            for (var j = 0u; j < 4u; j++) {
                scores[j] = select(vec2(MASKED), scores[j], first + 8u * j + 2u * t + vec2(0u, 1u) < vec2(range.y));
            }
        }
        let largest = max(max(scores[0], scores[1]), max(scores[2], scores[3]));
        row_max = max(row_max, quad_max(max(largest.x, largest.y)));
        let before = reference;
        reference = next_reference(before, row_max);
        let rescale = exp2(before - reference);
        total *= rescale;
        // Of 16 positions each.
        var weights: array<vec4<u32>, 2>;
        for (var j = 0u; j < 2u; j++) {
            let w = array(exp2(scores[2u * j] - reference), exp2(scores[2u * j + 1u] - reference));
            total += (w[0].x + w[0].y) + (w[1].x + w[1].y);
            weights[j] = vec4(two_halves(w[0], 1.0), two_halves(w[1], 1.0));
        }
        var value_offsets: array<vec4<u32>, 2>;
        for (var j = 0u; j < 2u; j++) {
            let own = 16u * j + 2u * t;
            value_offsets[j] = vec4(
                subgroupShuffle(offset, own), subgroupShuffle(offset, own + 1u),
                subgroupShuffle(offset, own + 8u), subgroupShuffle(offset, own + 9u),
            );
        }
        for (var s = 0u; s < SLICES; s++) {
            if 64u * s < p.value_dim {
                let own_chunk = min(8u * s + g, last_chunk);
                var values: array<array<vec4<u32>, 4>, 2>;
                for (var j = 0u; j < 2u; j++) {
                    for (var i = 0u; i < 4u; i++) {
                        values[j][i] = value_pair(value_offsets[j][i], own_chunk);
                    }
                }
                for (var i = 0u; i < 8u; i++) {
                    let of_element = select(0x5410u, 0x7632u, i % 2u == 1u);
                    var step = vec4(0.0);
                    for (var j = 0u; j < 2u; j++) {
                        let v = values[j];
                        let two = vec2(
                            cuda_byte_perm(v[0][i / 2u], v[1][i / 2u], of_element),
                            cuda_byte_perm(v[2][i / 2u], v[3][i / 2u], of_element),
                        );
                        step = cuda_mma_m16n8k16(weights[j], two, step);
                    }
                    if s < NEAR_SLICES {
                        acc[s][i] = fma(acc[s][i], vec2(rescale), step.xy + step.zw);
                    } else {
                        let at = far_at(s, i, lid);
                        far_sums[at] = fma(far_sums[at], vec2(rescale), step.xy + step.zw);
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
                if 64u * s < p.value_dim {
                    var own: array<vec2<f32>, 8>;
                    for (var i = 0u; i < 8u; i++) {
                        if s < NEAR_SLICES {
                            own[i] = acc[s][i];
                        } else {
                            own[i] = far_sums[far_at(s, i, lid)];
                        }
                    }
                    for (var i = 0u; i < 4u; i++) {
                        let e = i % 2u * 4u;
                        let column = i / 2u;
                        let at = sum_at(subgroup % 2u, g, 16u * s + 4u * t + i);
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
