// Products of parts of blocks of weights with signed bytes. Zero points and offsets are multiplied with the sums of x;
// of the two parts of a block, each takes those of one half of its columns.
import package::encoding::{load_scales, load_packed, BLOCKS_PER_SCALES, SCALES, PACKED_ZERO, HAS_OFFSETS};
import package::int8_inputs::{load_part_words, load_factors, half_sum, dot_words};
import package::unpack::PackedPart;

alias Weights = PackedPart;

// The bytes of x that a part is multiplied with.
struct Inputs {
    x: vec4<u32>,
    // The scale of x.
    scale: f32,
    // What the sums of products of the first two groups and of the last two begin with, to take off zero points.
    first: vec2<i32>,
    // The sums of x that belong to the offsets.
    sums: vec2<f32>,
}

fn load_inputs(t: u32, part: u32, half: u32) -> Inputs {
    let factors = load_factors(t, part / 2u);
    let scale = bitcast<f32>(factors.x);
    let sum = half_sum(factors, half);
    var sums = vec2(sum, 0);
    if SCALES == 2u {
        sums = select(sums, sums.yx, half == 1u);
    }
    return Inputs(load_part_words(t, part, half), scale, -PACKED_ZERO * sums, scale * vec2<f32>(sums));
}

fn load_weights(part: u32, sub: u32, half: u32) -> Weights {
    return load_packed(part, sub, half, load_scales(part / (2u * BLOCKS_PER_SCALES)));
}

// Adds the product of a part and its inputs to `sum`.
fn dot_part(w: Weights, v: Inputs, sum: f32) -> f32 {
    if SCALES == 1u {
        let all = f32(dot_words(w.q.xy, v.x.xy, dot_words(w.q.zw, v.x.zw, v.first.x)));
        let scaled = fma(w.scale.x * v.scale, all, sum);
        if HAS_OFFSETS {
            return fma(w.offset.x, v.sums.x, scaled);
        }
        return scaled;
    }
    let low = f32(dot_words(w.q.xy, v.x.xy, v.first.x));
    let high = f32(dot_words(w.q.zw, v.x.zw, v.first.y));
    let scaled = fma(v.scale, fma(w.scale.x, low, w.scale.y * high), sum);
    if HAS_OFFSETS {
        return fma(w.offset.x, v.sums.x, fma(w.offset.y, v.sums.y, scaled));
    }
    return scaled;
}
