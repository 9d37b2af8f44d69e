// MXFP4 (OCP Microscaling Formats 1.0): blocks of 32 numbers of 4 bits (1 sign, 2 exponent, 1 mantissa)
// and a power of two `2^(e - 127)`. A weight is `doubled value * d` with half of that power as `d`, so
// that the doubled values are integers (as in ggml).
import package::nibble_plane::plane_main;
@if(whole_blocks) import package::nibble_plane::half_block;
import package::unpack::{Part, PackedPart};
@if(!int8 && !codes) import package::value_table::part_values;
@if(int8) import package::value_table::packed_part_values;
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 4], four bytes a word

const ZERO: f32 = 0.0;
const PACKED_ZERO: i32 = 12;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 12.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    let e = (plane_scales[super_block / 4u] >> (8u * (super_block & 3u))) & 0xffu;
    // 2^(e - 128), of which the two smallest are subnormal.
    return Scales(bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << (e & 1u), e < 2u)));
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
