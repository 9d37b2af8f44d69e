// Products with an encoded weight for many tokens on the matrix units of GPUs: cooperative matrices of halves, whose
// products are summed in single precision. Natively only: browsers have no cooperative matrices.
//
// A workgroup computes a tile of EDGE_ROWS rows by EDGE_TOKENS tokens, and a subgroup a patch of it. A step covers one
// block (32 columns): all invocations decode the tile's weights into workgroup memory, and copy x there, both as
// halves. With fewer subgroups than patches the steps are repeated for the other patches.
import package::blocks::decode;
import package::encoding::{load_scales, load_part, BLOCKS_PER_SCALES};
import package::half_inputs::{find_largest, input_scale, input_unscale};
import package::matmul_io::{p, load_x, store, tile_row, X_WIDTH};
import package::matmul_tile::{input_row, tile_token};
import package::subgroup_number::{subgroup_count, subgroup_number};
@if(lookup) import package::value_table::fill_table;
import constants::{WG, EDGE_ROWS, EDGE_TOKENS, PATCH_TOKENS};

const TILE = vec2<u32>(EDGE_ROWS, EDGE_TOKENS);
const COLS_MULTIPLE = X_WIDTH;
const MIN_SUBGROUP = 1u;

// The rows and columns of a cooperative matrix.
@if(!matrix8) const EDGE: u32 = 16u;
@if(matrix8) const EDGE: u32 = 8u;
@if(!matrix8) alias WeightMatrix = coop_mat16x16<f16, A>;
@if(matrix8) alias WeightMatrix = coop_mat8x8<f16, A>;
@if(!matrix8) alias InputMatrix = coop_mat16x16<f16, B>;
@if(matrix8) alias InputMatrix = coop_mat8x8<f16, B>;
@if(!matrix8) alias SumMatrix = coop_mat16x16<f32, C>;
@if(matrix8) alias SumMatrix = coop_mat8x8<f32, C>;

// A patch has PATCH_ROWS rows and PATCH_TOKENS tokens: as many patches as there are subgroups suit a device best.
const PATCH_ROWS: u32 = 64u;
const ROW_MATRICES: u32 = PATCH_ROWS / EDGE;
const TOKEN_MATRICES: u32 = PATCH_TOKENS / EDGE;
const ROW_PATCHES: u32 = EDGE_ROWS / PATCH_ROWS;
const PATCHES: u32 = ROW_PATCHES * (EDGE_TOKENS / PATCH_TOKENS);
// An invocation copies this many times eight columns of x in a step.
const OCTETS: u32 = 4u * EDGE_TOKENS / WG;
// From one row or token in workgroup memory to the next: a block, and 8 columns, so that they begin in other banks.
const STRIDE: u32 = 40u;
// Halves hold weights of magnitudes from 4e-6 to 4094 times this with all their bits; larger ones are clamped.
const WEIGHT_SCALE: f32 = 16.0;
const LARGEST_HALF: f32 = 65504.0;

var<workgroup> weights: array<f16, EDGE_ROWS * STRIDE>; // [row, column]
var<workgroup> inputs: array<f16, EDGE_TOKENS * STRIDE>; // [token, column]
var<workgroup> results: array<f32, PATCHES * EDGE * EDGE>; // [patch, token, row]

fn write_weights(i: u32, v: vec4<f32>) {
    let w = vec4<f16>(clamp(WEIGHT_SCALE * v, vec4(-LARGEST_HALF), vec4(LARGEST_HALF)));
    weights[i] = w.x;
    weights[i + 1u] = w.y;
    weights[i + 2u] = w.z;
    weights[i + 3u] = w.w;
}

