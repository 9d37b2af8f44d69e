// Products with an encoded weight for many tokens in half precision, on GPUs: as `matmul_tiled`, with weights and x
// as halves, two products an instruction.
//
// An invocation sums the even and the odd columns of a block as halves: up to 16 products of a weight below 1 and an
// input below 2^11. It then adds both sums to its results in single precision, times the scale of the weights.
import package::encoding::{load_scales, load_part, BLOCKS_PER_SCALES};
@if(experts) import package::expert_pairs::{leads_group, find_group};
import package::half_inputs::{find_largest, input_scale, input_unscale};
import package::half_weights::{half_part, Octet, BLOCK_SCALES};
import package::matmul_io::{p, load_x, tile_row, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
import package::matmul_tile::{input_row, store_sums, Sums, ROW_STEP, TOKEN_STEP};
@if(lookup) import package::value_table::fill_table;
import constants::{WG, EDGE_ROWS, EDGE_TOKENS, ROWS, TOKENS};

@if(!experts && !gated) const TILE = vec2<u32>(EDGE_ROWS, EDGE_TOKENS);
@if(gated) const TILE = vec2<u32>(EDGE_ROWS / 2u, EDGE_TOKENS);
@if(experts) const TILE = vec2<u32>(EDGE_ROWS, 1u);
const COLS_MULTIPLE = X_WIDTH;
// An invocation copies this many octets of x in a step: a token has four.
const OCTETS: u32 = 4u * EDGE_TOKENS / WG;

// Octets 0 and 2 of a row come from the first part of its block, 1 and 3 from the second.
var<workgroup> weights: array<array<Octet, EDGE_ROWS>, 4>; // [column / 8, row]
var<workgroup> scales: array<array<f32, EDGE_ROWS>, BLOCK_SCALES>; // [part, row]
// [column / 8, token ^ (2 * (column / 8))]: invocations write adjacent columns of a token to different banks.
var<workgroup> inputs: array<array<Octet, EDGE_TOKENS>, 4>;

fn dot8(a: Octet, b: Octet, sum: vec2<f16>) -> vec2<f16> {
    let low = fma(a[0].zw, b[0].zw, fma(a[0].xy, b[0].xy, sum));
    return fma(a[1].zw, b[1].zw, fma(a[1].xy, b[1].xy, low));
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
    @if(lookup) { fill_table(lid); }
    // Ends with a barrier.
    find_largest(wid.y, lid);
    var x_scales: array<f32, OCTETS>;
    for (var k = 0u; k < OCTETS; k++) {
        x_scales[k] = input_scale((k * WG + lid) / 4u);
    }
    var acc: Sums;
    for (var i = 0u; i < ROWS * TOKENS; i++) {
        acc[i] = 0.0;
    }
    for (var b = 0u; b < p.blocks; b++) {
        for (var k = 0u; k < 2u * EDGE_ROWS / WG; k++) {
            let i = k * WG + lid;
            let row = i / 2u;
            let part = i % 2u;
            let block = tile_row(first_token, first_row, row, EDGE_ROWS) * p.blocks + b;
            let s = load_scales(block / BLOCKS_PER_SCALES);
            let w = half_part(load_part(2u * block + part, b % BLOCKS_PER_SCALES, part, s));
            weights[part][row] = w.octets[0];
            weights[2u + part][row] = w.octets[1];
            if part < BLOCK_SCALES {
                scales[part][row] = w.scale;
            }
        }
        for (var k = 0u; k < OCTETS; k++) {
            let i = k * WG + lid;
            let token = i / 4u;
            let o = i % 4u;
            let x_row = input_row(wid.y, token);
            let g = 8u * b + 2u * o;
            let low = x_scales[k] * load_x(x_row, g);
            let high = x_scales[k] * load_x(x_row, g + 1u);
            inputs[o][token ^ (2u * o)] = Octet(vec4<f16>(low), vec4<f16>(high));
        }
        workgroupBarrier();
        var sums: array<vec2<f16>, ROWS * TOKENS>;
        for (var part = 0u; part < 2u; part++) {
            if part < BLOCK_SCALES {
                for (var i = 0u; i < ROWS * TOKENS; i++) {
                    sums[i] = vec2<f16>(0.0h);
                }
            }
            for (var o = part; o < 4u; o += 2u) {
                var v: array<Octet, TOKENS>;
                for (var t = 0u; t < TOKENS; t++) {
                    v[t] = inputs[o][(token_lane ^ (2u * o)) + TOKEN_STEP * t];
                }
                for (var r = 0u; r < ROWS; r++) {
                    let w = weights[o][row_lane + ROW_STEP * r];
                    for (var t = 0u; t < TOKENS; t++) {
                        sums[ROWS * t + r] = dot8(w, v[t], sums[ROWS * t + r]);
                    }
                }
            }
            if part + BLOCK_SCALES >= 2u {
                for (var r = 0u; r < ROWS; r++) {
                    let s = scales[part % BLOCK_SCALES][row_lane + ROW_STEP * r];
                    for (var t = 0u; t < TOKENS; t++) {
                        let sum = sums[ROWS * t + r];
                        acc[ROWS * t + r] = fma(f32(sum.x), s, fma(f32(sum.y), s, acc[ROWS * t + r]));
                    }
                }
            }
        }
        workgroupBarrier();
    }
    for (var t = 0u; t < TOKENS; t++) {
        let unscale = input_unscale(token_lane + TOKEN_STEP * t);
        for (var r = 0u; r < ROWS; r++) {
            acc[ROWS * t + r] *= unscale;
        }
    }
    store_sums(wid.y, first_row, lid, acc);
}
