// Slices of a tensor along one axis, selected by index.
import constants::WG;

/// `gather`: `out[o, j, i] = x[o, indices[j], i]`. An index past the axis selects the last slice; the
/// host's twin returns an error. Grid: `[outer * index_count * inner]`.
struct GatherParams {
    /// Product of the dimensions before the axis.
    outer: u32,
    /// Size of the axis.
    axis_size: u32,
    /// Product of the dimensions after the axis.
    inner: u32,
    /// Number of indices.
    index_count: u32,
}

@group(0) @binding(0) var<uniform> p: GatherParams;
@group(0) @binding(1) var<storage, read> x: array<u32>; // [outer, axis_size, inner], of 4-byte elements
@group(0) @binding(2) var<storage, read> indices: array<u32>; // [index_count]
@group(0) @binding(3) var<storage, read_write> out: array<u32>; // [outer, index_count, inner]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.outer * p.index_count * p.inner {
        return;
    }
    if p.axis_size == 0u {
        out[i] = 0u;
        return;
    }
    let slice = i / p.inner;
    // Invalid index: clamped to the last slice.
    let index = min(indices[slice % p.index_count], p.axis_size - 1u);
    out[i] = x[((slice / p.index_count) * p.axis_size + index) * p.inner + i % p.inner];
}
