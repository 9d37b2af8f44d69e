// UINT8 (GPTQ, compressed-tensors): blocks of 32 signed bytes `q` and a word with a scale `d`, whose lowest 8 bits are the
// zero point `z` instead. A weight is `d * (q + 128 - z)`.
@if(software) import package::unpack::signed_bytes;
@if(!software) import package::unpack::numbers;
import package::byte_plane::{part_words, biased_words, packed_words};
import package::unpack::{Part, PackedPart};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks]

// GPUs convert unsigned bytes in one instruction: with its sign bit inverted, a byte is the number plus 128.
@if(software) const ZERO: f32 = 0.0;
@if(!software) const ZERO: f32 = 128.0;
const PACKED_ZERO: i32 = 0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 128.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = true;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
    m: f32,
}

fn load_scales(super_block: u32) -> Scales {
    let word = plane_scales[super_block];
    let d = bitcast<f32>(word & 0xffffff00u);
    // Exact: the scale has 16 significant bits.
    return Scales(d, d * (128.0 - f32(word & 255u)));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    @if(software) let w = part_words(part, part / 2u, half);
    @if(!software) let w = biased_words(part, part / 2u, half);
    @if(software) let q = array(signed_bytes(w[0].x), signed_bytes(w[0].y), signed_bytes(w[1].x), signed_bytes(w[1].y));
    @if(!software) let q = numbers(w[0], w[1]);
    return Part(q, vec2(s.d), vec2(s.m));
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let w = packed_words(part, block, half);
    return PackedPart(vec4(w[0], w[1]), vec2(s.d), vec2(s.m));
}
