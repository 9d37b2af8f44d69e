// Products with an encoded weight for one or few tokens, on GPUs.
//
// A workgroup computes ROWS rows of one token. Adjacent invocations read adjacent blocks, so that their
// loads of weights coalesce. Each sums its blocks of all ROWS rows, which share the loads of x. The
// partial sums are then added through workgroup memory in two steps. With `f16_partials` they are stored
// there in half precision, those of two rows in one word, which halves the memory at the accuracy and
// range of half precision.
import package::encoding::{load_scales, load_block, BLOCKS_PER_SCALES};
@if(f16_partials) import package::unpack::half_at;
import package::matmul_io::{p, output_rows, load_x_block, dot_block, store, weight_row, X_WIDTH};
import constants::{WG, ROWS};

const TILE = vec2<u32>(ROWS, 1u);
const COLS_MULTIPLE = X_WIDTH;
// Invocations that add up the partial sums of one row; ROWS divides WG.
const LANES: u32 = WG / ROWS;

@if(!f16_partials) var<workgroup> partials: array<array<f32, WG>, ROWS>;
@if(f16_partials) var<workgroup> partials: array<array<u32, WG>, ROWS / 2u>;

// The partial sum of a row by one invocation.
@if(!f16_partials)
fn partial_sum(row: u32, lane: u32) -> f32 {
    return partials[row][lane];
}

@if(f16_partials)
fn partial_sum(row: u32, lane: u32) -> f32 {
    return half_at(partials[row / 2u][lane], row);
}

// Packs two numbers in half precision, clamped to its finite range.
@if(f16_partials)
fn pack_halves(a: f32, b: f32) -> u32 {
    return pack2x16float(clamp(vec2(a, b), vec2(-65504.0), vec2(65504.0)));
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = (wid.x + wid.z * groups.x) * ROWS;
    let t = min(wid.y, output_rows() - 1u);
    var acc: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        acc[r] = 0.0;
    }
    for (var b = lid; b < p.blocks; b += WG) {
        let v = load_x_block(t, b);
        for (var r = 0u; r < ROWS; r++) {
            let block = weight_row(t, first_row + r) * p.blocks + b;
            let scales = load_scales(block / BLOCKS_PER_SCALES);
            acc[r] += dot_block(load_block(block, b % BLOCKS_PER_SCALES, scales), v);
        }
    }
    @if(!f16_partials)
    for (var r = 0u; r < ROWS; r++) {
        partials[r][lid] = acc[r];
    }
    @if(f16_partials)
    for (var r = 0u; r < ROWS; r += 2u) {
        partials[r / 2u][lid] = pack_halves(acc[r], acc[r + 1u]);
    }
    workgroupBarrier();
    // LANES invocations for each row add ROWS partial sums each, then one for each row adds LANES.
    let row = lid / LANES;
    let lane = lid % LANES;
    var sum = 0.0;
    for (var i = lane; i < WG; i += LANES) {
        sum += partial_sum(row, i);
    }
    workgroupBarrier();
    @if(!f16_partials) partials[row][lane] = sum;
    @if(f16_partials) partials[row / 2u][(row & 1u) * LANES + lane] = pack_halves(sum, sum);
    workgroupBarrier();
    if lid < ROWS {
        sum = 0.0;
        for (var i = 0u; i < LANES; i++) {
            @if(!f16_partials) sum += partials[lid][i];
            @if(f16_partials) sum += half_at(partials[lid / 2u][(lid & 1u) * LANES + i], 0u);
        }
        store(wid.y, first_row + lid, sum);
    }
}
