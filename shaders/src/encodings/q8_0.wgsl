// Q8_0: blocks of 32 signed bytes `q` and a scale `d`. A weight is `q * d`.
@if(software) import package::unpack::signed_bytes;
@if(!software) import package::unpack::numbers;
import package::byte_plane::{part_words, biased_words, packed_words};
import package::unpack::{Part, PackedPart, half_at};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 2], two halves a word

// GPUs convert unsigned bytes in one instruction: with its sign bit inverted, a byte is the number plus 128.
@if(software) const ZERO: f32 = 0.0;
@if(!software) const ZERO: f32 = 128.0;
const PACKED_ZERO: i32 = 0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 128.0;
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

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    @if(software) let w = part_words(part, part / 2u, half);
    @if(!software) let w = biased_words(part, part / 2u, half);
    @if(software) let q = array(signed_bytes(w[0].x), signed_bytes(w[0].y), signed_bytes(w[1].x), signed_bytes(w[1].y));
    @if(!software) let q = numbers(w[0], w[1]);
    return Part(q, vec2(s.d), vec2(0.0));
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let w = packed_words(part, block, half);
    return PackedPart(vec4(w[0], w[1]), vec2(s.d), vec2(0.0));
}
