// Copies a tensor, and replaces slices along one axis with updates or adds the updates to them. Each
// invocation computes one element of the result and searches the indices for its updates, so that no
// two invocations write the same element.
import constants::WG;

/// `scatter`: `out = x`, except that `out[o, indices[j], i]` is `updates[o, j, i]` or, if `accumulate`
/// is set, the sum of both. Of updates with equal indices, the last one is used, or all are added in
/// order. An index past the axis is ignored. Grid: `[outer * axis_size * inner]`.
struct ScatterParams {
    /// Product of the dimensions before the axis.
    outer: u32,
    /// Size of the axis.
    axis_size: u32,
    /// Product of the dimensions after the axis.
    inner: u32,
    /// Number of indices.
    index_count: u32,
    /// 1 to add the updates, 0 to replace the elements by them.
    accumulate: u32,
}

@group(0) @binding(0) var<uniform> p: ScatterParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [outer, axis_size, inner]
@group(0) @binding(2) var<storage, read> indices: array<u32>; // [index_count]
@group(0) @binding(3) var<storage, read> updates: array<f32>; // [outer, index_count, inner]
@group(0) @binding(4) var<storage, read_write> out: array<f32>; // [outer, axis_size, inner]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.outer * p.axis_size * p.inner {
        return;
    }
    let slice = i / p.inner;
    let first_update = (slice / p.axis_size) * p.index_count;
    var value = x[i];
    for (var j = 0u; j < p.index_count; j++) {
        // An invalid index equals no slice, so its update is ignored.
        if indices[j] == slice % p.axis_size {
            let update = updates[(first_update + j) * p.inner + i % p.inner];
            value = select(update, value + update, p.accumulate != 0u);
        }
    }
    out[i] = value;
}
