// IQ2 (the grids of ggml's IQ2 and IQ1): super-blocks of 8 blocks with an index of 2 bits into three magnitudes and a sign
// for each weight, and a scale of 4 bits for every 16. A weight is `d / 8 * (2 * scale + 1) * (q - 64)`.
import package::unpack::{Part, PackedPart, unpacked};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_high: array<u32>; // [blocks], one bit a weight
@group(0) @binding(PLANES + 2) var<storage, read> plane_scales: array<u32>; // [blocks / 8, 3]

// The number that stands for the weight 0, above all magnitudes.
const ZERO: f32 = 64.0;
const PACKED_ZERO: i32 = 64;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 43.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 2u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    d: f32,
    // The magnitude of index 0, and what is added for bits 0 and 1 of an index: 8, 25, 43 or 1, 7, 9.
    steps: vec3<u32>,
    // 16 nibbles.
    words: vec2<u32>,
}

fn load_scales(super_block: u32) -> Scales {
    let i = 3u * super_block;
    let word = plane_scales[i];
    let steps = select(vec3(8u, 17u, 35u), vec3(1u, 6u, 8u), (word & 0x10000u) != 0u);
    return Scales(0.125 * unpack2x16float(word).x, steps, vec2(plane_scales[i + 1u], plane_scales[i + 2u]));
}

// The numbers of four indices, one in the two low bits of each byte, with signs in the lowest bits.
fn values(index: vec2<u32>, sign: vec2<u32>, steps: vec3<u32>) -> vec2<u32> {
    let low = index & vec2(0x01010101u);
    let high = (index >> vec2(1u)) & vec2(0x01010101u);
    let magnitude = vec2(steps.x * 0x01010101u) + low * steps.y + high * steps.z;
    let bits = sign & vec2(0x01010101u);
    let mask = (bits << vec2(8u)) - bits;
    let positive = vec2(0x40404040u) + magnitude;
    let negative = vec2(0x40404040u) - magnitude;
    return positive ^ ((positive ^ negative) & mask);
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let nibbles = s.words[sub / 4u] >> (8u * (sub & 3u));
    let scale = vec2(2u * (nibbles & 15u) + 1u, 2u * ((nibbles >> 4u) & 15u) + 1u);
    let w = plane_main[block] >> vec2(2u * half);
    // The signs of columns 0..16 in bits 0 and 1 of each byte, those of columns 16..32 in bits 4 and 5.
    let h = plane_high[block] >> (2u * half);
    let signs = vec2(h, h >> 1u);
    let q = vec4(values(w, signs, s.steps), values(w >> vec2(4u), signs >> vec2(4u), s.steps));
    return PackedPart(q, s.d * vec2<f32>(scale), vec2(0.0));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
