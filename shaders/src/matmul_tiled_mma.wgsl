// Products of an encoded weight with many tokens on NVIDIA's tensor cores, as accurate as in f32.
//
// Halves hold the numbers of an encoding exactly (see exact_halves.wgsl). A row of x is scaled by a power of two to magnitudes
// below 2^15, and each element is split into two halves: their sum differs from it by at most one unit in the last place of f32,
// or 2^-35 of the row's largest element. With `one_half` there is only the first. Tensor cores multiply halves exactly and truncate
// sums to about as many bits as f32 has; the sums over a block are scaled and added up in f32. Inputs of 2^126 or more may give
// infinite results.
//
// A workgroup computes a tile of `mma_tile.wgsl`. With `experts` the tokens of a tile are pairs that share an expert. A step covers
// BLOCKS blocks: the invocations convert whole blocks of weights and split x, both into workgroup memory in the order in which
// matrices have them in registers.
import package::encoding::{BLOCKS_PER_SCALES, SCALES, HAS_OFFSETS};
import package::exact_halves::load_halves;
@if(experts) import package::expert_pairs::{leads_group, find_group};
import package::half_inputs::{find_largest, input_scale, input_unscale};
import package::matmul_io::{p, load_x, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
import package::matmul_tile::input_row;
import package::mma::cuda_mma_m16n8k16;
@if(splits) import package::mma_tile::merge_splits;
import package::mma_tile::{
    factors, matrix_row, pair_rows, place_of, store_factors, store_sums, weight_at, weights, Sums, ROW_MATRICES, SPLITS, SUMS,
    TOKEN_MATRICES,
};
import package::quad::quad_sum;
import package::split_inputs::{packed, rest, sum4, HIGH_UNIT};
@if(lookup) import package::value_table::fill_table;
import constants::{WG, EDGE_ROWS, EDGE_TOKENS, BLOCKS};

@if(!experts && !gated) const TILE = vec2<u32>(EDGE_ROWS, EDGE_TOKENS);
@if(gated) const TILE = vec2<u32>(EDGE_ROWS / 2u, EDGE_TOKENS);
@if(experts) const TILE = vec2<u32>(EDGE_ROWS, 1u);
const COLS_MULTIPLE = X_WIDTH;
const MIN_SUBGROUP = 32u;
// The factor by which x is scaled besides `input_scale`.
const X_UNIT: f32 = 16.0;
// Four invocations split a block of x: tokens that an invocation takes part in.
const OWN_TOKENS: u32 = 4u * EDGE_TOKENS / WG;
const_assert BLOCKS * EDGE_ROWS / 2u == WG;

// In vec4s, of a block's four groups of columns: the first two words have a group's columns, as `packed` returns them; the other
// two have the same of the group 16 columns to the right. `weights` has such words of a row, then of the row 8 below.
var<workgroup> first_halves: array<vec4<u32>, 4u * BLOCKS * EDGE_TOKENS>; // [block, token, group]
@if(!one_half) var<workgroup> second_halves: array<vec4<u32>, 4u * BLOCKS * EDGE_TOKENS>; // [block, token, group]
// [block, token]: the sum of a block of x or, with two scales, those of its halves.
var<workgroup> input_sums: array<vec2<f32>, BLOCKS * EDGE_TOKENS>;

// Converts a block of two rows, which is block `sub` of those that share its scales, for a pair of rows and block `block` of the
// step. `at` are its places in the weight.
fn convert(at: vec2<u32>, sub: u32, pair: u32, block: u32) {
    let top = load_halves(at.x, sub);
    let bottom = load_halves(at.y, sub);
    for (var group = 0u; group < 4u; group++) {
        let t = top.numbers[group];
        let b = bottom.numbers[group];
        weights[weight_at(2u * block, pair, group)] = vec4(t.x, b.x, t.y, b.y);
        weights[weight_at(2u * block + 1u, pair, group)] = vec4(t.z, b.z, t.w, b.w);
    }
    store_factors(block, pair, vec4(top.scale, top.offset), vec4(bottom.scale, bottom.offset));
}

// Splits eight columns of x for a token of block `block` of the step.
fn split(x: array<vec4<f32>, 2>, scale: f32, block: u32, token: u32, group: u32) {
    let low = scale * x[0];
    let high = HIGH_UNIT * scale * x[1];
    let words = vec4(packed(low), packed(high));
    let at = EDGE_TOKENS * block + token;
    first_halves[4u * at + group] = words;
    @if(!one_half)
    second_halves[4u * at + group] = vec4(packed(rest(low, words.xy)), packed(rest(high, words.zw)));
    if HAS_OFFSETS {
        // Of the same numbers as are multiplied.
        var of_low = sum4(low);
        var of_high = sum4(high);
        @if(one_half) {
            of_low -= sum4(rest(low, words.xy));
            of_high -= sum4(rest(high, words.zw));
        }
        var sums = vec2(of_low, of_high / HIGH_UNIT);
        if SCALES == 1u {
            sums = vec2(quad_sum(sums.x + sums.y), 0.0);
        } else {
            sums = vec2(quad_sum(sums.x), quad_sum(sums.y));
        }
        if group == 0u {
            input_sums[at] = sums;
        }
    }
}

// Adds the sums over a block for two rows and two tokens to `acc`: those over the first 16 columns and over the others or, with
// one scale, over all. `f` are the factors of the rows, `x` the sums of x for the first token, then for the second.
fn add_scaled(acc: vec4<f32>, sums: array<vec4<f32>, 2>, f: array<vec4<f32>, 2>, x: vec4<f32>) -> vec4<f32> {
    var total = fma(vec4(f[0].xx, f[1].xx), sums[0], acc);
    if SCALES == 2u {
        total = fma(vec4(f[0].yy, f[1].yy), sums[1], total);
    }
    if HAS_OFFSETS {
        total = fma(vec4(f[0].zz, f[1].zz), x.xzxz, total);
        if SCALES == 2u {
            total = fma(vec4(f[0].ww, f[1].ww), x.ywyw, total);
        }
    }
    return total;
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
        find_group(wid.y, lid);
    }
    let first_token = input_row(wid.y, 0u);
    @if(lookup) { fill_table(lid); }
    // Ends with a barrier.
    find_largest(wid.y, lid);
    // The pair of rows that the invocation converts, one block of a step, and their first blocks.
    let pair = lid % (EDGE_ROWS / 2u);
    let pair_block = lid / (EDGE_ROWS / 2u);
    let pair_blocks = p.blocks * pair_rows(first_token, first_row, pair);
    // The tokens whose x it splits.
    let group = lid % 4u;
    var x_rows: array<u32, OWN_TOKENS>;
    var x_scales: array<f32, OWN_TOKENS>;
    for (var k = 0u; k < OWN_TOKENS; k++) {
        let token = (k * WG + lid) / 4u;
        x_rows[k] = input_row(wid.y, token);
        x_scales[k] = X_UNIT * input_scale(token);
    }
    let place = place_of(lid);
    var acc: Sums;
    for (var i = 0u; i < SUMS; i++) {
        acc[i] = vec4(0.0);
    }
    for (var step = 0u; step < p.blocks; step += BLOCKS) {
        // Past the end the last block is repeated, but not multiplied.
        let own_block = min(step + pair_block, p.blocks - 1u);
        convert(pair_blocks + own_block, own_block % BLOCKS_PER_SCALES, pair, pair_block);
        for (var b = 0u; b < BLOCKS; b++) {
            let block = min(step + b, p.blocks - 1u);
            for (var k = 0u; k < OWN_TOKENS; k++) {
                let x = array(load_x(x_rows[k], 8u * block + group), load_x(x_rows[k], 8u * block + 4u + group));
                split(x, x_scales[k], b, (k * WG + lid) / 4u, group);
            }
        }
        workgroupBarrier();
        for (var b = place.split; b < min(BLOCKS, p.blocks - step); b += SPLITS) {
            var first: array<vec4<u32>, TOKEN_MATRICES>;
            @if(!one_half) var second: array<vec4<u32>, TOKEN_MATRICES>;
            var x_sums: array<vec4<f32>, TOKEN_MATRICES>;
            for (var n = 0u; n < TOKEN_MATRICES; n++) {
                let at = 4u * (EDGE_TOKENS * b + place.input_token + 8u * n) + place.lane % 4u;
                first[n] = first_halves[at];
                @if(!one_half) { second[n] = second_halves[at]; }
                let sums_at = EDGE_TOKENS * b + place.token + 8u * n;
                x_sums[n] = vec4(input_sums[sums_at], input_sums[sums_at + 1u]);
            }
            for (var m = 0u; m < ROW_MATRICES; m++) {
                let r = place.row + matrix_row(m);
                let at = place.first_weight + 4u * (EDGE_ROWS * b + matrix_row(m) / 2u);
                let low = weights[at];
                let high = weights[at + 2u * EDGE_ROWS];
                let f = array(factors[EDGE_ROWS * b + r], factors[EDGE_ROWS * b + r + 8u]);
                for (var n = 0u; n < TOKEN_MATRICES; n++) {
                    // The smaller products come first.
                    var sums = array(vec4(0.0), vec4(0.0));
                    @if(!one_half) {
                        sums[0] = cuda_mma_m16n8k16(low, second[n].xy, sums[0]);
                        sums[SCALES - 1u] = cuda_mma_m16n8k16(high, second[n].zw, sums[SCALES - 1u]);
                    }
                    sums[0] = cuda_mma_m16n8k16(low, first[n].xy, sums[0]);
                    sums[SCALES - 1u] = cuda_mma_m16n8k16(high, first[n].zw, sums[SCALES - 1u]);
                    let i = ROW_MATRICES * n + m;
                    acc[i] = add_scaled(acc[i], sums, f, x_sums[n]);
                }
            }
        }
        workgroupBarrier();
    }
    @if(splits) {
        merge_splits(place, &acc);
        if place.split > 0u {
            return;
        }
    }
    for (var n = 0u; n < TOKEN_MATRICES; n++) {
        let token = place.token + 8u * n;
        let unscale = vec2(input_unscale(token), input_unscale(token + 1u)) / X_UNIT;
        for (var m = 0u; m < ROW_MATRICES; m++) {
            acc[ROW_MATRICES * n + m] *= unscale.xyxy;
        }
    }
    store_sums(wid.y, first_row, place, acc);
}
