// Products of an encoded weight with signed bytes, in registers: for software adapters, and the baseline.
//
// As in `matmul.wgsl`, an invocation computes ROWS rows of TOKENS tokens and uses no workgroup memory, and with
// `subgroups` eight invocations share the loads of x.
import package::encoding::{load_scales, Scales, BLOCKS_PER_SCALES};
import package::int8_block::{Inputs, load_weights, dot_packed};
@if(!subgroups) import package::int8_block::load_inputs;
@if(subgroups) import package::int8_block::load_inputs_shared;
import package::matmul_io::{p, output_rows, store, weight_row, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
import constants::{WG, ROWS, TOKENS};

const TILE = vec2<u32>(WG * ROWS, TOKENS);
const COLS_MULTIPLE = X_WIDTH;
@if(subgroups) const MIN_SUBGROUP = 8u;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @if(subgroups) @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    @if(subgroups) let lane = subgroup_lane % 8u;
    let first_row = ((wid.x + wid.z * groups.x) * WG + lid) * ROWS;
    let first_token = wid.y * TOKENS;
    @if(experts) {
        // All of a workgroup return, so that all of a subgroup stay active.
        if !chunk_has_rows(first_token, (wid.x + wid.z * groups.x) * TILE.x, TILE.x) {
            return;
        }
    }
    // Invocations past the last row compute that row again, so that all of a subgroup stay active.
    var first_blocks: array<u32, ROWS>;
    var acc: array<array<f32, TOKENS>, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        first_blocks[r] = weight_row(first_token, first_row + r) * p.blocks;
        for (var t = 0u; t < TOKENS; t++) {
            acc[r][t] = 0.0;
        }
    }
    var scales: array<Scales, ROWS>;
    var xs: array<Inputs, TOKENS>;
    for (var first = 0u; first < p.blocks; first += BLOCKS_PER_SCALES) {
        for (var r = 0u; r < ROWS; r++) {
            scales[r] = load_scales((first_blocks[r] + first) / BLOCKS_PER_SCALES);
        }
        for (var sub = 0u; sub < BLOCKS_PER_SCALES; sub++) {
            let b = first + sub;
            for (var t = 0u; t < TOKENS; t++) {
                let token = min(first_token + t, output_rows() - 1u);
                @if(!subgroups) xs[t] = load_inputs(token, b);
                @if(subgroups) xs[t] = load_inputs_shared(token, b, lane);
            }
            for (var r = 0u; r < ROWS; r++) {
                let w = load_weights(first_blocks[r] + b, sub, scales[r]);
                for (var t = 0u; t < TOKENS; t++) {
                    acc[r][t] += dot_packed(w, xs[t]);
                }
            }
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        for (var t = 0u; t < TOKENS; t++) {
            store(first_token + t, first_row + r, acc[r][t]);
        }
    }
}
