// Products of an encoded weight with signed bytes for many tokens, on GPUs.
//
// The tiles are those of `matmul_tiled.wgsl`, and a step covers one block (32 columns). The numbers stay bytes, four
// in a word: workgroup memory holds a vec4 for each part of a block of weights, the words of x in the same order, and
// the scales and sums of both.
import package::encoding::{load_scales, load_packed, BLOCKS_PER_SCALES, SCALES, PACKED_ZERO, HAS_OFFSETS};
@if(experts) import package::expert_pairs::{leads_group, find_group};
import package::int8_inputs::{load_part_words, load_factors, half_sum, dot_words};
import package::matmul_io::{p, tile_row, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
import package::matmul_tile::{input_row, store_sums, Sums, ROW_STEP, TOKEN_STEP};
@if(lookup) import package::value_table::fill_table;
import constants::{WG, EDGE_ROWS, EDGE_TOKENS, ROWS, TOKENS};

@if(!experts && !gated) const TILE = vec2<u32>(EDGE_ROWS, EDGE_TOKENS);
@if(gated) const TILE = vec2<u32>(EDGE_ROWS / 2u, EDGE_TOKENS);
@if(experts) const TILE = vec2<u32>(EDGE_ROWS, 1u);
const COLS_MULTIPLE = X_WIDTH;
const INPUT_TURNS: u32 = (2u * EDGE_TOKENS + WG - 1u) / WG;

var<workgroup> weights: array<array<vec4<u32>, EDGE_ROWS>, 2>; // [part, row]
var<workgroup> weight_scales: array<array<f32, EDGE_ROWS>, SCALES>; // [half of the columns, row]
var<workgroup> weight_offsets: array<array<f32, EDGE_ROWS>, SCALES>; // [half of the columns, row]
var<workgroup> inputs: array<array<vec4<u32>, EDGE_TOKENS>, 2>; // [part, token]
var<workgroup> input_factors: array<vec2<u32>, EDGE_TOKENS>; // [token], as `quantize` writes them

// A block of x of a token.
struct Inputs {
    x: array<vec4<u32>, 2>,
    scale: f32,
    // What the sums of products of both halves begin with, to take off zero points.
    first: vec2<i32>,
    // The sums of x that belong to the offsets.
    sums: vec2<f32>,
}

fn tile_inputs(token: u32) -> Inputs {
    let factors = input_factors[token];
    var sums = vec2(half_sum(factors, 0u), half_sum(factors, 1u));
    if SCALES == 1u {
        sums = vec2(sums.x + sums.y, 0);
    }
    let scale = bitcast<f32>(factors.x);
    return Inputs(
        array(inputs[0][token], inputs[1][token]), scale, -PACKED_ZERO * sums, scale * vec2<f32>(sums),
    );
}

// Adds the product of a row's block and its inputs to `sum`.
fn dot_row(row: u32, w: array<vec4<u32>, 2>, v: Inputs, sum: f32) -> f32 {
    let low = dot_words(w[0].xy, v.x[0].xy, dot_words(w[1].xy, v.x[1].xy, v.first.x));
    if SCALES == 1u {
        let all = f32(dot_words(w[0].zw, v.x[0].zw, dot_words(w[1].zw, v.x[1].zw, low)));
        let scaled = fma(v.scale * weight_scales[0][row], all, sum);
        if HAS_OFFSETS {
            return fma(weight_offsets[0][row], v.sums.x, scaled);
        }
        return scaled;
    }
    let high = f32(dot_words(w[0].zw, v.x[0].zw, dot_words(w[1].zw, v.x[1].zw, v.first.y)));
    let both = fma(weight_scales[0][row], f32(low), weight_scales[SCALES - 1u][row] * high);
    let scaled = fma(v.scale, both, sum);
    if HAS_OFFSETS {
        return fma(weight_offsets[0][row], v.sums.x, fma(weight_offsets[SCALES - 1u][row], v.sums.y, scaled));
    }
    return scaled;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = (wid.x + wid.z * groups.x) * TILE.x;
    @if(experts) {
        if wid.y >= p.pairs || !chunk_has_rows(wid.y, first_row, TILE.x) || !leads_group(wid.y, lid) {
            return;
        }
        @if(lookup) { fill_table(lid); }
        // Ends with a barrier.
        find_group(wid.y, lid);
    }
    @if(lookup && !experts) {
        fill_table(lid);
        workgroupBarrier();
    }
    let first_token = input_row(wid.y, 0u);
    let row_lane = lid % ROW_STEP;
    let token_lane = lid / ROW_STEP;
    let half = lid % 2u;
    var acc: Sums;
    for (var i = 0u; i < ROWS * TOKENS; i++) {
        acc[i] = 0.0;
    }
    for (var b = 0u; b < p.blocks; b++) {
        for (var k = 0u; k < 2u * EDGE_ROWS / WG; k++) {
            let row = (k * WG + lid) / 2u;
            let block = tile_row(first_token, first_row, row, EDGE_ROWS) * p.blocks + b;
            let scales = load_scales(block / BLOCKS_PER_SCALES);
            let w = load_packed(2u * block + half, block, b % BLOCKS_PER_SCALES, half, scales);
            weights[half][row] = w.q;
            if half < SCALES {
                weight_scales[half][row] = select(w.scale.x, w.scale.y, half == 1u);
                if HAS_OFFSETS {
                    weight_offsets[half][row] = select(w.offset.x, w.offset.y, half == 1u);
                }
            }
        }
        for (var k = 0u; k < INPUT_TURNS; k++) {
            let token = (k * WG + lid) / 2u;
            if token < EDGE_TOKENS {
                let row = input_row(wid.y, token);
                inputs[half][token] = load_part_words(row, 2u * b + half, half);
                if half == 0u {
                    input_factors[token] = load_factors(row, b);
                }
            }
        }
        workgroupBarrier();
        var v: array<Inputs, TOKENS>;
        for (var t = 0u; t < TOKENS; t++) {
            v[t] = tile_inputs(token_lane + TOKEN_STEP * t);
        }
        for (var r = 0u; r < ROWS; r++) {
            let row = row_lane + ROW_STEP * r;
            let w = array(weights[0][row], weights[1][row]);
            for (var t = 0u; t < TOKENS; t++) {
                acc[ROWS * t + r] = dot_row(row, w, v[t], acc[ROWS * t + r]);
            }
        }
        workgroupBarrier();
    }
    store_sums(wid.y, first_row, lid, acc);
}
