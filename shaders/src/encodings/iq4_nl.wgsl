// IQ4_NL: blocks of 32 nibbles, each an index into a table of 16 values, and a scale `d`. A weight is
// `value * d`.
import package::unpack::{Part, bytes, low_nibbles, high_nibbles, half_at};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks, 2]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 2], two halves a word

const ZERO: f32 = 0.0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 127.0;
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

// The values at four indices. The table is ggml's 16 signed bytes: -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113.
fn values(index: vec4<u32>) -> vec4<f32> {
    let low = select(vec4(0xbfad9881u), vec4(0xf6eaddcfu), (index & vec4(4u)) != vec4(0u));
    let high = select(vec4(0x26190d01u), vec4(0x71594535u), (index & vec4(4u)) != vec4(0u));
    let word = select(low, high, index >= vec4(8u));
    return vec4<f32>(vec4<i32>(word << (24u - 8u * (index & vec4(3u)))) >> vec4(24u));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let w = plane_main[part];
    let low = low_nibbles(w);
    let high = high_nibbles(w);
    let q = array(
        values(bytes(low.x)), values(bytes(low.y)), values(bytes(high.x)), values(bytes(high.y)),
    );
    return Part(q, vec2(s.d), vec2(0.0));
}
