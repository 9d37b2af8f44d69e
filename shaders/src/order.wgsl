// A total order of floats as unsigned integers, and the greatest of a workgroup's.
import constants::WG;

const MAX_FLOAT: f32 = 3.40282346e38;

// `x` with NaN and minus infinity replaced by the least finite float, infinity by the greatest. By
// its bits, since a compiler may assume that there is no such thing.
fn finite(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let is_infinity = bits == 0x7f800000u;
    let is_odd = (bits & 0x7f800000u) == 0x7f800000u;
    return select(select(x, -MAX_FLOAT, is_odd), MAX_FLOAT, is_infinity);
}

// Grows with `x`; both zeros are one, NaN is the least. Never 0.
fn ordered_key(x: f32) -> u32 {
    // Adding zero turns minus zero into zero, but may be optimised away.
    let clean = finite(x);
    let bits = select(bitcast<u32>(clean), 0u, clean == 0.0);
    return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

struct Best {
    key: u32,
    id: u32,
}

fn better(a: Best, b: Best) -> Best {
    let second = b.key > a.key || (b.key == a.key && b.id < a.id);
    return Best(select(a.key, b.key, second), select(a.id, b.id, second));
}

var<workgroup> bests: array<Best, WG>;

// The best of every invocation's, for all of them: the greatest key, the lowest id of equals.
fn workgroup_best(own: Best, lid: u32) -> Best {
    workgroupBarrier();
    bests[lid] = own;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lid < half {
            bests[lid] = better(bests[lid], bests[lid + half]);
        }
        workgroupBarrier();
    }
    return bests[0];
}