fn write_inputs(i: u32, v: vec4<f32>) {
    let x = vec4<f16>(v);
    inputs[i] = x.x;
    inputs[i + 1u] = x.y;
    inputs[i + 2u] = x.z;
    inputs[i + 3u] = x.w;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let first_row = (wid.x + wid.z * groups.x) * EDGE_ROWS;
    let first_token = input_row(wid.y, 0u);
    let subgroup = subgroup_number(lid, lane);
    @if(lookup) { fill_table(lid); }
    // Ends with a barrier.
    find_largest(wid.y, lid);
    let patches_at_once = subgroup_count(lid);
    var x_scales: array<f32, OCTETS>;
    for (var k = 0u; k < OCTETS; k++) {
        x_scales[k] = input_scale((k * WG + lid) / 4u);
    }
    for (var first_patch = 0u; first_patch < PATCHES; first_patch += patches_at_once) {
        // Subgroups beyond the last patch compute it again, because all must take part, but do not store it.
        let patch_index = min(first_patch + subgroup, PATCHES - 1u);
        let stores = first_patch + subgroup < PATCHES;
        let patch_row = patch_index % ROW_PATCHES * PATCH_ROWS;
        let patch_token = patch_index / ROW_PATCHES * PATCH_TOKENS;
        var sums: array<SumMatrix, ROW_MATRICES * TOKEN_MATRICES>; // [token, row]
        for (var i = 0u; i < ROW_MATRICES * TOKEN_MATRICES; i++) {
            sums[i] = SumMatrix();
        }
        for (var b = 0u; b < p.blocks; b++) {
            for (var k = 0u; k < 2u * EDGE_ROWS / WG; k++) {
                let i = k * WG + lid;
                let row = i / 2u;
                let part = i % 2u;
                let block = tile_row(first_token, first_row, row, EDGE_ROWS) * p.blocks + b;
                let s = load_scales(block / BLOCKS_PER_SCALES);
                let w = decode(load_part(2u * block + part, b % BLOCKS_PER_SCALES, part, s));
                let at = row * STRIDE + 8u * part;
                write_weights(at, w[0]);
                write_weights(at + 4u, w[1]);
                write_weights(at + 16u, w[2]);
                write_weights(at + 20u, w[3]);
            }
            for (var k = 0u; k < OCTETS; k++) {
                let i = k * WG + lid;
                let token = i / 4u;
                let o = i % 4u;
                let x_row = input_row(wid.y, token);
                write_inputs(token * STRIDE + 8u * o, x_scales[k] * load_x(x_row, 8u * b + 2u * o));
                write_inputs(token * STRIDE + 8u * o + 4u, x_scales[k] * load_x(x_row, 8u * b + 2u * o + 1u));
            }
            workgroupBarrier();
            for (var c = 0u; c < 32u; c += EDGE) {
                var w: array<WeightMatrix, ROW_MATRICES>;
                for (var r = 0u; r < ROW_MATRICES; r++) {
                    w[r] = coopLoadT<WeightMatrix>(&weights[(patch_row + EDGE * r) * STRIDE + c], STRIDE);
                }
                for (var t = 0u; t < TOKEN_MATRICES; t++) {
                    let x = coopLoad<InputMatrix>(&inputs[(patch_token + EDGE * t) * STRIDE + c], STRIDE);
                    for (var r = 0u; r < ROW_MATRICES; r++) {
                        sums[ROW_MATRICES * t + r] = coopMultiplyAdd(w[r], x, sums[ROW_MATRICES * t + r]);
                    }
                }
            }
            workgroupBarrier();
        }
        for (var i = 0u; i < ROW_MATRICES * TOKEN_MATRICES; i++) {
            // naga's SPIR-V needs names for the index and the stride.
            let at = patch_index * EDGE * EDGE;
            let stride = EDGE;
            if stores {
                coopStore(sums[i], &results[at], stride);
            }
            workgroupBarrier();
            let last = min(first_patch + patches_at_once, PATCHES);
            for (var j = first_patch * EDGE * EDGE + lid; j < last * EDGE * EDGE; j += WG) {
                let patch_number = j / (EDGE * EDGE);
                let row = patch_number % ROW_PATCHES * PATCH_ROWS + i % ROW_MATRICES * EDGE + j % EDGE;
                let token = patch_number / ROW_PATCHES * PATCH_TOKENS + i / ROW_MATRICES * EDGE + j / EDGE % EDGE;
                let unscale = input_unscale(token) / WEIGHT_SCALE;
                store(tile_token(wid.y, token), first_row + row, unscale * results[j]);
            }
            workgroupBarrier();
        }
    }
}
