// F8 E4M3 (Micikevicius et al. 2022, "FP8 formats for deep learning"): blocks of 32 floats `q` of one byte
// and a scale `d`. A weight is `q * d`. The format's NaN decodes to 480; no conversion produces it.
import package::unpack::{Part, bytes};
import constants::PLANES;

// Where an invocation decodes whole blocks, as on software adapters, it loads them as two vec4s.
@if(software) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 2]
@if(!software) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks, 4]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<f32>; // [blocks]

const ZERO: f32 = 0.0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 480.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(plane_scales[super_block]);
}

// Decodes the four floats of a word. Integers are used up to the last step, because a device may flush
// subnormal floats to zero.
fn floats(word: u32) -> vec4<f32> {
    let b = bytes(word);
    let exponent = (b >> vec4(3u)) & vec4(15u);
    let mantissa = (b & vec4(7u)) | select(vec4(8u), vec4(0u), exponent == vec4(0u));
    let magnitude = vec4<f32>(mantissa) * bitcast<vec4<f32>>((max(exponent, vec4(1u)) + vec4(117u)) << vec4(23u));
    return select(magnitude, -magnitude, (b & vec4(0x80u)) != vec4(0u));
}

@if(software)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let a = plane_main[part - half];
    let b = plane_main[part - half + 1u];
    let low = select(a.xy, a.zw, half == 1u);
    let high = select(b.xy, b.zw, half == 1u);
    return Part(array(floats(low.x), floats(low.y), floats(high.x), floats(high.y)), vec2(s.d), vec2(0.0));
}

@if(!software)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let low = plane_main[4u * (part / 2u) + half];
    let high = plane_main[4u * (part / 2u) + half + 2u];
    return Part(array(floats(low.x), floats(low.y), floats(high.x), floats(high.y)), vec2(s.d), vec2(0.0));
}
