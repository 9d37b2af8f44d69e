// out[t, out_offset + r] = dot(weight[r, :], x[t, :]) (+ bias[r]), for many tokens on a GPU.
//
// A workgroup of 16 x 16 computes a tile of 64 rows by 64 tokens, an invocation 4 by 4 of it, in
// steps of one block (32 columns): the tile's weights are dequantised once into workgroup memory,
// 8 KiB, its x beside them, both transposed. Scalars, not vectors: writing one component may touch all.
import package::encoding::{load_scales, load_block, SUPER};
import package::matmul_io::{p, load_x, store, X_WIDTH};

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
    let row_quad = lid % 16u;
    let token_quad = lid / 16u;
    // Four rows of each of four tokens.
    var acc0 = vec4(0.0);
    var acc1 = vec4(0.0);
    var acc2 = vec4(0.0);
    var acc3 = vec4(0.0);
    for (var b = 0u; b < p.blocks; b++) {
        if lid < EDGE {
            // 64 invocations dequantise a block of one row each.
            let block = min(first_row + lid, p.rows - 1u) * p.blocks + b;
            let w = load_block(block, b % SUPER, load_scales(block / SUPER));
            put_weights(0u, w[0], lid);
            put_weights(4u, w[1], lid);
            put_weights(8u, w[2], lid);
            put_weights(12u, w[3], lid);
            put_weights(16u, w[4], lid);
            put_weights(20u, w[5], lid);
            put_weights(24u, w[6], lid);
            put_weights(28u, w[7], lid);
        }
        // All load x: 64 tokens of 8 vec4, two an invocation. Neighbours write neighbouring words.
        for (var i = lid; i < EDGE * 8u; i += 256u) {
            let token = i % EDGE;
            let c = 4u * (i / EDGE);
            let v = load_x(min(first_token + token, p.tokens - 1u), 32u * b + c);
            inputs[c][token] = v.x;
            inputs[c + 1u][token] = v.y;
            inputs[c + 2u][token] = v.z;
            inputs[c + 3u][token] = v.w;
        }
        workgroupBarrier();
        for (var c = 0u; c < 32u; c++) {
            let w = four_rows(c, 4u * row_quad);
            let v = four_tokens(c, 4u * token_quad);
            acc0 += w * v.x;
            acc1 += w * v.y;
            acc2 += w * v.z;
            acc3 += w * v.w;
        }
        workgroupBarrier();
    }
    let row = first_row + 4u * row_quad;
    let token = first_token + 4u * token_quad;
    store_rows(token, row, acc0);
    store_rows(token + 1u, row, acc1);
    store_rows(token + 2u, row, acc2);
    store_rows(token + 3u, row, acc3);
}

fn put_weights(c: u32, w: vec4<f32>, row: u32) {
    weights[c][row] = w.x;
    weights[c + 1u][row] = w.y;
    weights[c + 2u][row] = w.z;
    weights[c + 3u][row] = w.w;
}

fn four_rows(c: u32, i: u32) -> vec4<f32> {
    return vec4(weights[c][i], weights[c][i + 1u], weights[c][i + 2u], weights[c][i + 3u]);
}

fn four_tokens(c: u32, i: u32) -> vec4<f32> {
    return vec4(inputs[c][i], inputs[c][i + 1u], inputs[c][i + 2u], inputs[c][i + 3u]);
}

fn store_rows(t: u32, row: u32, v: vec4<f32>) {
    store(t, row, v.x);
    store(t, row + 1u, v.y);
    store(t, row + 2u, v.z);
    store(t, row + 3u, v.w);
}
