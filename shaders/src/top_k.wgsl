// The k greatest elements of each row and their indices, the greatest first, the lowest index of
// equals first; NaN counts as the least. A workgroup does one row.
import package::order::{ordered_key, workgroup_best, Best};
import constants::WG;

struct TopKParams {
    rows: u32,
    cols: u32,
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
    var last = Best(0xffffffffu, 0u);
    for (var j = 0u; j < p.k; j++) {
        // The best of those that come after the last one.
        var best = Best(0u, min(lid, p.cols - 1u));
        for (var c = lid; c < p.cols; c += WG) {
            let key = ordered_key(x[base + c]);
            let after = j == 0u || key < last.key || (key == last.key && c > last.id);
            if after && key > best.key {
                best = Best(key, c);
            }
        }
        last = workgroup_best(best, lid);
        if lid == 0u {
            values[row * p.k + j] = x[base + last.id];
            ids[row * p.k + j] = last.id;
        }
    }
}
