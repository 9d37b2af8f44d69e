// Decoding the blocks of any encoding.
import package::encoding::{load_part, Scales, ZERO, HAS_OFFSETS};
import package::unpack::{Block, Part};

// The weights of a part.
fn decode(part: Part) -> array<vec4<f32>, 4> {
    var w = array(
        part.scale.x * (part.q[0] - ZERO),
        part.scale.x * (part.q[1] - ZERO),
        part.scale.y * (part.q[2] - ZERO),
        part.scale.y * (part.q[3] - ZERO),
    );
    if HAS_OFFSETS {
        w[0] += part.offset.x;
        w[1] += part.offset.x;
        w[2] += part.offset.y;
        w[3] += part.offset.y;
    }
    return w;
}

// Block `block` of a weight, which is block `sub` of those that share the scales `s`.
fn load_block(block: u32, sub: u32, s: Scales) -> Block {
    let a = decode(load_part(2u * block, sub, 0u, s));
    let b = decode(load_part(2u * block + 1u, sub, 1u, s));
    return Block(a[0], a[1], b[0], b[1], a[2], a[3], b[2], b[3]);
}
