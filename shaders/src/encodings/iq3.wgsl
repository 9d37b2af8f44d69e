// IQ3 (the grids of ggml's IQ3): super-blocks of 8 blocks of 32 nibbles, each an index into eight magnitudes and a sign,
// with a scale of 4 bits for each block. A weight is `d / 2 * (2 * scale + 1) * (q - 32)`.
import package::nibble_plane::plane_main;
import package::unpack::{Part, PackedPart, unpacked};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<vec2<u32>>; // [blocks / 8]

// The number that stands for the weight 0, above all magnitudes.
const ZERO: f32 = 32.0;
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
    // What is added to the largest magnitude, in each byte.
    last: u32,
    // 8 nibbles.
    word: u32,
}

fn load_scales(super_block: u32) -> Scales {
    let words = plane_scales[super_block];
    let last = select(0u, 0x01010101u, (words.x & 0x10000u) != 0u);
    return Scales(0.5 * unpack2x16float(words.x).x, last, words.y);
}

// The numbers of the codes in the low nibbles of each word.
fn values(code: vec2<u32>, last: u32) -> vec2<u32> {
    let index = code & vec2(0x07070707u);
    let is_last = index & (index >> vec2(1u)) & (index >> vec2(2u)) & vec2(last);
    let magnitude = (index << vec2(2u)) + vec2(0x02020202u) + is_last;
    let bits = (code >> vec2(3u)) & vec2(0x01010101u);
    let mask = (bits << vec2(8u)) - bits;
    let positive = vec2(0x20202020u) + magnitude;
    let negative = vec2(0x20202020u) - magnitude;
    return positive ^ ((positive ^ negative) & mask);
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let scale = s.d * f32(2u * ((s.word >> (4u * sub)) & 15u) + 1u);
    let w = plane_main[part];
    let q = vec4(values(w, s.last), values(w >> vec2(4u), s.last));
    return PackedPart(q, vec2(scale), vec2(0.0));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
