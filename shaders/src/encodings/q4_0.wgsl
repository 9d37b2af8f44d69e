// Q4_0: blocks of 32 nibbles `q` and a scale `d`. A weight is `(q - 8) * d`.
import package::unpack::{Block, low_nibbles, high_nibbles, half_at};
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

fn scaled(q: vec4<f32>, s: Scales) -> vec4<f32> {
    return (q - 8.0) * s.d;
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let w = plane_main[block];
    return Block(
        scaled(low_nibbles(w.x), s), scaled(low_nibbles(w.y), s),
        scaled(low_nibbles(w.z), s), scaled(low_nibbles(w.w), s),
        scaled(high_nibbles(w.x), s), scaled(high_nibbles(w.y), s),
        scaled(high_nibbles(w.z), s), scaled(high_nibbles(w.w), s),
    );
}
