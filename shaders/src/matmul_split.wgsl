// out[t, out_offset + r] = dot(weight[r, :], x[t, :]) (+ bias[r]), for one or few tokens on a GPU.
//
// A workgroup computes ROWS rows of one token. Neighbouring invocations take neighbouring blocks, so
// that their loads of weights coalesce; each sums its blocks of all ROWS rows, which share the loads
// of x. Then the partial sums are added in two steps through workgroup memory. With `half_sums` they are
// halves there, those of two rows in a word: half the memory, and a half's precision and range.
import package::encoding::{load_scales, load_block, SUPER};
@if(half_sums) import package::unpack::half_at;
import package::matmul_io::{p, load_x_block, dot_block, store, weight_row, X_WIDTH};
import constants::{WG, ROWS};

const TILE = vec2<u32>(ROWS, 1u);
const COLS_MULTIPLE = X_WIDTH;
// Invocations that add up one row; ROWS divides WG.
const LANES: u32 = WG / ROWS;

@if(!half_sums) var<workgroup> partial: array<array<f32, WG>, ROWS>;
@if(half_sums) var<workgroup> partial: array<array<u32, WG>, ROWS / 2u>;

// The partial sum of a row.
@if(!half_sums)
fn partial_sum(row: u32, lane: u32) -> f32 {
    return partial[row][lane];
}

@if(half_sums)
fn partial_sum(row: u32, lane: u32) -> f32 {
    return half_at(partial[row / 2u][lane], row);
}

// What is past a half's range becomes its greatest number.
@if(half_sums)
fn halves(a: f32, b: f32) -> u32 {
    return pack2x16float(clamp(vec2(a, b), vec2(-65504.0), vec2(65504.0)));
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = (wid.x + wid.z * groups.x) * ROWS;
    let t = min(wid.y, p.tokens - 1u);
    var acc: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        acc[r] = 0.0;
    }
    for (var b = lid; b < p.blocks; b += WG) {
        let v = load_x_block(t, b);
        for (var r = 0u; r < ROWS; r++) {
            let block = weight_row(t, first_row + r) * p.blocks + b;
            acc[r] += dot_block(load_block(block, b % SUPER, load_scales(block / SUPER)), v);
        }
    }
    @if(!half_sums)
    for (var r = 0u; r < ROWS; r++) {
        partial[r][lid] = acc[r];
    }
    @if(half_sums)
    for (var r = 0u; r < ROWS; r += 2u) {
        partial[r / 2u][lid] = halves(acc[r], acc[r + 1u]);
    }
    workgroupBarrier();
    // LANES invocations a row add ROWS sums each, then one a row adds LANES.
    let row = lid / LANES;
    let lane = lid % LANES;
    var sum = 0.0;
    for (var i = lane; i < WG; i += LANES) {
        sum += partial_sum(row, i);
    }
    workgroupBarrier();
    @if(!half_sums) partial[row][lane] = sum;
    @if(half_sums) partial[row / 2u][(row & 1u) * LANES + lane] = halves(sum, sum);
    workgroupBarrier();
    if lid < ROWS {
        sum = 0.0;
        for (var i = 0u; i < LANES; i++) {
            @if(!half_sums) sum += partial[lid][i];
            @if(half_sums) sum += half_at(partial[lid / 2u][(lid & 1u) * LANES + i], 0u);
        }
        store(wid.y, first_row + lid, sum);
    }
}
