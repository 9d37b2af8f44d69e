// The k largest elements of each row and their indices, in descending order, the lower index first
// among equals; NaN counts as the lowest value. A workgroup computes one row.
import package::order::{ordered_key, workgroup_best, Candidate};
import constants::WG;

/// `top_k`: the `k` largest elements of each row in descending order, the lower index first among
/// equals. NaN counts as the lowest value. Grid: `[rows]`.
struct TopKParams {
    /// Number of rows.
    rows: u32,
    /// Elements in a row.
    cols: u32,
    /// Elements to return for each row, at most `cols`.
    k: u32,
}

@group(0) @binding(0) var<uniform> p: TopKParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [rows, cols]
@group(0) @binding(2) var<storage, read_write> values: array<f32>; // [rows, k]
@group(0) @binding(3) var<storage, read_write> ids: array<u32>; // [rows, k]

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
    var last = Candidate(0xffffffffu, 0u);
    for (var j = 0u; j < p.k; j++) {
        // The best element that comes after `last` in descending order.
        var best = Candidate(0u, min(lid, p.cols - 1u));
        for (var c = lid; c < p.cols; c += WG) {
            let key = ordered_key(x[base + c]);
            let is_after = j == 0u || key < last.key || (key == last.key && c > last.id);
            if is_after && key > best.key {
                best = Candidate(key, c);
            }
        }
        last = workgroup_best(best, lid);
        if lid == 0u {
            values[row * p.k + j] = x[base + last.id];
            ids[row * p.k + j] = last.id;
        }
    }
}
