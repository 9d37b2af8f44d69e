// F32: 32 floats a block.
import package::unpack::Block;
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 8]

// Blocks that share one `Scales`.
const SUPER: u32 = 1u;

struct Scales {
    unused: u32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(super_block);
}

fn group_of(block: u32, g: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(plane_main[8u * block + g]);
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    return Block(
        group_of(block, 0u), group_of(block, 1u), group_of(block, 2u), group_of(block, 3u),
        group_of(block, 4u), group_of(block, 5u), group_of(block, 6u), group_of(block, 7u),
    );
}
