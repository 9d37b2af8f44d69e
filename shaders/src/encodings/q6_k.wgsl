// Q6_K: super-blocks of 8 blocks with 6-bit numbers `q` (a nibble and two high bits), and a signed byte as
// scale for every 16 weights. A weight is `d * scale * (q - 32)`.
import package::unpack::{Block, low_nibbles, high_nibbles, two_bit_group};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_high: array<u32>; // [blocks, 2], two bits a weight
@group(0) @binding(PLANES + 2) var<storage, read> plane_scales: array<u32>; // [blocks / 8, 5]

// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    d: f32,
    // 16 signed bytes.
    words: vec4<u32>,
}

fn load_scales(super_block: u32) -> Scales {
    let i = 5u * super_block;
    return Scales(
        unpack2x16float(plane_scales[i]).x,
        vec4(plane_scales[i + 1u], plane_scales[i + 2u], plane_scales[i + 3u], plane_scales[i + 4u]),
    );
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let pair = s.words[sub / 2u] >> (16u * (sub & 1u));
    let a = s.d * f32(i32(pair << 24u) >> 24u);
    let b = s.d * f32(i32(pair << 16u) >> 24u);
    let w = plane_main[block];
    let h = vec2(plane_high[2u * block], plane_high[2u * block + 1u]);
    return Block(
        a * (low_nibbles(w.x) + two_bit_group(h.x, 0u) * 16.0 - 32.0),
        a * (low_nibbles(w.y) + two_bit_group(h.y, 0u) * 16.0 - 32.0),
        a * (low_nibbles(w.z) + two_bit_group(h.x, 2u) * 16.0 - 32.0),
        a * (low_nibbles(w.w) + two_bit_group(h.y, 2u) * 16.0 - 32.0),
        b * (high_nibbles(w.x) + two_bit_group(h.x, 4u) * 16.0 - 32.0),
        b * (high_nibbles(w.y) + two_bit_group(h.y, 4u) * 16.0 - 32.0),
        b * (high_nibbles(w.z) + two_bit_group(h.x, 6u) * 16.0 - 32.0),
        b * (high_nibbles(w.w) + two_bit_group(h.y, 6u) * 16.0 - 32.0),
    );
}
