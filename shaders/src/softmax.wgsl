// Softmax over each row, less its maximum. A workgroup does one row.
import package::reduce::{workgroup_sum, workgroup_max};
import constants::WG;

struct RowsParams {
    rows: u32,
    cols: u32,
}

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
    // Finite, so that a row of minus infinities divides by zero only where its softmax is undefined.
    var greatest = -3.4e38;
    for (var c = lid; c < p.cols; c += WG) {
        greatest = max(greatest, x[base + c]);
    }
    greatest = workgroup_max(greatest, lid);
    var total = 0.0;
    for (var c = lid; c < p.cols; c += WG) {
        let e = exp(x[base + c] - greatest);
        out[base + c] = e;
        total += e;
    }
    total = workgroup_sum(total, lid);
    // Each invocation reads back only what it wrote itself.
    for (var c = lid; c < p.cols; c += WG) {
        out[base + c] /= total;
    }
}
