// IQ3 (the grids of ggml's IQ3): super-blocks of 8 blocks of 32 nibbles, each an index into eight magnitudes and a sign,
// with a scale of 4 bits for each block. A weight is `d / 2 * (2 * scale + 1) * (q - ZERO)`.
import package::nibble_plane::plane_main;
@if(whole_blocks) import package::nibble_plane::half_block;
@if(!lookup) import package::values::packed_numbers;
@if(lookup) import package::value_table::values;
@if(lookup) import package::unpack::{Part, low_nibbles, high_nibbles};
@if(!lookup) import package::unpack::{Part, PackedPart, unpacked};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<vec2<u32>>; // [blocks / 8]

// The number that stands for the weight 0, above all magnitudes; values that are looked up have a sign.
@if(lookup) const ZERO: f32 = 0.0;
@if(!lookup) const ZERO: f32 = 32.0;
const PACKED_ZERO: i32 = 32;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 31.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    d: f32,
    // What is added to the largest magnitude, in each byte: 1 for the values of IQ3_XXS, else 0.
    last: u32,
    // 8 nibbles.
    word: u32,
}

fn load_scales(super_block: u32) -> Scales {
    let words = plane_scales[super_block];
    let last = select(0u, 0x01010101u, (words.x & 0x10000u) != 0u);
    return Scales(0.5 * unpack2x16float(words.x).x, last, words.y);
}

// The scale of a block.
fn block_scale(sub: u32, s: Scales) -> f32 {
    return fma(f32((s.word >> (4u * sub)) & 15u), 2.0 * s.d, s.d);
}

@if(!lookup)
fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    @if(whole_blocks) let w = half_block(block, half);
    @if(!whole_blocks) let w = plane_main[part];
    let q = vec4(packed_numbers(w, s.last), packed_numbers(w >> vec2(4u), s.last));
    return PackedPart(q, vec2(block_scale(sub, s)), vec2(0.0));
}

@if(!lookup)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}

@if(lookup)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let w = plane_main[part];
    let table = vec2(s.last << 4u);
    let low = low_nibbles(w) | table;
    let high = high_nibbles(w) | table;
    return Part(array(values(low.x), values(low.y), values(high.x), values(high.y)), vec2(block_scale(sub, s)), vec2(0.0));
}
