// The index of each row's largest element, the lowest index among equals; NaN counts as the lowest
// value. A workgroup computes one row.
import package::order::{ordered_key, workgroup_best, Candidate};
import package::row_params::RowsParams;
import constants::WG;

@group(0) @binding(0) var<uniform> p: RowsParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [rows, cols]
@group(0) @binding(2) var<storage, read_write> out: array<u32>; // [rows]

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
    var best = Candidate(0u, min(lid, p.cols - 1u));
    for (var c = lid; c < p.cols; c += WG) {
        let key = ordered_key(x[row * p.cols + c]);
        if key > best.key {
            best = Candidate(key, c);
        }
    }
    best = workgroup_best(best, lid);
    if lid == 0u {
        out[row] = best.id;
    }
}
