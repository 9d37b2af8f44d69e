// F32: blocks of 32 floats.
import package::unpack::Part;
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<f32>>; // [blocks, 8]

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

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let a = 4u * part - 2u * half;
    let q = array(plane_main[a], plane_main[a + 1u], plane_main[a + 4u], plane_main[a + 5u]);
    return Part(q, vec2(1.0), vec2(0.0));
}
