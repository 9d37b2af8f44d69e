// F32: blocks of 32 floats.
import package::unpack::Block;
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 8]

// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    unused: u32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(super_block);
}

fn load_vec4(block: u32, g: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(plane_main[8u * block + g]);
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    return Block(
        load_vec4(block, 0u), load_vec4(block, 1u), load_vec4(block, 2u), load_vec4(block, 3u),
        load_vec4(block, 4u), load_vec4(block, 5u), load_vec4(block, 6u), load_vec4(block, 7u),
    );
}
