// out[o, j, i] = x[o, indices[j], i]: parts of x along one dimension, by their indices. One that is
// too great is the last; of nothing there are zeros.
import constants::WG;

struct GatherParams {
    outer: u32,
    n: u32,
    inner: u32,
    count: u32,
}

@group(0) @binding(0) var<uniform> p: GatherParams;
@group(0) @binding(1) var<storage, read> x: array<u32>; // [outer, n, inner]
@group(0) @binding(2) var<storage, read> indices: array<u32>; // [count]
@group(0) @binding(3) var<storage, read_write> out: array<u32>; // [outer, count, inner]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.outer * p.count * p.inner {
        return;
    }
    if p.n == 0u {
        out[i] = 0u;
        return;
    }
    let part = i / p.inner;
    let index = min(indices[part % p.count], p.n - 1u);
    out[i] = x[((part / p.count) * p.n + index) * p.inner + i % p.inner];
}
