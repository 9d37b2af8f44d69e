// TQ2_0: ternary weights in super-blocks of 8 blocks of 32 numbers `q` of 2 bits with one scale `d`. A weight is
// `d * (q - 1)`.
import package::unpack::{Part, PackedPart, unpacked, half_at};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 16], two halves a word

const ZERO: f32 = 1.0;
const PACKED_ZERO: i32 = 1;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 2.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(half_at(plane_scales[super_block / 2u], super_block));
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let w = plane_main[block] >> vec2(2u * half);
    let q = vec4(w & vec2(0x03030303u), (w >> vec2(4u)) & vec2(0x03030303u));
    return PackedPart(q, vec2(s.d), vec2(0.0));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
