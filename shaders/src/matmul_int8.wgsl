// Products of an encoded weight with signed bytes, in registers: for software adapters, and the baseline.
//
// As in `matmul.wgsl`, an invocation computes ROWS rows of TOKENS tokens and uses no workgroup memory.
import package::encoding::{load_scales, Scales, BLOCKS_PER_SCALES};
import package::int8_block::{Inputs, load_inputs, load_weights, dot_packed};
import package::matmul_io::{p, output_rows, store, weight_row, X_WIDTH};
import constants::{WG, ROWS, TOKENS};

const TILE = vec2<u32>(WG * ROWS, TOKENS);
const COLS_MULTIPLE = X_WIDTH;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = ((wid.x + wid.z * groups.x) * WG + lid) * ROWS;
    let first_token = wid.y * TOKENS;
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
                xs[t] = load_inputs(min(first_token + t, output_rows() - 1u), b);
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
