// F8 E4M3 (Micikevicius et al. 2022, "FP8 formats for deep learning"): blocks of 32 floats `q` of one byte
// and a scale `d`. A weight is `q * d`. The format's NaN decodes to 480; no conversion produces it.
import package::unpack::{Block, bytes};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 2]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<f32>; // [blocks]

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

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let a = plane_main[2u * block];
    let b = plane_main[2u * block + 1u];
    return Block(
        floats(a.x) * s.d, floats(a.y) * s.d, floats(a.z) * s.d, floats(a.w) * s.d,
        floats(b.x) * s.d, floats(b.y) * s.d, floats(b.z) * s.d, floats(b.w) * s.d,
    );
}
