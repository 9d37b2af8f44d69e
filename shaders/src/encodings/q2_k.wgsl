// Q2_K: super-blocks of 8 blocks with 2-bit numbers `q`, and a 4-bit scale and minimum for every 16
// weights. A weight is `d * scale * q - dmin * minimum`.
import package::unpack::{Block, two_bit_group};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 8, 5]

// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    // The scale of the scales (d) and that of the minimums (dmin).
    d: vec2<f32>,
    // 16 bytes: a scale in the low nibble, a minimum in the high one.
    words: vec4<u32>,
}

fn load_scales(super_block: u32) -> Scales {
    let i = 5u * super_block;
    return Scales(
        unpack2x16float(plane_scales[i]),
        vec4(plane_scales[i + 1u], plane_scales[i + 2u], plane_scales[i + 3u], plane_scales[i + 4u]),
    );
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let pair = s.words[sub / 2u] >> (16u * (sub & 1u));
    let da = s.d.x * f32(pair & 15u);
    let ma = s.d.y * f32((pair >> 4u) & 15u);
    let db = s.d.x * f32((pair >> 8u) & 15u);
    let mb = s.d.y * f32((pair >> 12u) & 15u);
    let w = plane_main[block];
    return Block(
        two_bit_group(w.x, 0u) * da - ma, two_bit_group(w.y, 0u) * da - ma,
        two_bit_group(w.x, 2u) * da - ma, two_bit_group(w.y, 2u) * da - ma,
        two_bit_group(w.x, 4u) * db - mb, two_bit_group(w.y, 4u) * db - mb,
        two_bit_group(w.x, 6u) * db - mb, two_bit_group(w.y, 6u) * db - mb,
    );
}
