// A total order of floats as unsigned integers, and the maximum of a workgroup in that order.
import constants::WG;

const MAX_FLOAT: f32 = 3.40282346e38;

// Replaces NaN and minus infinity with the lowest finite float, and infinity with the highest. Tests the
// bits, because a compiler may assume that NaN and infinities do not occur.
fn to_finite(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let is_infinity = bits == 0x7f800000u;
    let is_not_finite = (bits & 0x7f800000u) == 0x7f800000u;
    return select(select(x, -MAX_FLOAT, is_not_finite), MAX_FLOAT, is_infinity);
}

// Returns a key that increases with `x` and is never 0. Both zeros have the same key, and NaN has the
// lowest.
fn ordered_key(x: f32) -> u32 {
    // Adding zero would also turn minus zero into zero, but a compiler may remove the addition.
    let clean = to_finite(x);
    let bits = select(bitcast<u32>(clean), 0u, clean == 0.0);
    return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

// An element's ordered key and index.
struct Candidate {
    key: u32,
    id: u32,
}

// Returns the candidate with the larger key; for equal keys, the one with the lower id.
fn better_candidate(a: Candidate, b: Candidate) -> Candidate {
    let takes_b = b.key > a.key || (b.key == a.key && b.id < a.id);
    return Candidate(select(a.key, b.key, takes_b), select(a.id, b.id, takes_b));
}

// Invocations that each find the best of WG / 16 candidates; WG is a multiple of 16.
const CANDIDATE_LANES: u32 = 16u;

var<workgroup> candidates: array<Candidate, WG>;
var<workgroup> lane_candidates: array<Candidate, CANDIDATE_LANES>;

// Returns the best of the workgroup's candidates to every invocation. Its two barriers keep the writes of one call behind
// all reads of the one before.
fn workgroup_best(own: Candidate, lid: u32) -> Candidate {
    candidates[lid] = own;
    workgroupBarrier();
    if lid < CANDIDATE_LANES {
        var best = own;
        for (var i = lid + CANDIDATE_LANES; i < WG; i += CANDIDATE_LANES) {
            best = better_candidate(best, candidates[i]);
        }
        lane_candidates[lid] = best;
    }
    workgroupBarrier();
    var best = lane_candidates[0];
    for (var i = 1u; i < CANDIDATE_LANES; i++) {
        best = better_candidate(best, lane_candidates[i]);
    }
    return best;
}
