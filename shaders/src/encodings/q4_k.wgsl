// Q4_K: super-blocks of 8 blocks of 32 nibbles `q`, each with a 6-bit scale and minimum. A weight is `d *
// scale * q - dmin * minimum`.
import package::nibble_plane::plane_main;
@if(whole_blocks) import package::nibble_plane::half_block;
import package::unpack::{Part, PackedPart, unpacked, low_nibbles, high_nibbles};
import package::k_scales::{scale_and_minimum, SCALE_UNIT};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<vec4<u32>>; // [blocks / 8]

const ZERO: f32 = 0.0;
const PACKED_ZERO: i32 = 0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 15.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = true;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    // The scale of the scales (d) and that of the minimums (dmin), for these as `scale_and_minimum` returns them.
    d: vec2<f32>,
    // The low nibbles of the 8 scales, those of the 8 minimums, then the two high bits of both.
    words: vec3<u32>,
}

fn load_scales(super_block: u32) -> Scales {
    let words = plane_scales[super_block];
    return Scales(unpack2x16float(words.x) / SCALE_UNIT, words.yzw);
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let f = s.d * scale_and_minimum(s.words, sub);
    @if(whole_blocks) let w = half_block(block, half);
    @if(!whole_blocks) let w = plane_main[part];
    return PackedPart(vec4(low_nibbles(w), high_nibbles(w)), vec2(f.x), vec2(-f.y));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
