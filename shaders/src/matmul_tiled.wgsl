// Products with an encoded weight for many tokens, on GPUs.
//
// A workgroup computes a tile of EDGE_ROWS rows by EDGE_TOKENS tokens, and each invocation ROWS by TOKENS
// elements of the tile. With `experts` the tokens of a tile are pairs that share an expert. A step covers one block (32 columns): all invocations decode parts of the tile's
// weights into workgroup memory, and copy x there. Both are stored as vectors of four columns, those of
// adjacent rows or tokens next to each other, so that the loads of adjacent invocations use different banks.
import package::blocks::decode;
import package::encoding::{load_scales, load_part, BLOCKS_PER_SCALES};
@if(experts) import package::expert_pairs::{leads_group, find_group};
import package::matmul_io::{p, load_x, tile_row, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
import package::matmul_tile::{input_row, store_sums, Sums, ROW_STEP, TOKEN_STEP};
import constants::{WG, EDGE_ROWS, EDGE_TOKENS, ROWS, TOKENS};

@if(!experts && !gated) const TILE = vec2<u32>(EDGE_ROWS, EDGE_TOKENS);
@if(gated) const TILE = vec2<u32>(EDGE_ROWS / 2u, EDGE_TOKENS);
@if(experts) const TILE = vec2<u32>(EDGE_ROWS, 1u);
const COLS_MULTIPLE = X_WIDTH;

var<workgroup> weights: array<array<vec4<f32>, EDGE_ROWS>, 8>; // [column / 4, row]
// [column / 4, token ^ (column / 4)]: invocations write adjacent columns of a token to different banks.
var<workgroup> inputs: array<array<vec4<f32>, EDGE_TOKENS>, 8>;

fn dot4(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, sum))));
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
    let row_lane = lid % ROW_STEP;
    let token_lane = lid / ROW_STEP;
    var acc: Sums;
    for (var i = 0u; i < ROWS * TOKENS; i++) {
        acc[i] = 0.0;
    }
    for (var b = 0u; b < p.blocks; b++) {
        for (var k = 0u; k < 2u * EDGE_ROWS / WG; k++) {
            let i = k * WG + lid;
            let row = i / 2u;
            let half = i % 2u;
            let block = tile_row(first_token, first_row, row, EDGE_ROWS) * p.blocks + b;
            let scales = load_scales(block / BLOCKS_PER_SCALES);
            let w = decode(load_part(2u * block + half, b % BLOCKS_PER_SCALES, half, scales));
            weights[2u * half][row] = w[0];
            weights[2u * half + 1u][row] = w[1];
            weights[2u * half + 4u][row] = w[2];
            weights[2u * half + 5u][row] = w[3];
        }
        for (var k = 0u; k < 8u * EDGE_TOKENS / WG; k++) {
            let i = k * WG + lid;
            let token = i / 8u;
            let c = i % 8u;
            inputs[c][token ^ c] = load_x(input_row(wid.y, token), 8u * b + c);
        }
        workgroupBarrier();
        // Two loops, because compilers unroll loops of four turns rather than of eight.
        for (var first = 0u; first < 8u; first += 4u) {
            for (var i = 0u; i < 4u; i++) {
                let c = first + i;
                var v: array<vec4<f32>, TOKENS>;
                for (var t = 0u; t < TOKENS; t++) {
                    v[t] = inputs[c][(token_lane ^ c) + TOKEN_STEP * t];
                }
                for (var r = 0u; r < ROWS; r++) {
                    let w = weights[c][row_lane + ROW_STEP * r];
                    for (var t = 0u; t < TOKENS; t++) {
                        acc[ROWS * t + r] = dot4(w, v[t], acc[ROWS * t + r]);
                    }
                }
            }
        }
        workgroupBarrier();
    }
    store_sums(wid.y, first_row, lid, acc);
}
