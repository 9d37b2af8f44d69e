// NVFP4: pairs of blocks of 32 numbers of 4 bits (E2M1) with a float of 8 bits (E4M3, without sign) as scale for every 16
// weights, and the scale `d` of the tensor. A weight is `doubled value * scale / 2 * d`.
import package::nibble_plane::plane_main;
@if(whole_blocks) import package::nibble_plane::half_block;
import package::unpack::{Part, PackedPart};
@if(!int8 && !codes) import package::value_table::part_values;
@if(int8) import package::value_table::packed_part_values;
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<vec2<u32>>; // [blocks / 2], d and four scales

const ZERO: f32 = 0.0;
const PACKED_ZERO: i32 = 12;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 12.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 2u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 2u;

struct Scales {
    d: f32,
    // Four bytes.
    word: u32,
}

fn load_scales(super_block: u32) -> Scales {
    let words = plane_scales[super_block];
    return Scales(bitcast<f32>(words.x), words.y);
}

// Half of the floats of 8 bits, decoded as those of F8 E4M3.
fn halved_floats(b: vec2<u32>) -> vec2<f32> {
    let normal = bitcast<vec2<f32>>(((b & vec2(0x7fu)) << vec2(20u)) + vec2(119u << 23u));
    return min(normal, fma(normal, vec2(2.0), vec2(-0.0078125)));
}

// The scales of a block's halves, without that of the tensor.
fn half_scales(sub: u32, s: Scales) -> vec2<f32> {
    let pair = s.word >> (16u * sub);
    return halved_floats(vec2(pair, pair >> 8u));
}

@if(int8)
fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let scale = half_scales(sub, s);
    @if(!parts) let w = half_block(block, half);
    @if(parts) let w = plane_main[part];
    return PackedPart(packed_part_values(w), s.d * scale, vec2(0.0));
}

// The words are those of the weight, with two codes in each byte.
@if(codes)
fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let scale = half_scales(sub, s);
    return PackedPart(vec4(half_block(block, half), vec2(0u)), s.d * scale, vec2(0.0));
}

@if(!int8 && !codes)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let scale = half_scales(sub, s);
    return Part(part_values(plane_main[part]), s.d * scale, vec2(0.0));
}
