// Q3_K: super-blocks of 8 blocks with 3-bit numbers `q` (two bits and a high bit), and a 6-bit scale for
// every 16 weights. A weight is `d * (scale - 32) * (q - 4)`.
import package::unpack::{Part, PackedPart, unpacked};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_high: array<u32>; // [blocks], one bit a weight
@group(0) @binding(PLANES + 2) var<storage, read> plane_scales: array<vec4<u32>>; // [blocks / 8]

// The number that stands for the weight 0.
const ZERO: f32 = 4.0;
const PACKED_ZERO: i32 = 4;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 4.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 2u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    d: f32,
    // The low nibbles of scales 0..8 and 8..16, then the two high bits of all scales.
    words: vec3<u32>,
}

fn load_scales(super_block: u32) -> Scales {
    let words = plane_scales[super_block];
    return Scales(unpack2x16float(words.x).x, words.yzw);
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let low = select(s.words.x, s.words.y, sub >= 4u) >> (8u * (sub & 3u));
    let high = s.words.z >> (4u * sub);
    let bits = vec2((low & 15u) | ((high & 3u) << 4u), ((low >> 4u) & 15u) | (((high >> 2u) & 3u) << 4u));
    let integers = vec2<f32>(bits) - 32.0;
    @if(integer_scales) let scale = integers;
    @if(!integer_scales) let scale = s.d * integers;
    let w = plane_main[block] >> vec2(2u * half);
    // The high bits of columns 0..16 in bits 2 and 1 of each byte, those of columns 16..32 in bits 6 and 5.
    let h = (plane_high[block] >> (2u * half)) << 2u;
    let third = vec2(h, h >> 1u);
    let q = vec4(
        (w & vec2(0x03030303u)) | (third & vec2(0x04040404u)),
        ((w >> vec2(4u)) & vec2(0x03030303u)) | ((third >> vec2(4u)) & vec2(0x04040404u)),
    );
    return PackedPart(q, scale, vec2(0.0));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
