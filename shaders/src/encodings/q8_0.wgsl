// Q8_0: blocks of 32 signed bytes `q` and a scale `d`. A weight is `q * d`.
import package::unpack::{Block, signed_bytes, half_at};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec4<u32>>; // [blocks, 2]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 2], two halves a word

// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(half_at(plane_scales[super_block / 2u], super_block));
}

fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let a = plane_main[2u * block];
    let b = plane_main[2u * block + 1u];
    return Block(
        signed_bytes(a.x) * s.d, signed_bytes(a.y) * s.d,
        signed_bytes(a.z) * s.d, signed_bytes(a.w) * s.d,
        signed_bytes(b.x) * s.d, signed_bytes(b.y) * s.d,
        signed_bytes(b.z) * s.d, signed_bytes(b.w) * s.d,
    );
}
