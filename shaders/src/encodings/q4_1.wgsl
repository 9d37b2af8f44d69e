// Q4_1: blocks of 32 nibbles `q`, a scale `d` and a minimum `m`. A weight is `q * d + m`.
import package::unpack::{Block, low_nibbles, high_nibbles};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks], halves d and m

// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
    m: f32,
}

fn load_scales(super_block: u32) -> Scales {
    let dm = unpack2x16float(plane_scales[super_block]);
    return Scales(dm.x, dm.y);
}

fn scaled(q: vec4<f32>, s: Scales) -> vec4<f32> {
    return q * s.d + s.m;
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
