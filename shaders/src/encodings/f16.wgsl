// F16: 32 half-precision floats a block.
import package::unpack::Block;
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 4]

// Blocks that share one `Scales`.
const SUPER: u32 = 1u;

struct Scales {
    unused: u32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(super_block);
}

fn four(a: u32, b: u32) -> vec4<f32> {
    return vec4(unpack2x16float(a), unpack2x16float(b));
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let a = plane_main[4u * block];
    let b = plane_main[4u * block + 1u];
    let c = plane_main[4u * block + 2u];
    let d = plane_main[4u * block + 3u];
    return Block(
        four(a.x, a.y), four(a.z, a.w), four(b.x, b.y), four(b.z, b.w),
        four(c.x, c.y), four(c.z, c.w), four(d.x, d.y), four(d.z, d.w),
    );
}
