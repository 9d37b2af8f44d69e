// out[i, :] = x[indices[i], :].
import constants::WG;

struct GatherRowsParams {
    rows: u32,
    cols: u32,
}

@group(0) @binding(0) var<uniform> p: GatherRowsParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [any, cols]
@group(0) @binding(2) var<storage, read> indices: array<u32>; // [rows]
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [rows, cols]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.rows * p.cols {
        return;
    }
    let row = i / p.cols;
    out[i] = x[indices[row] * p.cols + i % p.cols];
}
