// Products of an encoded weight with signed bytes for few tokens, on GPUs.
//
// LANES invocations share ROWS rows of the weight, and a workgroup computes those of WG / LANES such groups. An
// invocation multiplies whole blocks: with so few instructions for a byte, those for scales and addresses count. The
// rows share the loads of x and the tokens those of the weight.
import package::encoding::{load_scales, BLOCKS_PER_SCALES};
import package::int8_block::{Inputs, Weights, load_inputs, load_weights, dot_packed};
import package::matmul_io::{p, output_rows, tile_row, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
@if(!gated) import package::matmul_io::store;
@if(gated) import package::matmul_io::store_gated;
@if(lookup) import package::value_table::fill_table;
import constants::{WG, ROWS, TOKENS};

// The rows of a workgroup, of those that the tile's results belong to: with `gated` two for each result.
const ALL_ROWS: u32 = ROWS * WG / LANES;
@if(!gated) const TILE = vec2<u32>(ALL_ROWS, TOKENS);
@if(gated) const TILE = vec2<u32>(ALL_ROWS / 2u, TOKENS);
const COLS_MULTIPLE = X_WIDTH;
// Invocations that share rows: a multiple of the blocks that share scales.
const LANES: u32 = 32u;
// The sums of an invocation, those of a workgroup, and the invocations that add up the partial sums of one.
const SUMS: u32 = ROWS * TOKENS;
const ALL_SUMS: u32 = ALL_ROWS * TOKENS;
const ADDERS: u32 = WG / ALL_SUMS;

var<workgroup> partials: array<array<f32, WG>, SUMS>; // [token and row, invocation]
var<workgroup> totals: array<array<f32, ADDERS>, ALL_SUMS>;

// Adds up the partial sums of the invocations, and stores the results.
fn store_sums(acc: array<f32, SUMS>, first_token: u32, first_row: u32, lid: u32) {
    for (var i = 0u; i < SUMS; i++) {
        partials[i][lid] = acc[i];
    }
    workgroupBarrier();
    // ADDERS invocations for each sum add LANES / ADDERS partial sums each.
    let i = lid / ADDERS;
    let adder = lid % ADDERS;
    let row = i % ALL_ROWS;
    let number = ROWS * (i / ALL_ROWS) + row % ROWS;
    let first_lane = LANES * (row / ROWS);
    var sum = 0.0;
    for (var lane = adder; lane < LANES; lane += ADDERS) {
        sum += partials[number][first_lane + lane];
    }
    totals[i][adder] = sum;
    workgroupBarrier();
    // An invocation stores one result: that of one sum or, with `gated`, of two.
    if lid < TILE.x * TOKENS {
        let first = ALL_ROWS * (lid / TILE.x) + lid % TILE.x;
        @if(!gated) store(first_token + lid / TILE.x, first_row + lid % TILE.x, total(first));
        @if(gated)
        store_gated(
            first_token + lid / TILE.x, first_row + lid % TILE.x, total(first), total(first + TILE.x)
        );
    }
}

// The sum of what ADDERS invocations have added up.
fn total(i: u32) -> f32 {
    var sum = 0.0;
    for (var adder = 0u; adder < ADDERS; adder++) {
        sum += totals[i][adder];
    }
    return sum;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = (wid.x + wid.z * groups.x) * TILE.x;
    let first_token = wid.y * TOKENS;
    @if(experts) {
        if !chunk_has_rows(first_token, first_row, TILE.x) {
            return;
        }
    }
    @if(lookup) {
        fill_table(lid);
        workgroupBarrier();
    }
    var tokens: array<u32, TOKENS>;
    for (var t = 0u; t < TOKENS; t++) {
        tokens[t] = min(first_token + t, output_rows() - 1u);
    }
    var first_blocks: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        first_blocks[r] = tile_row(tokens[0], first_row, ROWS * (lid / LANES) + r, ALL_ROWS) * p.blocks;
    }
    // The sum of row `r` and token `t` is number `ROWS * t + r`.
    var acc: array<f32, SUMS>;
    for (var i = 0u; i < SUMS; i++) {
        acc[i] = 0.0;
    }
    // Rows and steps are whole numbers of blocks that share scales.
    let sub = lid % BLOCKS_PER_SCALES;
    for (var b = lid % LANES; b < p.blocks; b += LANES) {
        @if(!weights_first) {
            var v: array<Inputs, TOKENS>;
            for (var t = 0u; t < TOKENS; t++) {
                v[t] = load_inputs(tokens[t], b);
            }
            for (var r = 0u; r < ROWS; r++) {
                let block = first_blocks[r] + b;
                let w = load_weights(block, sub, load_scales(block / BLOCKS_PER_SCALES));
                for (var t = 0u; t < TOKENS; t++) {
                    acc[ROWS * t + r] += dot_packed(w, v[t]);
                }
            }
        }
        @if(weights_first) {
            var w: array<Weights, ROWS>;
            for (var r = 0u; r < ROWS; r++) {
                let block = first_blocks[r] + b;
                w[r] = load_weights(block, sub, load_scales(block / BLOCKS_PER_SCALES));
            }
            for (var t = 0u; t < TOKENS; t++) {
                let v = load_inputs(tokens[t], b);
                for (var r = 0u; r < ROWS; r++) {
                    acc[ROWS * t + r] += dot_packed(w[r], v);
                }
            }
        }
    }
    store_sums(acc, first_token, first_row, lid);
}
