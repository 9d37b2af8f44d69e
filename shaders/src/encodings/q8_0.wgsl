// Q8_0: blocks of 32 signed bytes `q` and a scale `d`. A weight is `q * d`.
@if(software) import package::unpack::signed_bytes;
@if(!software) import package::unpack::numbers;
import package::unpack::{Part, half_at};
import constants::PLANES;

// Where an invocation decodes whole blocks, as on software adapters, it loads them as two vec4s.
@if(software) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 2]
@if(!software) @group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks, 4]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 2], two halves a word

// GPUs convert unsigned bytes in one instruction: with its sign bit inverted, a byte is the number plus 128.
@if(software) const ZERO: f32 = 0.0;
@if(!software) const ZERO: f32 = 128.0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 128.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(half_at(plane_scales[super_block / 2u], super_block));
}

@if(software)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let a = plane_main[part - half];
    let b = plane_main[part - half + 1u];
    let low = select(a.xy, a.zw, half == 1u);
    let high = select(b.xy, b.zw, half == 1u);
    let q = array(signed_bytes(low.x), signed_bytes(low.y), signed_bytes(high.x), signed_bytes(high.y));
    return Part(q, vec2(s.d), vec2(0.0));
}

@if(!software)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let low = plane_main[4u * (part / 2u) + half];
    let high = plane_main[4u * (part / 2u) + half + 2u];
    return Part(numbers(low ^ vec2(0x80808080u), high ^ vec2(0x80808080u)), vec2(s.d), vec2(0.0));
}
