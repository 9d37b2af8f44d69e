// Shared by the kernels of attention of few tokens on NVIDIA's tensor cores: queries, and scores, which are as accurate as in
// f32 (attention_mma.wgsl says how).
//
// A subgroup scores 32 positions for up to eight query heads of one KV head. A matrix of 16 rows has the first halves of eight
// heads, then their second halves. With `g = lane / 4` and `t = lane % 4` a lane has the scores of head `g` for positions `2 * t`
// and `2 * t + 1` of eight, which are weights in the registers in which matrix units take them. It loads 16 bytes of keys at a
// time from the cache. With a cache in q8_0 elements are two halves each, too.
import package::attention_chunks::CHUNK_STEP;
import package::attention_halves::{LOG2_E, SECOND_UNIT};
import package::attention_io::load_query;
import package::attention_params::{p, capped, MASKED};
import package::cache::{halves_of, key_load, key_scales, value_load, value_scales, without_rest, Halves, Load, LOAD_VEC4S, PARTS};
import package::half_precision::{half_scale, half_unscale, max_magnitude, two_halves};
import package::mma::{cuda_byte_perm, cuda_mma_m16n8k16};
import constants::DIMS;

const HEADS: u32 = 8u;
const WG: u32 = 128u;
const SUBGROUPS: u32 = WG / 32u;
const_assert CHUNK_STEP == WG;
// Slices of 64 elements of a key, and the loads of a lane in each; eight lanes load a slice of a value.
const KEY_SLICES: u32 = DIMS / 64u;
const SLICE_LOADS: u32 = 4u / LOAD_VEC4S;
const VALUE_SLICE: u32 = 32u * LOAD_VEC4S;
// Elements of a load.
const LOADED: u32 = 4u * LOAD_VEC4S;
// Invocations that load a query head, and the vec4s that each of them loads.
const QUERY_LANES: u32 = WG / HEADS;
const OWN_VEC4S: u32 = DIMS / 4u / QUERY_LANES;

// Two elements of a query in a word, and their second halves, then the next two: [16 elements, head, t].
@if(wide) var<workgroup> memory: array<vec4<u32>, HEADS * DIMS / 4u>;
// In the end sums of values, as bits: [half of the subgroups, head, DIMS / 4].
@if(!wide) var<workgroup> memory: array<vec4<u32>, 2u * HEADS * DIMS / 4u>;
// [head]: the factors that make sums of products scores times log2(e) or, if they are to be capped, scores.
var<workgroup> units: array<f32, HEADS>;

// Two scores of each of four runs of eight positions.
alias Scores = array<vec2<f32>, 4>;

// The place of a vec4 of a query: four lanes load LOAD_VEC4S vec4s each, of which the first ones belong to one matrix of 16 elements,
// the second ones to the next.
fn query_at(matrix: u32, head: u32, t: u32) -> u32 {
    return (matrix * HEADS + head) * 4u + t;
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
        memory[query_at(own / (4u * LOAD_VEC4S) * LOAD_VEC4S + own % LOAD_VEC4S, h, own / LOAD_VEC4S % 4u)] = halves;
    }
    if lid % QUERY_LANES == 0u {
        units[h] = select(1.0, LOG2_E, p.softcap == 0.0) * half_unscale(magnitude);
    }
}

// The scale of load `i` in both halves of a word, from the words of the eight scales around it.
fn load_scale(scales: vec4<u32>, i: u32) -> u32 {
    let pair = i * LOADED / 64u % 4u;
    let word = select(select(scales.x, scales.y, pair == 1u), select(scales.z, scales.w, pair == 3u), pair >= 2u);
    return cuda_byte_perm(word, 0u, select(0x1010u, 0x3232u, i * LOADED / 32u % 2u == 1u));
}

