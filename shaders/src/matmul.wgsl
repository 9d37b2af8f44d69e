// out[t, out_offset + r] = dot(weight[r, :], x[t, :]) (+ bias[r]).
//
// An invocation computes ROWS rows of TOKENS tokens in registers: each load of x serves ROWS rows,
// each load of a weight TOKENS tokens. No workgroup memory and no barriers, so that a software
// adapter, where these and loads are what costs, does well.
import package::encoding::{load_scales, load_block, Scales, SUPER};
import package::unpack::Block;
import constants::{WG, ROWS, TOKENS};

struct MatmulParams {
    tokens: u32,
    rows: u32,
    cols: u32,
    blocks: u32,
    out_stride: u32,
    out_offset: u32,
    bias_offset: u32,
    has_bias: u32,
}

@group(0) @binding(0) var<uniform> p: MatmulParams;
@if(scalar) @group(0) @binding(1) var<storage, read> x: array<f32>; // [tokens, cols]
@if(!scalar) @group(0) @binding(1) var<storage, read> x: array<vec4<f32>>; // [tokens, cols / 4]
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [tokens, out_stride]
@group(0) @binding(3) var<storage, read> bias: array<f32>; // [>= rows]

const TILE = vec2<u32>(WG * ROWS, TOKENS);
@if(!scalar) const COLS_MULTIPLE = 4u;
@if(scalar) const COLS_MULTIPLE = 1u;

// Four elements of x from column `c`; zero past the row's end.
@if(scalar)
fn load_x(t: u32, c: u32) -> vec4<f32> {
    let at = vec4(c) + vec4(0u, 1u, 2u, 3u);
    let i = vec4(t * p.cols) + min(at, vec4(p.cols - 1u));
    return select(vec4(0.0), vec4(x[i.x], x[i.y], x[i.z], x[i.w]), at < vec4(p.cols));
}

@if(!scalar)
fn load_x(t: u32, c: u32) -> vec4<f32> {
    let v = x[(t * p.cols + min(c, p.cols - 4u)) / 4u];
    return select(vec4(0.0), v, c < p.cols);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = ((wid.x + wid.z * groups.x) * WG + lid) * ROWS;
    let first_token = wid.y * TOKENS;
    if first_row >= p.rows || first_token >= p.tokens {
        return;
    }
    var acc: array<array<f32, TOKENS>, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        for (var t = 0u; t < TOKENS; t++) {
            acc[r][t] = 0.0;
        }
    }
    for (var b = 0u; b < p.blocks; b++) {
        for (var r = 0u; r < ROWS; r++) {
            let block = min(first_row + r, p.rows - 1u) * p.blocks + b;
            let w = load_block(block, b % SUPER, load_scales(block / SUPER));
            for (var t = 0u; t < TOKENS; t++) {
                let token = min(first_token + t, p.tokens - 1u);
                let c = 32u * b;
                acc[r][t] += dot(w[0], load_x(token, c)) + dot(w[1], load_x(token, c + 4u))
                    + dot(w[2], load_x(token, c + 8u)) + dot(w[3], load_x(token, c + 12u))
                    + dot(w[4], load_x(token, c + 16u)) + dot(w[5], load_x(token, c + 20u))
                    + dot(w[6], load_x(token, c + 24u)) + dot(w[7], load_x(token, c + 28u));
            }
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        let row = first_row + r;
        if row >= p.rows {
            break;
        }
        var add = 0.0;
        if p.has_bias != 0u {
            add = bias[p.bias_offset + row];
        }
        for (var t = 0u; t < TOKENS; t++) {
            let token = first_token + t;
            if token < p.tokens {
                out[token * p.out_stride + p.out_offset + row] = acc[r][t] + add;
            }
        }
    }
}
