// out[t, out_offset + r] = dot(weight[r, :], x[t, :]) (+ bias[r]), for one or few tokens on a GPU.
//
// A workgroup computes ROWS rows of one token. Neighbouring invocations take neighbouring blocks, so
// that their loads of weights coalesce; each sums its blocks of all ROWS rows, which share the loads
// of x. Then the partial sums are added in two steps through workgroup memory.
import package::encoding::{load_scales, load_block, SUPER};
import package::matmul_io::{p, load_x_block, dot_block, store, weight_row, X_WIDTH};
import constants::{WG, ROWS};

const TILE = vec2<u32>(ROWS, 1u);
const COLS_MULTIPLE = X_WIDTH;
// Invocations that add up one row; ROWS divides WG.
const LANES: u32 = WG / ROWS;

var<workgroup> partial: array<array<f32, WG>, ROWS>;

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
    for (var r = 0u; r < ROWS; r++) {
        partial[r][lid] = acc[r];
    }
    workgroupBarrier();
    // LANES invocations a row add ROWS sums each, then one a row adds LANES.
    let row = lid / LANES;
    let lane = lid % LANES;
    var sum = 0.0;
    for (var i = lane; i < WG; i += LANES) {
        sum += partial[row][i];
    }
    workgroupBarrier();
    partial[row][lane] = sum;
    workgroupBarrier();
    if lid < ROWS {
        sum = 0.0;
        for (var i = 0u; i < LANES; i++) {
            sum += partial[lid][i];
        }
        store(wid.y, first_row + lid, sum);
    }
}
