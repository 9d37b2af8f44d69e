// Products with an encoded weight for many tokens, on GPUs.
//
// A workgroup of 16 x 16 invocations computes a tile of 64 rows by 64 tokens, and each invocation 4 by 4
// elements of the tile. A step covers one block (32 columns): the tile's weights are decoded once into
// workgroup memory (8 KiB), and x is copied there too (8 KiB), both transposed. The arrays hold scalars
// rather than vectors, because a store to one component of a vector may write all components.
import package::encoding::{load_scales, load_block, BLOCKS_PER_SCALES};
import package::matmul_io::{p, output_rows, load_x, store, X_WIDTH};

const EDGE: u32 = 64u;
const TILE = vec2<u32>(EDGE, EDGE);
const COLS_MULTIPLE = X_WIDTH;

var<workgroup> weights: array<array<f32, EDGE>, 32>; // [column, row]
var<workgroup> inputs: array<array<f32, EDGE>, 32>; // [column, token]

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = (wid.x + wid.z * groups.x) * EDGE;
    let first_token = wid.y * EDGE;
    let row_group = lid % 16u;
    let token_group = lid / 16u;
    // The sums of four rows, one vector for each of four tokens.
    var acc0 = vec4(0.0);
    var acc1 = vec4(0.0);
    var acc2 = vec4(0.0);
    var acc3 = vec4(0.0);
    for (var b = 0u; b < p.blocks; b++) {
        if lid < EDGE {
            // 64 invocations decode one row's block each.
            let block = min(first_row + lid, p.rows - 1u) * p.blocks + b;
            let w = load_block(block, b % BLOCKS_PER_SCALES, load_scales(block / BLOCKS_PER_SCALES));
            store_weights(0u, w[0], lid);
            store_weights(4u, w[1], lid);
            store_weights(8u, w[2], lid);
            store_weights(12u, w[3], lid);
            store_weights(16u, w[4], lid);
            store_weights(20u, w[5], lid);
            store_weights(24u, w[6], lid);
            store_weights(28u, w[7], lid);
        }
        // All invocations load x: 64 tokens of 8 vec4s, two per invocation. Adjacent invocations write
        // adjacent words.
        for (var i = lid; i < EDGE * 8u; i += 256u) {
            let token = i % EDGE;
            let c = 4u * (i / EDGE);
            let v = load_x(min(first_token + token, output_rows() - 1u), 32u * b + c);
            inputs[c][token] = v.x;
            inputs[c + 1u][token] = v.y;
            inputs[c + 2u][token] = v.z;
            inputs[c + 3u][token] = v.w;
        }
        workgroupBarrier();
        for (var c = 0u; c < 32u; c++) {
            let w = four_rows(c, 4u * row_group);
            let v = four_tokens(c, 4u * token_group);
            acc0 += w * v.x;
            acc1 += w * v.y;
            acc2 += w * v.z;
            acc3 += w * v.w;
        }
        workgroupBarrier();
    }
    let row = first_row + 4u * row_group;
    let token = first_token + 4u * token_group;
    store_rows(token, row, acc0);
    store_rows(token + 1u, row, acc1);
    store_rows(token + 2u, row, acc2);
    store_rows(token + 3u, row, acc3);
}

// Stores the weights of columns `c..c + 4` of a row of the tile.
fn store_weights(c: u32, w: vec4<f32>, row: u32) {
    weights[c][row] = w.x;
    weights[c + 1u][row] = w.y;
    weights[c + 2u][row] = w.z;
    weights[c + 3u][row] = w.w;
}

// The weights of rows `i..i + 4` in column `c` of the tile.
fn four_rows(c: u32, i: u32) -> vec4<f32> {
    return vec4(weights[c][i], weights[c][i + 1u], weights[c][i + 2u], weights[c][i + 3u]);
}

// The inputs of tokens `i..i + 4` in column `c` of the tile.
fn four_tokens(c: u32, i: u32) -> vec4<f32> {
    return vec4(inputs[c][i], inputs[c][i + 1u], inputs[c][i + 2u], inputs[c][i + 3u]);
}

// Stores the results of four rows of one token.
fn store_rows(t: u32, row: u32, v: vec4<f32>) {
    store(t, row, v.x);
    store(t, row + 1u, v.y);
    store(t, row + 2u, v.z);
    store(t, row + 3u, v.w);
}
