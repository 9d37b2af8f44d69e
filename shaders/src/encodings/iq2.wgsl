// IQ2 (the grids of ggml's IQ2 and IQ1): super-blocks of 8 blocks with an index of 2 bits into three magnitudes and a sign
// for each weight, and a scale of 4 bits for every 16. A weight is `d / 8 * (2 * scale + 1) * (q - ZERO)`.
@if(!lookup) import package::values::{packed_numbers, steps_of};
@if(lookup) import package::value_table::values;
@if(lookup) import package::unpack::Part;
@if(!lookup) import package::unpack::{Part, PackedPart, unpacked};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_high: array<u32>; // [blocks], one bit a weight
@group(0) @binding(PLANES + 2) var<storage, read> plane_scales: array<u32>; // [blocks / 8, 3]

// The number that stands for the weight 0, above all magnitudes; values that are looked up have a sign.
@if(lookup) const ZERO: f32 = 0.0;
@if(!lookup) const ZERO: f32 = 64.0;
const PACKED_ZERO: i32 = 64;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 43.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 2u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    d: f32,
    // What `steps_of` returns, or in each byte the bit that selects the half of the table.
    @if(!lookup) steps: vec3<u32>,
    @if(lookup) table: u32,
    // 16 nibbles.
    words: vec2<u32>,
}

fn load_scales(super_block: u32) -> Scales {
    let i = 3u * super_block;
    let word = plane_scales[i];
    let is_iq1 = (word & 0x10000u) != 0u;
    @if(!lookup) let kind = steps_of(is_iq1);
    @if(lookup) let kind = select(0u, 0x08080808u, is_iq1);
    return Scales(0.125 * unpack2x16float(word).x, kind, vec2(plane_scales[i + 1u], plane_scales[i + 2u]));
}

// The scales of the halves of a block.
fn half_scales(sub: u32, s: Scales) -> vec2<f32> {
    let nibbles = s.words[sub / 4u] >> (8u * (sub & 3u));
    return fma(vec2<f32>(vec2(nibbles & 15u, (nibbles >> 4u) & 15u)), vec2(2.0 * s.d), vec2(s.d));
}

// The words of a part: its indices, in bits 0 and 1 of each byte those of columns 0..16 and in bits 4 and 5 those of columns
// 16..32, then its signs, in bits 0 and 4.
fn words(block: u32, half: u32) -> array<vec2<u32>, 2> {
    let h = plane_high[block] >> (2u * half);
    return array(plane_main[block] >> vec2(2u * half), vec2(h, h >> 1u));
}

@if(!lookup)
fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let w = words(block, half);
    let low = packed_numbers(w[0], w[1], s.steps);
    let high = packed_numbers(w[0] >> vec2(4u), w[1] >> vec2(4u), s.steps);
    return PackedPart(vec4(low, high), half_scales(sub, s), vec2(0.0));
}

@if(!lookup)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}

@if(lookup)
fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let w = words(part / 2u, half);
    // Indices in bits 0, 1, 4 and 5, signs in bits 2 and 6.
    let codes = (w[0] & vec2(0x33333333u)) | ((w[1] << vec2(2u)) & vec2(0x44444444u));
    let low = codes | vec2(s.table);
    let high = (codes >> vec2(4u)) | vec2(s.table);
    return Part(array(values(low.x), values(low.y), values(high.x), values(high.y)), half_scales(sub, s), vec2(0.0));
}
