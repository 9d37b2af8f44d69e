// Q6_K: super-blocks of 8 blocks with 6-bit numbers `q` (a nibble and two high bits), and a signed byte as
// scale for every 16 weights. A weight is `d * scale * (q - 32)`.
import package::nibble_plane::plane_main;
@if(whole_blocks) import package::nibble_plane::half_block;
import package::unpack::{Part, PackedPart, unpacked, low_nibbles, high_nibbles};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_high: array<vec2<u32>>; // [blocks], two bits a weight
@group(0) @binding(PLANES + 2) var<storage, read> plane_scales: array<u32>; // [blocks / 8, 5]

// The number that stands for the weight 0.
const ZERO: f32 = 32.0;
const PACKED_ZERO: i32 = 32;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 32.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 2u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    d: f32,
    // 16 signed bytes.
    @if(!mma) words: vec4<u32>,
    // Where they begin in `plane_scales`: an invocation needs one of the words.
    @if(mma) first_word: u32,
}

fn load_scales(super_block: u32) -> Scales {
    let i = 5u * super_block;
    let d = unpack2x16float(plane_scales[i]).x;
    @if(!mma)
    return Scales(d, vec4(plane_scales[i + 1u], plane_scales[i + 2u], plane_scales[i + 3u], plane_scales[i + 4u]));
    @if(mma)
    return Scales(d, i + 1u);
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    @if(!mma) let word = s.words[sub / 2u];
    @if(mma) let word = plane_scales[s.first_word + sub / 2u];
    let pair = word >> (16u * (sub & 1u));
    let integers = vec2<f32>(vec2(i32(pair << 24u) >> 24u, i32(pair << 16u) >> 24u));
    @if(integer_scales) let scale = integers;
    @if(!integer_scales) let scale = s.d * integers;
    @if(whole_blocks) let w = half_block(block, half);
    @if(!whole_blocks) let w = plane_main[part];
    // The high bits of columns 0..16 in bits 0 and 1 of each byte, those of columns 16..32 in bits 4 and 5.
    let h = plane_high[block] >> vec2(2u * half);
    let low = low_nibbles(w) | ((h << vec2(4u)) & vec2(0x30303030u));
    let high = high_nibbles(w) | (h & vec2(0x30303030u));
    return PackedPart(vec4(low, high), scale, vec2(0.0));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
