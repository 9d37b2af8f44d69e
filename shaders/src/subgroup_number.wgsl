// Numbering the subgroups of a workgroup: their sizes and their order are the driver's choice.

var<workgroup> counter: atomic<u32>;
var<workgroup> subgroups: u32;

// Returns the number of an invocation's subgroup, from 0. Has a barrier, before which it writes nothing but `counter`.
fn subgroup_number(lid: u32, lane: u32) -> u32 {
    if lid == 0u {
        atomicStore(&counter, 0u);
    }
    workgroupBarrier();
    var number = 0u;
    if lane == 0u {
        number = atomicAdd(&counter, 1u);
    }
    return subgroupBroadcastFirst(number);
}

// Returns the number of subgroups. There must be a barrier between `subgroup_number` and this; it ends with another one.
fn subgroup_count(lid: u32) -> u32 {
    if lid == 0u {
        subgroups = max(atomicLoad(&counter), 1u);
    }
    return workgroupUniformLoad(&subgroups);
}
