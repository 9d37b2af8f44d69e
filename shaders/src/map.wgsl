// out[i] = f(x[i]), f being an activation, a factor, a soft cap, or one of common functions.
import package::activation::{activate, erf};
import package::trigonometry::{cos_of, sin_of};
import constants::WG;

struct MapParams {
    len: u32,
    kind: u32,
    factor: f32,
}

@group(0) @binding(0) var<uniform> p: MapParams;
@group(0) @binding(1) var<storage, read> x: array<u32>; // [len]
@group(0) @binding(2) var<storage, read_write> out: array<u32>; // [len]

const TILE = vec2<u32>(WG, 1u);
// Whole numbers are no floats: a float's load or store may flush them.
fn whole(x: u32, kind: u32) -> u32 {
    switch kind {
        // To a whole number, towards zero and within its range.
        case 31u: { return u32(clamp(bitcast<f32>(x), 0.0, 4294967040.0)); }
        case 32u: { return bitcast<u32>(f32(x)); }
        default: { return u32(x == 0u); }
    }
}

fn function(x: f32, kind: u32) -> f32 {
    switch kind {
        case 16u: { return -x; }
        case 17u: { return abs(x); }
        case 18u: { return exp(x); }
        case 19u: { return log(x); }
        case 20u: { return sqrt(x); }
        case 21u: { return 1.0 / sqrt(x); }
        case 22u: { return sin_of(x); }
        case 23u: { return cos_of(x); }
        // tanh's argument is bounded: some devices overflow inside it.
        case 24u: { return tanh(clamp(x, -20.0, 20.0)); }
        // exp overflows past 88.
        case 25u: { return 1.0 / (1.0 + exp(min(-x, 87.0))); }
        case 26u: { return erf(x); }
        case 27u: { return floor(x); }
        case 28u: { return ceil(x); }
        // To even, as IEEE 754 rounds.
        case 29u: { return round(x); }
        default: { return 1.0 / x; }
    }
}

const FUNCTIONS: u32 = 16u;
const WHOLES: u32 = 31u;
const SCALE: u32 = 8u;
const SOFTCAP: u32 = 9u;

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
    if p.kind >= WHOLES {
        out[i] = whole(x[i], p.kind);
        return;
    }
    let v = bitcast<f32>(x[i]);
    var y: f32;
    if p.kind >= FUNCTIONS {
        y = function(v, p.kind);
    } else if p.kind == SCALE {
        y = p.factor * v;
    } else if p.kind == SOFTCAP {
        // tanh's argument is bounded: some devices overflow inside it.
        y = p.factor * tanh(clamp(v / p.factor, -20.0, 20.0));
    } else {
        y = activate(v, p.kind);
    }
    out[i] = bitcast<u32>(y);
}