// The scores of 32 positions from `first` on, of which those from `end` on are masked, times log2(e). A lane has the offset of one
// position's key.
fn score_positions(offset: u32, first: u32, end: u32, vec4s: u32, g: u32, t: u32) -> Scores {
    let unit = units[g];
    // The last load of a head. Lanes beyond it load it again: queries are 0 there.
    let last_load = (vec4s - 1u) / LOAD_VEC4S;
    var key_offsets: array<u32, 4>;
    for (var j = 0u; j < 4u; j++) {
        key_offsets[j] = subgroupShuffle(offset, 8u * j + g);
    }
    // Of eight positions each.
    var sums = array(vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
    var scales: array<vec4<u32>, 4>;
    for (var s = 0u; s < KEY_SLICES; s++) {
        if 64u * s < p.head_dim {
            for (var j = 0u; j < 4u && s % 4u == 0u; j++) {
                scales[j] = key_scales(key_offsets[j], vec4s, s / 4u);
            }
            for (var c = s * SLICE_LOADS; c < (s + 1u) * SLICE_LOADS; c++) {
                let own = min(4u * c + t, last_load);
                for (var j = 0u; j < 4u; j++) {
                    let load = without_rest(key_load(key_offsets[j], own), own, vec4s);
                    let key = halves_of(load, load_scale(scales[j], 4u * c + t));
                    for (var i = 0u; i < LOAD_VEC4S; i++) {
                        for (var part = 0u; part < PARTS; part++) {
                            sums[j] = cuda_mma_m16n8k16(memory[query_at(LOAD_VEC4S * c + i, g, t)], key[part][i], sums[j]);
                        }
                    }
                }
            }
        }
    }
    var scores: Scores;
    for (var j = 0u; j < 4u; j++) {
        scores[j] = unit * fma(sums[j].zw, vec2(1.0 / SECOND_UNIT), sums[j].xy);
    }
    // A loop that is not unrolled, so that compilers keep this rare case short.
    let capped_matrices = select(0u, min(32u, end - first + 7u) / 8u, p.softcap != 0.0);
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
    if first + 32u > end {
        for (var j = 0u; j < 4u; j++) {
            scores[j] = select(vec2(MASKED), scores[j], first + 8u * j + 2u * t + vec2(0u, 1u) < vec2(end));
        }
    }
    return scores;
}

// The weights of 32 positions, 16 in each vector, in two halves each, where a score of `reference` has the weight 1. Adds them to
// the lane's total.
fn weights_of(scores: Scores, reference: f32, total: ptr<function, f32>) -> array<vec4<u32>, 2> {
    var weights: array<vec4<u32>, 2>;
    for (var j = 0u; j < 2u; j++) {
        let w = array(exp2(scores[2u * j] - reference), exp2(scores[2u * j + 1u] - reference));
        *total += (w[0].x + w[0].y) + (w[1].x + w[1].y);
        weights[j] = vec4(two_halves(w[0], 1.0), two_halves(w[1], 1.0));
    }
    return weights;
}

// The weighted sums of slice `s` of the values of 32 positions, whose offsets are those of a lane's weights: of elements `i` of the
// loads of two lanes, and in all of as many elements as two loads have. `last_load` is a head's last load, which lanes beyond it
// load again.
fn sum_values(
    weights: array<vec4<u32>, 2>, offsets: array<vec4<u32>, 2>, vec4s: u32, s: u32, g: u32, last_load: u32,
) -> array<vec2<f32>, LOADED> {
    var values: array<array<Halves, 4>, 2>;
    for (var j = 0u; j < 2u; j++) {
        for (var i = 0u; i < 4u; i++) {
            let load = value_load(offsets[j][i], min(8u * s + g, last_load));
            let scales = value_scales(offsets[j][i], vec4s, s * VALUE_SLICE / 256u);
            values[j][i] = halves_of(load, load_scale(scales, 8u * s + g));
        }
    }
    var sums: array<vec2<f32>, LOADED>;
    for (var i = 0u; i < LOADED; i++) {
        let of_element = select(0x5410u, 0x7632u, i % 2u == 1u);
        var step = vec4(0.0);
        for (var j = 0u; j < 2u; j++) {
            // Second parts are small.
            for (var part = PARTS; part > 0u; part--) {
                let v = values[j];
                let two = vec2(
                    cuda_byte_perm(v[0][part - 1u][i / 4u][i / 2u % 2u], v[1][part - 1u][i / 4u][i / 2u % 2u], of_element),
                    cuda_byte_perm(v[2][part - 1u][i / 4u][i / 2u % 2u], v[3][part - 1u][i / 4u][i / 2u % 2u], of_element),
                );
                step = cuda_mma_m16n8k16(weights[j], two, step);
            }
        }
        sums[i] = step.xy + step.zw;
    }
    return sums;
}
