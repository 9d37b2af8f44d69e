// IQ4_NL: blocks of 32 nibbles, each an index into a table of 16 values, and a scale `d`. A weight is
// `value * d`.
import package::nibble_plane::plane_main;
@if(whole_blocks) import package::nibble_plane::half_block;
import package::unpack::{Part, PackedPart, half_at};
@if(!int8 && !codes) import package::value_table::part_values;
@if(int8) import package::value_table::packed_part_values;
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 2], two halves a word

// The number that stands for the weight 0 in tables of bytes.
@if(codes) const ZERO: f32 = 128.0;
@if(!codes) const ZERO: f32 = 0.0;
const PACKED_ZERO: i32 = 0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 127.0;
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

@if(!int8 && !codes)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return Part(part_values(plane_main[part]), vec2(s.d), vec2(0.0));
}

@if(int8)
fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    @if(!parts) let w = half_block(block, half);
    @if(parts) let w = plane_main[part];
    return PackedPart(packed_part_values(w), vec2(s.d), vec2(0.0));
}

// The words are those of the weight, with two codes in each byte.
@if(codes)
fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    return PackedPart(vec4(half_block(block, half), vec2(0u)), vec2(s.d), vec2(0.0));
}
