// Softmax of each row, with the row's maximum subtracted first. A workgroup computes one row.
import package::row_params::RowsParams;
import package::workgroup_reduce::{workgroup_sum, workgroup_max};
import constants::WG;

@group(0) @binding(0) var<uniform> p: RowsParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [rows, cols]
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [rows, cols]

const TILE = vec2<u32>(1u, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let row = wid.x + wid.y * groups.x;
    if row >= p.rows {
        return;
    }
    let base = row * p.cols;
    // Starts at a finite number, so that a row of minus infinities gives 0 / 0 rather than inf - inf.
    var row_max = -3.4e38;
    for (var c = lid; c < p.cols; c += WG) {
        row_max = max(row_max, x[base + c]);
    }
    row_max = workgroup_max(row_max, lid);
    var total = 0.0;
    for (var c = lid; c < p.cols; c += WG) {
        let e = exp(x[base + c] - row_max);
        out[base + c] = e;
        total += e;
    }
    total = workgroup_sum(total, lid);
    // Each invocation reads only elements that it wrote itself, so no barrier is needed.
    for (var c = lid; c < p.cols; c += WG) {
        out[base + c] /= total;
    }
}
