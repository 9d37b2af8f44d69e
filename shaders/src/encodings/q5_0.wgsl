// Q5_0: blocks of 32 5-bit numbers `q` and a scale `d`. A weight is `(q - 16) * d`.
import package::unpack::{Block, low_nibbles, high_nibbles, bit_group, half_at};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_high: array<u32>; // [blocks], one bit a weight
@group(0) @binding(PLANES + 2) var<storage, read> plane_scales: array<u32>; // [blocks / 2], two halves a word

// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(half_at(plane_scales[super_block / 2u], super_block));
}

fn scaled(low: vec4<f32>, high: vec4<f32>, s: Scales) -> vec4<f32> {
    return (low + high * 16.0 - 16.0) * s.d;
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let w = plane_main[block];
    let h = plane_high[block];
    return Block(
        scaled(low_nibbles(w.x), bit_group(h, 0u), s), scaled(low_nibbles(w.y), bit_group(h, 1u), s),
        scaled(low_nibbles(w.z), bit_group(h, 2u), s), scaled(low_nibbles(w.w), bit_group(h, 3u), s),
        scaled(high_nibbles(w.x), bit_group(h, 4u), s), scaled(high_nibbles(w.y), bit_group(h, 5u), s),
        scaled(high_nibbles(w.z), bit_group(h, 6u), s), scaled(high_nibbles(w.w), bit_group(h, 7u), s),
    );
}
