// BF16: blocks of 32 bfloat16 numbers, which are the upper halves of floats.
import package::unpack::Block;
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 4]

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

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let a = plane_main[4u * block];
    let b = plane_main[4u * block + 1u];
    let c = plane_main[4u * block + 2u];
    let d = plane_main[4u * block + 3u];
    return Block(
        unpack_vec4(a.x, a.y), unpack_vec4(a.z, a.w), unpack_vec4(b.x, b.y), unpack_vec4(b.z, b.w),
        unpack_vec4(c.x, c.y), unpack_vec4(c.z, c.w), unpack_vec4(d.x, d.y), unpack_vec4(d.z, d.w),
    );
}
