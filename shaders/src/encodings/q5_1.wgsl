// Q5_1: blocks of 32 5-bit numbers `q`, a scale `d` and a minimum `m`. A weight is `q * d + m`.
import package::nibble_plane::plane_main;
@if(whole_blocks) import package::nibble_plane::half_block;
import package::unpack::{Part, PackedPart, unpacked, low_nibbles, high_nibbles, fifth_bits};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_high: array<u32>; // [blocks], one bit a weight
@group(0) @binding(PLANES + 2) var<storage, read> plane_scales: array<u32>; // [blocks], halves d and m

const ZERO: f32 = 0.0;
const PACKED_ZERO: i32 = 0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 31.0;
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
    let dm = unpack2x16float(plane_scales[super_block]);
    return Scales(dm.x, dm.y);
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    @if(whole_blocks) let w = half_block(block, half);
    @if(!whole_blocks) let w = plane_main[part];
    let h = plane_high[block] >> (2u * half);
    let low = low_nibbles(w) | fifth_bits(h);
    let high = high_nibbles(w) | fifth_bits(h >> 4u);
    return PackedPart(vec4(low, high), vec2(s.d), vec2(s.m));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
