// BF16: blocks of 32 bfloat16 numbers, which are the upper halves of floats.
import package::unpack::Part;
@if(in_order) import package::unpack::HalfFloats;
@if(in_order) import package::half_precision::{half_scale, half_unscale, max_magnitude};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 4]

const ZERO: f32 = 0.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    unused: u32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(super_block);
}

fn unpack_vec4(a: u32, b: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4(a << 16u, a & 0xffff0000u, b << 16u, b & 0xffff0000u));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let a = plane_main[2u * part - half];
    let b = plane_main[2u * part - half + 2u];
    let q = array(unpack_vec4(a.x, a.y), unpack_vec4(a.z, a.w), unpack_vec4(b.x, b.y), unpack_vec4(b.z, b.w));
    return Part(q, vec2(1.0), vec2(0.0));
}

// The words of a block, and what tensor cores multiply: halves, scaled by a power of two, so that those of less than 2^-25 of the
// block's largest number lose bits.
@if(in_order)
fn load_block(block: u32) -> array<vec4<u32>, 4> {
    let at = 4u * block;
    return array(plane_main[at], plane_main[at + 1u], plane_main[at + 2u], plane_main[at + 3u]);
}

@if(in_order)
fn half_floats(words: array<vec4<u32>, 4>) -> HalfFloats {
    var largest = 0.0;
    for (var i = 0u; i < 4u; i++) {
        let low = unpack_vec4(words[i].x, words[i].y);
        largest = max_magnitude(unpack_vec4(words[i].z, words[i].w), max_magnitude(low, largest));
    }
    let scale = half_scale(largest);
    var block: HalfFloats;
    for (var i = 0u; i < 4u; i++) {
        let low = scale * unpack_vec4(words[i].x, words[i].y);
        let high = scale * unpack_vec4(words[i].z, words[i].w);
        block.halves[i] = vec4(
            pack2x16float(low.xy), pack2x16float(low.zw), pack2x16float(high.xy), pack2x16float(high.zw),
        );
    }
    block.unit = half_unscale(largest);
    return block;
}
