// Functions of one element: activations, scaling, soft caps, common functions, conversions.
import package::activation::{activate, erf};
import package::trigonometry::{cosine, sine};
import constants::WG;

/// `map`: `out[i] = f(x[i])`. Grid: `[len]`.
struct MapParams {
    /// Number of elements.
    len: u32,
    /// The function: one of the constants `ACTIVATION_…` and `MAP_…`.
    kind: u32,
    /// The factor of [`MAP_SCALE`] or the cap of [`MAP_SOFTCAP`].
    factor: f32,
}

/// A [`MapParams::kind`]: `factor * x`.
const MAP_SCALE: u32 = 8u;
/// A [`MapParams::kind`]: `factor * tanh(x / factor)`.
const MAP_SOFTCAP: u32 = 9u;
/// A [`MapParams::kind`]: `-x`.
const MAP_NEG: u32 = 16u;
/// A [`MapParams::kind`]: `|x|`.
const MAP_ABS: u32 = 17u;
/// A [`MapParams::kind`]: `e^x`.
const MAP_EXP: u32 = 18u;
/// A [`MapParams::kind`]: the natural logarithm.
const MAP_LOG: u32 = 19u;
/// A [`MapParams::kind`]: the square root.
const MAP_SQRT: u32 = 20u;
/// A [`MapParams::kind`]: `1 / sqrt(x)`.
const MAP_RSQRT: u32 = 21u;
/// A [`MapParams::kind`]: the sine of any finite number, in radians.
const MAP_SIN: u32 = 22u;
/// A [`MapParams::kind`]: the cosine of any finite number, in radians.
const MAP_COS: u32 = 23u;
/// A [`MapParams::kind`]: the hyperbolic tangent.
const MAP_TANH: u32 = 24u;
/// A [`MapParams::kind`]: `1 / (1 + e^-x)`.
const MAP_SIGMOID: u32 = 25u;
/// A [`MapParams::kind`]: the error function.
const MAP_ERF: u32 = 26u;
/// A [`MapParams::kind`]: rounding down to an integer.
const MAP_FLOOR: u32 = 27u;
/// A [`MapParams::kind`]: rounding up to an integer.
const MAP_CEIL: u32 = 28u;
/// A [`MapParams::kind`]: rounding to the nearest integer, ties to even.
const MAP_ROUND: u32 = 29u;
/// A [`MapParams::kind`]: `1 / x`.
const MAP_RECIP: u32 = 30u;
/// A [`MapParams::kind`]: conversion of `f32` to `u32`, rounded towards zero and clamped to
/// `[0, 4294967040]`, whose end is the largest `f32` below 2^32.
const MAP_TO_U32: u32 = 31u;
/// A [`MapParams::kind`]: conversion of `u32` to `f32`.
const MAP_FROM_U32: u32 = 32u;
/// A [`MapParams::kind`]: 1 where the `u32` is 0, else 0.
const MAP_NOT: u32 = 33u;

@group(0) @binding(0) var<uniform> p: MapParams;
@group(0) @binding(1) var<storage, read> x: array<u32>; // [len], bits of f32 or u32
@group(0) @binding(2) var<storage, read_write> out: array<u32>; // [len], bits of f32 or u32

const TILE = vec2<u32>(WG, 1u);

// Functions from or to u32. The buffers hold u32, because loading or storing an integer as a float may
// flush it to zero.
fn u32_function(x: u32, kind: u32) -> u32 {
    switch kind {
        case MAP_TO_U32: { return u32(clamp(bitcast<f32>(x), 0.0, 4294967040.0)); }
        case MAP_FROM_U32: { return bitcast<u32>(f32(x)); }
        default: { return u32(x == 0u); }
    }
}

fn f32_function(x: f32, kind: u32) -> f32 {
    switch kind {
        case MAP_NEG: { return -x; }
        case MAP_ABS: { return abs(x); }
        case MAP_EXP: { return exp(x); }
        case MAP_LOG: { return log(x); }
        case MAP_SQRT: { return sqrt(x); }
        case MAP_RSQRT: { return 1.0 / sqrt(x); }
        case MAP_SIN: { return sine(x); }
        case MAP_COS: { return cosine(x); }
        // The argument is clamped, because tanh overflows internally on some devices.
        case MAP_TANH: { return tanh(clamp(x, -20.0, 20.0)); }
        // exp overflows above 88.
        case MAP_SIGMOID: { return 1.0 / (1.0 + exp(min(-x, 87.0))); }
        case MAP_ERF: { return erf(x); }
        case MAP_FLOOR: { return floor(x); }
        case MAP_CEIL: { return ceil(x); }
        // Rounds ties to even, as IEEE 754 does.
        case MAP_ROUND: { return round(x); }
        default: { return 1.0 / x; }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.len {
        return;
    }
    if p.kind >= MAP_TO_U32 {
        out[i] = u32_function(x[i], p.kind);
        return;
    }
    let v = bitcast<f32>(x[i]);
    var y: f32;
    if p.kind >= MAP_NEG {
        y = f32_function(v, p.kind);
    } else if p.kind == MAP_SCALE {
        y = p.factor * v;
    } else if p.kind == MAP_SOFTCAP {
        // The argument is clamped, because tanh overflows internally on some devices.
        y = p.factor * tanh(clamp(v / p.factor, -20.0, 20.0));
    } else {
        y = activate(v, p.kind);
    }
    out[i] = bitcast<u32>(y);
}
