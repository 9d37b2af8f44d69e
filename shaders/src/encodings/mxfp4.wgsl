// MXFP4 (OCP Microscaling Formats 1.0): blocks of 32 numbers of 4 bits (1 sign, 2 exponent, 1 mantissa)
// and a power of two `2^(e - 127)`. A weight is `doubled value * d` with half of that power as `d`, so
// that the doubled values are integers (as in ggml).
import package::unpack::{Part, PackedPart, bytes, low_nibbles, high_nibbles};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks, 2]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 4], four bytes a word

const ZERO: f32 = 0.0;
const PACKED_ZERO: i32 = 12;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 12.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    let e = (plane_scales[super_block / 4u] >> (8u * (super_block & 3u))) & 0xffu;
    // 2^(e - 128), of which the two smallest are subnormal.
    return Scales(bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << (e & 1u), e < 2u)));
}

// The doubled values: magnitudes 0 1 2 3 4 6 8 12, packed in nibbles; bit 3 is the sign.
fn values(code: vec4<u32>) -> vec4<f32> {
    let magnitude = vec4<f32>((vec4(0xc8643210u) >> (4u * (code & vec4(7u)))) & vec4(15u));
    return select(magnitude, -magnitude, code >= vec4(8u));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let w = plane_main[part];
    let low = low_nibbles(w);
    let high = high_nibbles(w);
    let q = array(
        values(bytes(low.x)), values(bytes(low.y)), values(bytes(high.x)), values(bytes(high.y)),
    );
    return Part(q, vec2(s.d), vec2(0.0));
}

// The doubled values of the codes in the low nibbles of each word plus 12, so that no byte is negative and none carries.
fn packed_values(code: vec2<u32>) -> vec2<u32> {
    // From code 4 on, the two low bits count twice, and 7 stands for 2 more.
    let is_upper = (code >> vec2(2u)) & vec2(0x01010101u);
    let low = code & (is_upper | (is_upper << vec2(1u)));
    let magnitude = (code & vec2(0x07070707u)) + low + 2u * (low & (low >> vec2(1u)));
    // With a sign, 15 minus the magnitude, minus 3.
    let is_negative = (code >> vec2(3u)) & vec2(0x01010101u);
    let mask = (is_negative << vec2(4u)) - is_negative;
    return (magnitude ^ mask) + (vec2(0x0c0c0c0cu) - mask);
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let w = plane_main[part];
    let q = vec4(packed_values(w), packed_values(w >> vec2(4u)));
    return PackedPart(q, vec2(s.d), vec2(0.0));
}
