// NVFP4: pairs of blocks of 32 numbers of 4 bits (E2M1) with a float of 8 bits (E4M3, without sign) as scale for every 16
// weights, and the scale `d` of the tensor. A weight is `doubled value * scale / 2 * d`.
import package::nibble_plane::plane_main;
@if(int8 && !parts) import package::nibble_plane::half_block;
import package::unpack::{Part, PackedPart};
import package::value_table::part_values;
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

// Half of the floats of 8 bits. Integers are used up to the last step, because a device may flush subnormal floats to zero.
fn halved_floats(b: vec2<u32>) -> vec2<f32> {
    let exponent = (b >> vec2(3u)) & vec2(15u);
    let mantissa = (b & vec2(7u)) | select(vec2(8u), vec2(0u), exponent == vec2(0u));
    return vec2<f32>(mantissa) * bitcast<vec2<f32>>((max(exponent, vec2(1u)) + vec2(116u)) << vec2(23u));
}

// The scales of a block's halves, without that of the tensor.
fn half_scales(sub: u32, s: Scales) -> vec2<f32> {
    let pair = s.word >> (16u * sub);
    return halved_floats(vec2(pair, pair >> 8u));
}

@if(int8)
fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let scale = half_scales(sub, s);
    @if(int8 && !parts) let w = half_block(block, half);
    @if(!int8 || parts) let w = plane_main[part];
    return PackedPart(packed_part_values(w), s.d * scale, vec2(0.0));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let scale = half_scales(sub, s);
    return Part(part_values(plane_main[part]), s.d * scale, vec2(0.0));
}
