// Q3_K: super-blocks of 8 blocks with 3-bit numbers `q` (two bits and a high bit), and a 6-bit scale for
// every 16 weights. A weight is `d * (scale - 32) * (q - 4)`.
import package::unpack::{Block, two_bit_group, bit_group};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_high: array<u32>; // [blocks], one bit a weight
@group(0) @binding(PLANES + 2) var<storage, read> plane_scales: array<u32>; // [blocks / 8, 4]

// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    d: f32,
    // The low nibbles of scales 0..8 and 8..16, then the two high bits of all scales.
    words: vec3<u32>,
}

fn load_scales(super_block: u32) -> Scales {
    let i = 4u * super_block;
    return Scales(
        unpack2x16float(plane_scales[i]).x,
        vec3(plane_scales[i + 1u], plane_scales[i + 2u], plane_scales[i + 3u]),
    );
}

fn group_of(low: u32, shift: u32, high: u32, g: u32, d: f32) -> vec4<f32> {
    return d * (two_bit_group(low, shift) + bit_group(high, g) * 4.0 - 4.0);
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let low = select(s.words.x, s.words.y, sub >= 4u) >> (8u * (sub & 3u));
    let high = s.words.z >> (4u * sub);
    let a = s.d * (f32((low & 15u) | ((high & 3u) << 4u)) - 32.0);
    let b = s.d * (f32(((low >> 4u) & 15u) | (((high >> 2u) & 3u) << 4u)) - 32.0);
    let w = plane_main[block];
    let h = plane_high[block];
    return Block(
        group_of(w.x, 0u, h, 0u, a), group_of(w.y, 0u, h, 1u, a),
        group_of(w.x, 2u, h, 2u, a), group_of(w.y, 2u, h, 3u, a),
        group_of(w.x, 4u, h, 4u, b), group_of(w.y, 4u, h, 5u, b),
        group_of(w.x, 6u, h, 6u, b), group_of(w.y, 6u, h, 7u, b),
    );
}
