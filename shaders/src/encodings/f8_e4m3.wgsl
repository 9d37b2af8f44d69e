// F8 E4M3 (Micikevicius et al. 2022, "FP8 formats for deep learning"): blocks of 32 floats `q` of one byte
// and a scale `d`. A weight is `q * d`. The format's NaN decodes to 480; no conversion produces it.
import package::byte_plane::part_words;
import package::unpack::Part;
@if(bytes) import package::unpack::PackedPart;
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<f32>; // [blocks]

const ZERO: f32 = 0.0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 480.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(plane_scales[super_block]);
}

// Decodes the four floats of a word. The seven bits below the sign, with 120 added to the exponent, are the float `normal`. Of a
// normal number it is the magnitude, and twice it less 2^-6 is no smaller. Of a subnormal number, which has no leading 1, it is
// 2^-7 plus half the magnitude, so that twice it less 2^-6 is the magnitude, and smaller. No intermediate result is subnormal,
// because a device may flush those to zero.
fn floats(word: u32) -> vec4<f32> {
    let bits = (vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(0x7fu);
    let normal = bitcast<vec4<f32>>((bits << vec4(20u)) + vec4(120u << 23u));
    let magnitude = min(normal, fma(normal, vec4(2.0), vec4(-0.015625)));
    let sign = (vec4(word) << vec4(24u, 16u, 8u, 0u)) & vec4(0x80000000u);
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(magnitude) | sign);
}

// What floats are times as large as the halves of `float_halves`.
@if(bytes) const FLOAT_UNIT: f32 = 256.0;

// The floats of a word as halves, whose exponents have a bit more: bytes 0 and 2, then bytes 1 and 3.
@if(bytes)
fn float_halves(word: u32) -> vec2<u32> {
    return vec2(
        ((word << 7u) & 0x3f803f80u) | ((word << 8u) & 0x80008000u), ((word >> 1u) & 0x3f803f80u) | (word & 0x80008000u),
    );
}

// The bytes of the floats.
@if(bytes)
fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let w = part_words(part, block, half);
    return PackedPart(vec4(w[0], w[1]), vec2(s.d), vec2(0.0));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let w = part_words(part, part / 2u, half);
    return Part(array(floats(w[0].x), floats(w[0].y), floats(w[1].x), floats(w[1].y)), vec2(s.d), vec2(0.0));
}
