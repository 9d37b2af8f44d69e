// out[o, i] = f over j of x[o, j, i]: sums, means, maxima and minima over one dimension. A workgroup
// makes one element.
import package::reduce::{workgroup_sum, workgroup_max};
import constants::WG;

struct ReductionParams {
    outer: u32,
    n: u32,
    inner: u32,
    kind: u32,
}

@group(0) @binding(0) var<uniform> p: ReductionParams;
@group(0) @binding(1) var<storage, read> x: array<f32>; // [outer, n, inner]
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [outer, inner]

const TILE = vec2<u32>(1u, 1u);
const MEAN: u32 = 1u;
const MAX: u32 = 2u;
const MIN: u32 = 3u;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let at = wid.x + wid.y * groups.x;
    if at >= p.outer * p.inner {
        return;
    }
    if p.n == 0u {
        if lid == 0u {
            out[at] = 0.0;
        }
        return;
    }
    let base = (at / p.inner) * p.n * p.inner + at % p.inner;
    if p.kind <= MEAN {
        var sum = 0.0;
        for (var j = lid; j < p.n; j += WG) {
            sum += x[base + j * p.inner];
        }
        sum = workgroup_sum(sum, lid);
        if lid == 0u {
            out[at] = select(sum, sum / f32(p.n), p.kind == MEAN);
        }
    } else {
        // A minimum is the maximum of what is negated.
        let sign = select(1.0, -1.0, p.kind == MIN);
        var greatest = sign * x[base];
        for (var j = lid; j < p.n; j += WG) {
            greatest = max(greatest, sign * x[base + j * p.inner]);
        }
        greatest = workgroup_max(greatest, lid);
        if lid == 0u {
            out[at] = sign * greatest;
        }
    }
}
