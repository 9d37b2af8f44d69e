// IQ4_NL: blocks of 32 nibbles, each an index into a table of 16 values, and a scale `d`. A weight is
// `value * d`.
import package::unpack::{Block, bytes, half_at};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 2], two halves a word

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

fn scaled_low(word: u32, s: Scales) -> vec4<f32> {
    return values(bytes(word & 0x0f0f0f0fu)) * s.d;
}

fn scaled_high(word: u32, s: Scales) -> vec4<f32> {
    return values(bytes((word >> 4u) & 0x0f0f0f0fu)) * s.d;
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let w = plane_main[block];
    return Block(
        scaled_low(w.x, s), scaled_low(w.y, s),
        scaled_low(w.z, s), scaled_low(w.w, s),
        scaled_high(w.x, s), scaled_high(w.y, s),
        scaled_high(w.z, s), scaled_high(w.w, s),
    );
}
