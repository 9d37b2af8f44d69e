// Reductions over a workgroup of WG invocations (a power of two), by a binary tree in workgroup memory.
import constants::WG;

var<workgroup> partials: array<f32, WG>;

// Returns the sum of `value` over the workgroup to every invocation. `lid` is the local index.
fn workgroup_sum(value: f32, lid: u32) -> f32 {
    // Waits until every invocation has read the result of an earlier reduction.
    workgroupBarrier();
    partials[lid] = value;
    workgroupBarrier();
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        if lid < stride {
            partials[lid] += partials[lid + stride];
        }
        workgroupBarrier();
    }
    return partials[0];
}

// Returns the maximum of `value` over the workgroup to every invocation.
fn workgroup_max(value: f32, lid: u32) -> f32 {
    workgroupBarrier();
    partials[lid] = value;
    workgroupBarrier();
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        if lid < stride {
            partials[lid] = max(partials[lid], partials[lid + stride]);
        }
        workgroupBarrier();
    }
    return partials[0];
}
