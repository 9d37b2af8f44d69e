// Products of an encoded weight with signed bytes for many tokens on NVIDIA's tensor cores.
//
// A workgroup computes a tile of `mma_tile.wgsl`. With `experts` the tokens of a tile are pairs that share an expert. A step covers
// BLOCKS blocks: the invocations unpack whole blocks of weights and copy those of x, both into workgroup memory in the order in
// which matrices have them in registers. The sums over a block are exact, and are scaled and added up in f32.
// Scales of weights of 2^104 or more give results that are not finite.
import package::encoding::{load_scales, load_packed, BLOCKS_PER_SCALES, SCALES, PACKED_ZERO, HAS_OFFSETS};
@if(experts) import package::expert_pairs::{leads_group, find_group};
import package::int8_inputs::{load_factors, load_half, half_sum};
import package::matmul_io::{p, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
import package::matmul_tile::input_row;
import package::mma::{cuda_mma_m16n8k16_i8, cuda_mma_m16n8k32_i8};
@if(splits) import package::mma_tile::merge_splits;
import package::mma_tile::{
    factors, matrix_row, pair_rows, place_of, store_factors, store_sums, weight_at, weights, Sums, ROW_MATRICES, SPLITS, SUMS,
    TOKEN_MATRICES,
};
@if(lookup) import package::value_table::fill_table;
import constants::{WG, EDGE_ROWS, EDGE_TOKENS, BLOCKS};

@if(!experts && !gated) const TILE = vec2<u32>(EDGE_ROWS, EDGE_TOKENS);
@if(gated) const TILE = vec2<u32>(EDGE_ROWS / 2u, EDGE_TOKENS);
@if(experts) const TILE = vec2<u32>(EDGE_ROWS, 1u);
const COLS_MULTIPLE = X_WIDTH;
const MIN_SUBGROUP = 32u;
// Blocks of two rows that an invocation unpacks. It copies a block of two tokens.
const OWN_PAIRS: u32 = BLOCKS * EDGE_ROWS / 2u / WG;
const_assert OWN_PAIRS * WG * 2u == BLOCKS * EDGE_ROWS;
const TOKEN_PAIRS: u32 = EDGE_TOKENS / 2u;
const_assert BLOCKS * TOKEN_PAIRS == WG;
// The float 3 * 2^22. The bits of UNIT_FLOAT + n are UNIT_BITS + n for integers n of magnitudes below 2^22, which the sums of a block
// do not reach: those that begin with UNIT_BITS become floats without conversions, of which GPUs do few at a time.
const UNIT_FLOAT: f32 = 12582912.0;
const UNIT_BITS: i32 = 0x4b400000;

// Words of four columns, and of the four that are 16 columns to the right. `weights` has such words of two rows.
var<workgroup> inputs: array<vec2<u32>, 4u * BLOCKS * EDGE_TOKENS>; // [block, token, group]
var<workgroup> input_scales: array<vec2<f32>, BLOCKS * TOKEN_PAIRS>; // [block, pair of tokens]
// What the sums of products begin with, of two tokens for two rows: UNIT_BITS, less zero points. With two scales those over half
// a block.
var<workgroup> starts: array<array<vec4<i32>, BLOCKS * TOKEN_PAIRS>, SCALES>; // [half, block, pair of tokens]
// The sums of x that belong to the offsets: those of two tokens, with two scales for each half of a block.
var<workgroup> input_sums: array<vec4<f32>, BLOCKS * TOKEN_PAIRS>; // [block, pair of tokens]

// Scales cut to 22 significant bits, so that their products with UNIT_FLOAT are exact. Only those of NVFP4 have more, and lose two.
fn short(scale: vec2<f32>) -> vec2<f32> {
    return bitcast<vec2<f32>>(bitcast<vec2<u32>>(scale) & vec2(0xfffffffcu));
}

// Unpacks a block of two rows, which is block `sub` of those that share its scales, for a pair of rows and block `block` of the
// step. `at` are its places in the weight.
fn unpack(at: vec2<u32>, sub: u32, pair: u32, block: u32) {
    let scales = array(load_scales(at.x / BLOCKS_PER_SCALES), load_scales(at.y / BLOCKS_PER_SCALES));
    for (var half = 0u; half < 2u; half++) {
        let top = load_packed(2u * at.x + half, at.x, sub, half, scales[0]);
        let bottom = load_packed(2u * at.y + half, at.y, sub, half, scales[1]);
        for (var i = 0u; i < 2u; i++) {
            let words = vec4(top.q[i], bottom.q[i], top.q[2u + i], bottom.q[2u + i]);
            weights[weight_at(block, pair, 2u * half + i)] = words;
        }
        if half == 0u {
            store_factors(block, pair, vec4(short(top.scale), top.offset), vec4(short(bottom.scale), bottom.offset));
        }
    }
}

// Copies a block of the rows of x of a pair of tokens; it becomes block `block` of the step.
fn copy_inputs(rows: vec2<u32>, b: u32, pair: u32, block: u32) {
    let at = TOKEN_PAIRS * block + pair;
    var scales: vec2<f32>;
    var sums: array<vec2<i32>, 2>;
    for (var t = 0u; t < 2u; t++) {
        let low = load_half(rows[t], b, 0u);
        let high = load_half(rows[t], b, 1u);
        for (var group = 0u; group < 4u; group++) {
            inputs[4u * (2u * at + t) + group] = vec2(low[group], high[group]);
        }
        let loaded = load_factors(rows[t], b);
        scales[t] = bitcast<f32>(loaded.x);
        sums[t] = vec2(half_sum(loaded, 0u), half_sum(loaded, 1u));
        if SCALES == 1u {
            sums[t] = vec2(sums[t].x + sums[t].y, 0);
        }
    }
    input_scales[at] = scales;
    for (var half = 0u; half < SCALES; half++) {
        starts[half][at] = UNIT_BITS - PACKED_ZERO * vec2(sums[0][half], sums[1][half]).xyxy;
    }
    if HAS_OFFSETS {
        input_sums[at] = scales.xyxy * vec4<f32>(vec4(sums[0].x, sums[1].x, sums[0].y, sums[1].y));
    }
}

// Multiplies integers, which began with UNIT_BITS, by scales of two rows.
fn scaled(sums: vec4<i32>, scales: vec2<f32>) -> vec4<f32> {
    return fma(bitcast<vec4<f32>>(sums), scales.xxyy, -UNIT_FLOAT * scales.xxyy);
}

// What belongs to a block of two tokens.
struct Inputs {
    x: vec2<u32>,
    scales: vec2<f32>,
    starts: array<vec4<i32>, SCALES>,
    sums: vec4<f32>,
}

// Adds the products of a block for two rows, of factors `f`, and two tokens to `acc`.
fn add_products(acc: vec4<f32>, w: vec4<u32>, f: array<vec4<f32>, 2>, v: Inputs) -> vec4<f32> {
    var total = acc;
    if SCALES == 1u {
        let sums = scaled(cuda_mma_m16n8k32_i8(w, v.x, v.starts[0]), vec2(f[0].x, f[1].x));
        total = fma(v.scales.xyxy, sums, total);
    } else {
        let low = scaled(cuda_mma_m16n8k16_i8(w.xy, v.x.x, v.starts[0]), vec2(f[0].x, f[1].x));
        let high = scaled(cuda_mma_m16n8k16_i8(w.zw, v.x.y, v.starts[SCALES - 1u]), vec2(f[0].y, f[1].y));
        total = fma(v.scales.xyxy, low, fma(v.scales.xyxy, high, total));
    }
    if HAS_OFFSETS {
        total = fma(vec4(f[0].zz, f[1].zz), v.sums.xyxy, total);
        if SCALES == 2u {
            total = fma(vec4(f[0].ww, f[1].ww), v.sums.zwzw, total);
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
        @if(lookup) { fill_table(lid); }
        // Ends with a barrier.
        find_group(wid.y, lid);
    }
    @if(lookup && !experts) {
        fill_table(lid);
        workgroupBarrier();
    }
    let first_token = input_row(wid.y, 0u);
    let token = 2u * (lid % TOKEN_PAIRS);
    let token_rows = vec2(input_row(wid.y, token), input_row(wid.y, token + 1u));
    let place = place_of(lid);
    var acc: Sums;
    for (var i = 0u; i < SUMS; i++) {
        acc[i] = vec4(0.0);
    }
    for (var step = 0u; step < p.blocks; step += BLOCKS) {
        // Past the end the last block is repeated, but not multiplied.
        for (var k = 0u; k < OWN_PAIRS; k++) {
            let pair = (k * WG + lid) % (EDGE_ROWS / 2u);
            let block = (k * WG + lid) / (EDGE_ROWS / 2u);
            let rows = pair_rows(first_token, first_row, pair);
            let b = min(step + block, p.blocks - 1u);
            unpack(p.blocks * rows + b, b % BLOCKS_PER_SCALES, pair, block);
        }
        let own_block = min(step + lid / TOKEN_PAIRS, p.blocks - 1u);
        copy_inputs(token_rows, own_block, lid % TOKEN_PAIRS, lid / TOKEN_PAIRS);
        workgroupBarrier();
        for (var b = place.split; b < min(BLOCKS, p.blocks - step); b += SPLITS) {
            var v: array<Inputs, TOKEN_MATRICES>;
            for (var n = 0u; n < TOKEN_MATRICES; n++) {
                let first = EDGE_TOKENS * b + 8u * n;
                let at = (first + place.token) / 2u;
                v[n].x = inputs[4u * (first + place.input_token) + place.lane % 4u];
                v[n].scales = input_scales[at];
                for (var half = 0u; half < SCALES; half++) {
                    v[n].starts[half] = starts[half][at];
                }
                if HAS_OFFSETS {
                    v[n].sums = input_sums[at];
                }
            }
            for (var m = 0u; m < ROW_MATRICES; m++) {
                let row = EDGE_ROWS * b + place.row + matrix_row(m);
                let w = weights[place.first_weight + 2u * (EDGE_ROWS * b + matrix_row(m))];
                let f = array(factors[row], factors[row + 8u]);
                for (var n = 0u; n < TOKEN_MATRICES; n++) {
                    let i = ROW_MATRICES * n + m;
                    acc[i] = add_products(acc[i], w, f, v[n]);
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
    store_sums(wid.y, first_row, place, acc);
}
