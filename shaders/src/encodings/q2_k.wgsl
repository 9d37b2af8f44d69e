// Q2_K: super-blocks of 8 blocks with 2-bit numbers `q`, and a 4-bit scale and minimum for every 16
// weights. A weight is `d * scale * q - dmin * minimum`.
import package::unpack::{Part, PackedPart, unpacked};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 8, 5]

const ZERO: f32 = 0.0;
const PACKED_ZERO: i32 = 0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 3.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 2u;
const HAS_OFFSETS: bool = true;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 8u;

struct Scales {
    // The scale of the scales (d) and that of the minimums (dmin).
    d: vec2<f32>,
    // 16 bytes: a scale in the low nibble, a minimum in the high one.
    @if(!mma) words: vec4<u32>,
    // Where they begin in `plane_scales`: an invocation needs one of the words.
    @if(mma) first_word: u32,
}

fn load_scales(super_block: u32) -> Scales {
    let i = 5u * super_block;
    let d = unpack2x16float(plane_scales[i]);
    @if(!mma)
    return Scales(d, vec4(plane_scales[i + 1u], plane_scales[i + 2u], plane_scales[i + 3u], plane_scales[i + 4u]));
    @if(mma)
    return Scales(d, i + 1u);
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    @if(!mma) let word = s.words[sub / 2u];
    @if(mma) let word = plane_scales[s.first_word + sub / 2u];
    let pair = word >> (16u * (sub & 1u));
    let scale = vec2(pair & 15u, (pair >> 8u) & 15u);
    let minimum = vec2((pair >> 4u) & 15u, (pair >> 12u) & 15u);
    let w = plane_main[block] >> vec2(2u * half);
    let q = vec4(w & vec2(0x03030303u), (w >> vec2(4u)) & vec2(0x03030303u));
    return PackedPart(q, s.d.x * vec2<f32>(scale), -s.d.y * vec2<f32>(minimum));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    return unpacked(load_packed(part, part / 2u, sub, half, s));
}
