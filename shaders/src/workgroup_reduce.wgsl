// Reductions over a workgroup of WG invocations, a multiple of 16.
//
// Without subgroups, 16 invocations first reduce WG / 16 numbers each, then every invocation reduces their 16
// results. With `subgroups`, each subgroup reduces its own numbers, then those of all subgroups: no subgroup
// size is assumed, and an invocation finds its place among those of its subgroup by counting them.
//
// Each reduction takes one of two slots of workgroup memory. With `subgroups`, a kernel that reduces twice takes them in
// turn and needs no barrier in between; a third reduction would overwrite what a slower invocation still reads, so
// `workgroup_sum` and `workgroup_max`, which can be called any number of times, begin with a barrier. Without, the two
// barriers of a reduction keep its writes behind all reads of the one before.
import constants::WG;

@if(!subgroups) const LANES: u32 = 16u;

var<workgroup> partials: array<f32, 2u * WG>;
@if(!subgroups) var<workgroup> lane_results: array<f32, 2u * LANES>;

// Returns the sum of `value` over the workgroup to every invocation. `lid` is the local index.
fn workgroup_sum(value: f32, lid: u32) -> f32 {
    @if(subgroups) { workgroupBarrier(); }
    return workgroup_sum_in(0u, value, lid);
}

// Returns the maximum of `value` over the workgroup to every invocation.
fn workgroup_max(value: f32, lid: u32) -> f32 {
    @if(subgroups) { workgroupBarrier(); }
    return workgroup_max_in(0u, value, lid);
}

// `workgroup_sum` in a slot, 0 or 1, that no invocation reads any more.
@if(subgroups)
fn workgroup_sum_in(slot: u32, value: f32, lid: u32) -> f32 {
    let own = subgroupAdd(value);
    let lane = subgroupExclusiveAdd(1u);
    let lanes = subgroupAdd(1u);
    partials[slot * WG + lid] = select(0.0, own, lane == 0u);
    workgroupBarrier();
    var sum = 0.0;
    for (var i = lane; i < WG; i += lanes) {
        sum += partials[slot * WG + i];
    }
    return subgroupAdd(sum);
}

@if(!subgroups)
fn workgroup_sum_in(slot: u32, value: f32, lid: u32) -> f32 {
    partials[slot * WG + lid] = value;
    workgroupBarrier();
    if lid < LANES {
        var sum = 0.0;
        for (var i = lid; i < WG; i += LANES) {
            sum += partials[slot * WG + i];
        }
        lane_results[slot * LANES + lid] = sum;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < LANES; i++) {
        sum += lane_results[slot * LANES + i];
    }
    return sum;
}

// `workgroup_max` in a slot, 0 or 1, that no invocation reads any more.
@if(subgroups)
fn workgroup_max_in(slot: u32, value: f32, lid: u32) -> f32 {
    let lane = subgroupExclusiveAdd(1u);
    let lanes = subgroupAdd(1u);
    partials[slot * WG + lid] = subgroupMax(value);
    workgroupBarrier();
    var maximum = value;
    for (var i = lane; i < WG; i += lanes) {
        maximum = max(maximum, partials[slot * WG + i]);
    }
    return subgroupMax(maximum);
}

@if(!subgroups)
fn workgroup_max_in(slot: u32, value: f32, lid: u32) -> f32 {
    partials[slot * WG + lid] = value;
    workgroupBarrier();
    if lid < LANES {
        var maximum = value;
        for (var i = lid; i < WG; i += LANES) {
            maximum = max(maximum, partials[slot * WG + i]);
        }
        lane_results[slot * LANES + lid] = maximum;
    }
    workgroupBarrier();
    var maximum = value;
    for (var i = 0u; i < LANES; i++) {
        maximum = max(maximum, lane_results[slot * LANES + i]);
    }
    return maximum;
}
