// Q4_0: blocks of 32 nibbles `q` and a scale `d`. A weight is `(q - 8) * d`.
import package::nibble_plane::plane_main;
@if(whole_blocks) import package::nibble_plane::half_block;
import package::unpack::{Part, PackedPart, unpacked, low_nibbles, high_nibbles, half_at};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 2], two halves a word

// The number that stands for the weight 0.
const ZERO: f32 = 8.0;
const PACKED_ZERO: i32 = 8;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 8.0;
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

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    @if(whole_blocks) let w = half_block(block, half);
    @if(!whole_blocks) let w = plane_main[part];
    return PackedPart(vec4(low_nibbles(w), high_nibbles(w)), vec2(s.d), vec2(0.0));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
