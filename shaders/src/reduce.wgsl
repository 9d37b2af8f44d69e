// Sums, means, maxima and minima over one axis of a tensor. A workgroup computes one element.
import package::workgroup_reduce::{workgroup_sum, workgroup_max};
import constants::WG;

/// `reduce`: `out[o, i]` is the sum, mean, maximum or minimum over `j` of `x[o, j, i]`.
/// Grid: `[outer * inner]`.
struct ReduceParams {
    /// Product of the dimensions before the axis.
    outer: u32,
    /// Size of the axis, at least 1.
    axis_size: u32,
    /// Product of the dimensions after the axis.
    inner: u32,
    /// One of [`REDUCE_SUM`], [`REDUCE_MEAN`], [`REDUCE_MAX`] and [`REDUCE_MIN`].
    kind: u32,
}

/// A [`ReduceParams::kind`]: the sum.
const REDUCE_SUM: u32 = 0u;
/// A [`ReduceParams::kind`]: the mean.
const REDUCE_MEAN: u32 = 1u;
/// A [`ReduceParams::kind`]: the maximum.
const REDUCE_MAX: u32 = 2u;
/// A [`ReduceParams::kind`]: the minimum.
const REDUCE_MIN: u32 = 3u;

@group(0) @binding(0) var<uniform> p: ReduceParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [outer, axis_size, inner]
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [outer, inner]

const TILE = vec2<u32>(1u, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = wid.x + wid.y * groups.x;
    if i >= p.outer * p.inner {
        return;
    }
    if p.axis_size == 0u {
        if lid == 0u {
            out[i] = 0.0;
        }
        return;
    }
    let base = (i / p.inner) * p.axis_size * p.inner + i % p.inner;
    if p.kind == REDUCE_SUM || p.kind == REDUCE_MEAN {
        var sum = 0.0;
        for (var j = lid; j < p.axis_size; j += WG) {
            sum += x[base + j * p.inner];
        }
        sum = workgroup_sum(sum, lid);
        if lid == 0u {
            out[i] = select(sum, sum / f32(p.axis_size), p.kind == REDUCE_MEAN);
        }
    } else {
        // A minimum is the negated maximum of the negated elements.
        let sign = select(1.0, -1.0, p.kind == REDUCE_MIN);
        var maximum = sign * x[base];
        for (var j = lid; j < p.axis_size; j += WG) {
            maximum = max(maximum, sign * x[base + j * p.inner]);
        }
        maximum = workgroup_max(maximum, lid);
        if lid == 0u {
            out[i] = sign * maximum;
        }
    }
}
