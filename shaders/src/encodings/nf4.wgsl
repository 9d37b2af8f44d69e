// NF4 of bitsandbytes (Dettmers et al. 2023, "QLoRA"): blocks of 32 nibbles, each an index into a table of 16 values, and
// a scale `d`. A weight is `value * d`.
import package::nibble_plane::plane_main;
import package::unpack::{Part, bytes, low_nibbles, high_nibbles};
import constants::PLANES;

@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<f32>; // [blocks]

const ZERO: f32 = 0.0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 1.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(plane_scales[super_block]);
}

// Four of the values, selected by the two low bits of each index.
fn select_of_four(low: vec4<bool>, high: vec4<bool>, a: f32, b: f32, c: f32, d: f32) -> vec4<f32> {
    let first = select(vec4(a), vec4(b), low);
    return select(first, select(vec4(c), vec4(d), low), high);
}

// The values at four indices, as the exact floats of the reference.
fn values(index: vec4<u32>) -> vec4<f32> {
    let b0 = (index & vec4(1u)) != vec4(0u);
    let b1 = (index & vec4(2u)) != vec4(0u);
    let b2 = (index & vec4(4u)) != vec4(0u);
    let v0 = select_of_four(b0, b1, -1.0, -0.6961928, -0.52507305, -0.3949175);
    let v1 = select_of_four(b0, b1, -0.28444138, -0.18477343, -0.091050036, 0.0);
    let v2 = select_of_four(b0, b1, 0.0795803, 0.1609302, 0.2461123, 0.33791524);
    let v3 = select_of_four(b0, b1, 0.44070983, 0.562617, 0.72295684, 1.0);
    return select(select(v0, v1, b2), select(v2, v3, b2), index >= vec4(8u));
}

fn load_part(part: u32, sub: u32, half: u32, s: Scales) -> Part {
    let w = plane_main[part];
    let low = low_nibbles(w);
    let high = high_nibbles(w);
    let q = array(
        values(bytes(low.x)), values(bytes(low.y)), values(bytes(high.x)), values(bytes(high.y)),
    );
    return Part(q, vec2(s.d), vec2(0.0));
}
