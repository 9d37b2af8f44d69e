// Sums and maxima over a workgroup of WG (a power of two) invocations, by halving.
import constants::WG;

var<workgroup> partial: array<f32, WG>;

// The sum of every invocation's `value`, for all of them. `lid` is the local index.
fn workgroup_sum(value: f32, lid: u32) -> f32 {
    // Readers of an earlier result are done.
    workgroupBarrier();
    partial[lid] = value;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lid < half {
            partial[lid] += partial[lid + half];
        }
        workgroupBarrier();
    }
    return partial[0];
}

// The greatest of every invocation's `value`, for all of them.
fn workgroup_max(value: f32, lid: u32) -> f32 {
    workgroupBarrier();
    partial[lid] = value;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lid < half {
            partial[lid] = max(partial[lid], partial[lid + half]);
        }
        workgroupBarrier();
    }
    return partial[0];
}
