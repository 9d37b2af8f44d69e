// F8 E4M3 (Micikevicius et al. 2022, "FP8 formats for deep learning"): blocks of 32 floats `q` of one byte
// and a scale `d`. A weight is `q * d`. The format's NaN decodes to 480; no conversion produces it.
import package::byte_plane::part_words;
import package::unpack::{Part, bytes};
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

// Decodes the four floats of a word. Integers are used up to the last step, because a device may flush
// subnormal floats to zero.
fn floats(word: u32) -> vec4<f32> {
    let b = bytes(word);
    let exponent = (b >> vec4(3u)) & vec4(15u);
    let mantissa = (b & vec4(7u)) | select(vec4(8u), vec4(0u), exponent == vec4(0u));
    let magnitude = vec4<f32>(mantissa) * bitcast<vec4<f32>>((max(exponent, vec4(1u)) + vec4(117u)) << vec4(23u));
    return select(magnitude, -magnitude, (b & vec4(0x80u)) != vec4(0u));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let w = part_words(part, part / 2u, half);
    return Part(array(floats(w[0].x), floats(w[0].y), floats(w[1].x), floats(w[1].y)), vec2(s.d), vec2(0.0));
}
