// UINT4 (GPTQ, AWQ, compressed-tensors): blocks of 32 nibbles `q` and a word with a scale `d`, whose lowest 4 bits are the
// zero point `z` instead. A weight is `d * (q - z)`.
import package::nibble_plane::plane_main;
@if(whole_blocks) import package::nibble_plane::half_block;
import package::unpack::{Part, PackedPart, unpacked, low_nibbles, high_nibbles};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks]

const ZERO: f32 = 0.0;
const PACKED_ZERO: i32 = 0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 15.0;
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
    let d = bitcast<f32>(word & 0xfffffff0u);
    // Exact: the scale has 20 significant bits.
    return Scales(d, -d * f32(word & 15u));
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    @if(whole_blocks) let w = half_block(block, half);
    @if(!whole_blocks) let w = plane_main[part];
    return PackedPart(vec4(low_nibbles(w), high_nibbles(w)), vec2(s.d), vec2(s.m));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
