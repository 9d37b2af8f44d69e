// Products of blocks of weights with signed bytes. Those of the bytes are exact; zero points and offsets are multiplied
// with the sums of x.
import package::encoding::{load_packed, Scales, SCALES, PACKED_ZERO, HAS_OFFSETS};
import package::int8_inputs::{load_factors, half_sum, dot_words};
@if(!subgroups) import package::int8_inputs::load_half;
@if(subgroups) import package::int8_inputs::load_word;
import package::unpack::PackedPart;

// A block of x.
struct Inputs {
    // The words of both halves.
    x: array<vec4<u32>, 2>,
    scale: f32,
    // The sums of both halves.
    sums: vec2<i32>,
}

// A block of weights: its even and its odd part.
struct Weights {
    even: PackedPart,
    odd: PackedPart,
}

@if(!subgroups)
fn load_inputs(t: u32, b: u32) -> Inputs {
    return inputs(array(load_half(t, b, 0u), load_half(t, b, 1u)), load_factors(t, b));
}

// The same in eight invocations of a subgroup, of which `lane` is the number of this one.
@if(subgroups)
fn load_inputs_shared(t: u32, b: u32, lane: u32) -> Inputs {
    let word = load_word(t, b, lane);
    let low = vec4(
        subgroupBroadcast(word, 0u), subgroupBroadcast(word, 1u), subgroupBroadcast(word, 2u), subgroupBroadcast(word, 3u),
    );
    let high = vec4(
        subgroupBroadcast(word, 4u), subgroupBroadcast(word, 5u), subgroupBroadcast(word, 6u), subgroupBroadcast(word, 7u),
    );
    return inputs(array(low, high), load_factors(t, b));
}

fn inputs(x: array<vec4<u32>, 2>, factors: vec2<u32>) -> Inputs {
    return Inputs(x, bitcast<f32>(factors.x), vec2(half_sum(factors, 0u), half_sum(factors, 1u)));
}

// Block `block` of a weight, which is block `sub` of those that share the scales `s`.
fn load_weights(block: u32, sub: u32, s: Scales) -> Weights {
    let part = 2u * block;
    return Weights(load_packed(part, block, sub, 0u, s), load_packed(part + 1u, block, sub, 1u, s));
}

fn dot_half(even: vec2<u32>, odd: vec2<u32>, x: vec4<u32>, sum: i32) -> i32 {
    return dot_words(even, x.xy, dot_words(odd, x.zw, sum));
}

// The product of a block of weights and one of x.
fn dot_packed(w: Weights, v: Inputs) -> f32 {
    // Both parts have the same scales and offsets.
    let scale = w.even.scale;
    let offset = w.even.offset;
    if SCALES == 1u {
        let sum = v.sums.x + v.sums.y;
        let low = dot_half(w.even.q.xy, w.odd.q.xy, v.x[0], -PACKED_ZERO * sum);
        let all = scale.x * f32(dot_half(w.even.q.zw, w.odd.q.zw, v.x[1], low));
        if HAS_OFFSETS {
            return v.scale * (all + offset.x * f32(sum));
        }
        return v.scale * all;
    }
    let low = scale.x * f32(dot_half(w.even.q.xy, w.odd.q.xy, v.x[0], -PACKED_ZERO * v.sums.x));
    let high = scale.y * f32(dot_half(w.even.q.zw, w.odd.q.zw, v.x[1], -PACKED_ZERO * v.sums.y));
    if HAS_OFFSETS {
        return v.scale * (low + high + offset.x * f32(v.sums.x) + offset.y * f32(v.sums.y));
    }
    return v.scale * (low + high);
}
