// out = x, but for parts along one dimension that are replaced by updates or have them added:
// out[o, indices[j], i] = updates[o, j, i]. Of equal indices the last one counts, or all are added in
// their order. Each invocation looks for its own updates: no two write the same element.
import constants::WG;

struct ScatterParams {
    outer: u32,
    n: u32,
    inner: u32,
    count: u32,
    adds: u32,
}

@group(0) @binding(0) var<uniform> p: ScatterParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [outer, n, inner]
@group(0) @binding(2) var<storage, read> indices: array<u32>; // [count]
@group(0) @binding(3) var<storage, read> updates: array<f32>; // [outer, count, inner]
@group(0) @binding(4) var<storage, read_write> out: array<f32>; // [outer, n, inner]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.outer * p.n * p.inner {
        return;
    }
    let part = i / p.inner;
    let base = (part / p.n) * p.count;
    var value = x[i];
    for (var j = 0u; j < p.count; j++) {
        if indices[j] == part % p.n {
            let update = updates[(base + j) * p.inner + i % p.inner];
            value = select(update, value + update, p.adds != 0u);
        }
    }
    out[i] = value;
}
