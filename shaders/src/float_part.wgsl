// Products of parts of blocks of weights with floats.
import package::encoding::{load_scales, load_part, BLOCKS_PER_SCALES, SCALES, ZERO, HAS_OFFSETS};
import package::matmul_io::load_x;
import package::unpack::Part;

alias Weights = Part;

// The elements of x that a part is multiplied with.
struct Inputs {
    x: array<vec4<f32>, 4>,
    // The sum of the first two groups, and that of the last two.
    sums: vec2<f32>,
}

fn sum4(v: vec4<f32>) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

// The elements of x for part `part` of a row of weights.
fn load_inputs(t: u32, part: u32, half: u32) -> Inputs {
    let g = 4u * part - 2u * half;
    let x = array(load_x(t, g), load_x(t, g + 1u), load_x(t, g + 4u), load_x(t, g + 5u));
    return Inputs(x, vec2(sum4(x[0] + x[1]), sum4(x[2] + x[3])));
}

fn load_weights(part: u32, sub: u32, half: u32) -> Weights {
    return load_part(part, sub, half, load_scales(part / (2u * BLOCKS_PER_SCALES)));
}

fn dot4(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, sum))));
}

// Adds the product of a part and its inputs to `sum`. The zero point is taken off the sums of products.
fn dot_part(w: Weights, v: Inputs, sum: f32) -> f32 {
    if SCALES == 1u {
        let all = v.sums.x + v.sums.y;
        let high = dot4(w.q[2], v.x[2], dot4(w.q[3], v.x[3], -ZERO * all));
        let scaled = fma(w.scale.x, dot4(w.q[0], v.x[0], dot4(w.q[1], v.x[1], high)), sum);
        if HAS_OFFSETS {
            return fma(w.offset.x, all, scaled);
        }
        return scaled;
    }
    let zero = -ZERO * v.sums;
    let high = dot4(w.q[2], v.x[2], dot4(w.q[3], v.x[3], zero.y));
    let low = dot4(w.q[0], v.x[0], dot4(w.q[1], v.x[1], zero.x));
    let scaled = fma(w.scale.y, high, fma(w.scale.x, low, sum));
    if HAS_OFFSETS {
        return fma(w.offset.x, v.sums.x, fma(w.offset.y, v.sums.y, scaled));
    }
    return scaled;
}
