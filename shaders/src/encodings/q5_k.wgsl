// Q5_K: like Q4_K, with a fifth bit for each weight.
import package::unpack::{Block, low_nibbles, high_nibbles, bit_group};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_high: array<u32>; // [blocks], one bit a weight
@group(0) @binding(PLANES + 2) var<storage, read> plane_scales: array<u32>; // [blocks / 8, 4]

// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    // The scale of the scales (d) and that of the minimums (dmin).
    d: vec2<f32>,
    // The low nibbles of the 8 scales, those of the 8 minimums, then the two high bits of both.
    words: vec3<u32>,
}

fn load_scales(super_block: u32) -> Scales {
    let i = 4u * super_block;
    return Scales(
        unpack2x16float(plane_scales[i]),
        vec3(plane_scales[i + 1u], plane_scales[i + 2u], plane_scales[i + 3u]),
    );
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let scale = ((s.words.x >> (4u * sub)) & 15u) | (((s.words.z >> (2u * sub)) & 3u) << 4u);
    let minimum = ((s.words.y >> (4u * sub)) & 15u) | (((s.words.z >> (16u + 2u * sub)) & 3u) << 4u);
    let d = s.d.x * f32(scale);
    let m = s.d.y * f32(minimum);
    let w = plane_main[block];
    let h = plane_high[block];
    return Block(
        (low_nibbles(w.x) + bit_group(h, 0u) * 16.0) * d - m,
        (low_nibbles(w.y) + bit_group(h, 1u) * 16.0) * d - m,
        (low_nibbles(w.z) + bit_group(h, 2u) * 16.0) * d - m,
        (low_nibbles(w.w) + bit_group(h, 3u) * 16.0) * d - m,
        (high_nibbles(w.x) + bit_group(h, 4u) * 16.0) * d - m,
        (high_nibbles(w.y) + bit_group(h, 5u) * 16.0) * d - m,
        (high_nibbles(w.z) + bit_group(h, 6u) * 16.0) * d - m,
        (high_nibbles(w.w) + bit_group(h, 7u) * 16.0) * d - m,
    );
}
