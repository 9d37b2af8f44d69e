// Groups the pairs of `matmul_experts` that share an expert, so that each weight is read once for a group.
//
// A workgroup is dispatched for every pair. Counting the earlier pairs of its expert tells a pair whether it
// leads a group: those that have a multiple of GROUP before them do, and their workgroups compute the pair and
// the GROUP - 1 next ones of the expert. The workgroups of other pairs return.
import package::matmul_io::{p, expert};
import constants::{WG, EDGE_TOKENS};

// The most pairs of a group.
const GROUP: u32 = EDGE_TOKENS;
// Stands for a place in a group without a pair; past all pairs.
const NO_PAIR: u32 = 0xffffffffu;

var<workgroup> earlier: atomic<u32>;
var<workgroup> place: u32;
var<workgroup> counts: array<u32, WG>;
var<workgroup> group: array<u32, GROUP>;

// Returns whether a pair leads a group. Uniform, as `pair` must be.
fn leads_group(pair: u32, lid: u32) -> bool {
    if p.in_turn != 0u {
        return pair / p.experts % GROUP == 0u;
    }
    if lid == 0u {
        atomicStore(&earlier, 0u);
    }
    workgroupBarrier();
    var count = 0u;
    for (var other = lid; other < pair; other += WG) {
        count += u32(expert(other) == expert(pair));
    }
    atomicAdd(&earlier, count);
    workgroupBarrier();
    if lid == 0u {
        place = atomicLoad(&earlier) % GROUP;
    }
    return workgroupUniformLoad(&place) == 0u;
}

// Lists the pairs of the group that `leader` leads, in order.
fn find_group(leader: u32, lid: u32) {
    for (var i = lid; i < GROUP; i += WG) {
        group[i] = NO_PAIR;
        let pair = leader + i * p.experts;
        if p.in_turn != 0u && pair < p.pairs {
            group[i] = pair;
        }
    }
    if p.in_turn != 0u {
        workgroupBarrier();
        return;
    }
    // Each invocation searches a range of pairs, and its first find follows those of the ranges before.
    let range = (p.pairs - leader + WG - 1u) / WG;
    let first = leader + lid * range;
    let end = min(first + range, p.pairs);
    var count = 0u;
    for (var pair = first; pair < end; pair++) {
        count += u32(expert(pair) == expert(leader));
    }
    counts[lid] = count;
    workgroupBarrier();
    var next = 0u;
    for (var i = 0u; i < lid; i++) {
        next += counts[i];
    }
    for (var pair = first; pair < end && next < GROUP; pair++) {
        if expert(pair) == expert(leader) {
            group[next] = pair;
            next++;
        }
    }
    workgroupBarrier();
}
