// Products with an encoded weight that stays in registers: for software adapters, and the baseline.
//
// An invocation computes ROWS rows of TOKENS tokens: each load of x serves ROWS rows, each load of a
// weight serves TOKENS tokens. The kernel uses no workgroup memory and no barriers, because these and
// loads are slow on software adapters. With `subgroups`, eight invocations each load one vec4 of x and
// broadcast it to the others.
import package::blocks::load_block;
import package::encoding::{load_scales, Scales, BLOCKS_PER_SCALES};
import package::matmul_io::{p, output_rows, load_x, load_x_block, dot_block, store, weight_row, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
import package::unpack::Block;
import constants::{WG, ROWS, TOKENS};

const TILE = vec2<u32>(WG * ROWS, TOKENS);
const COLS_MULTIPLE = X_WIDTH;
@if(subgroups) const MIN_SUBGROUP = 8u;

@if(!subgroups)
fn shared_x_block(t: u32, b: u32, lane: u32) -> Block {
    return load_x_block(t, b);
}

@if(subgroups)
fn shared_x_block(t: u32, b: u32, lane: u32) -> Block {
    let v = load_x(t, 8u * b + lane);
    return Block(
        subgroupBroadcast(v, 0u), subgroupBroadcast(v, 1u), subgroupBroadcast(v, 2u),
        subgroupBroadcast(v, 3u), subgroupBroadcast(v, 4u), subgroupBroadcast(v, 5u),
        subgroupBroadcast(v, 6u), subgroupBroadcast(v, 7u),
    );
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @if(subgroups) @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    @if(subgroups) let lane = subgroup_lane % 8u;
    @if(!subgroups) let lane = 0u;
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
    var xs: array<Block, TOKENS>;
    for (var first = 0u; first < p.blocks; first += BLOCKS_PER_SCALES) {
        for (var r = 0u; r < ROWS; r++) {
            scales[r] = load_scales((first_blocks[r] + first) / BLOCKS_PER_SCALES);
        }
        for (var sub = 0u; sub < BLOCKS_PER_SCALES; sub++) {
            let b = first + sub;
            for (var t = 0u; t < TOKENS; t++) {
                xs[t] = shared_x_block(min(first_token + t, output_rows() - 1u), b, lane);
            }
            for (var r = 0u; r < ROWS; r++) {
                let w = load_block(first_blocks[r] + b, sub, scales[r]);
                for (var t = 0u; t < TOKENS; t++) {
                    acc[r][t] += dot_block(w, xs[t]);
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
