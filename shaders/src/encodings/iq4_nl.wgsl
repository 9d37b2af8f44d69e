// IQ4_NL: blocks of 32 nibbles, each an index into a table of 16 values, and a scale `d`. A weight is
// `value * d`.
import package::unpack::{Part, PackedPart, bytes, low_nibbles, high_nibbles, half_at};
import constants::PLANES;

@group(0) @binding(PLANES) var<storage, read> plane_main: array<vec2<u32>>; // [blocks, 2]
@group(0) @binding(PLANES + 1) var<storage, read> plane_scales: array<u32>; // [blocks / 2], two halves a word

const ZERO: f32 = 0.0;
const PACKED_ZERO: i32 = 0;
// The largest magnitude of `q - ZERO`.
const MAX_MAGNITUDE: f32 = 127.0;
// Scales of a part, and offsets if there are any.
const SCALES: u32 = 1u;
const HAS_OFFSETS: bool = false;
// Blocks that share one `Scales` value.
const BLOCKS_PER_SCALES: u32 = 1u;

struct Scales {
    d: f32,
}

fn load_scales(super_block: u32) -> Scales {
    return Scales(half_at(plane_scales[super_block / 2u], super_block));
}

// The values at four indices. The table is ggml's 16 signed bytes: -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113.
fn values(index: vec4<u32>) -> vec4<f32> {
    let low = select(vec4(0xbfad9881u), vec4(0xf6eaddcfu), (index & vec4(4u)) != vec4(0u));
    let high = select(vec4(0x26190d01u), vec4(0x71594535u), (index & vec4(4u)) != vec4(0u));
    let word = select(low, high, index >= vec4(8u));
    return vec4<f32>(vec4<i32>(word << (24u - 8u * (index & vec4(3u)))) >> vec4(24u));
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

// 0xff in each byte whose bit `i` is set in `words`.
fn byte_masks(words: vec2<u32>, i: u32) -> vec2<u32> {
    let bits = (words >> vec2(i)) & vec2(0x01010101u);
    return (bits << vec2(8u)) - bits;
}

// The bytes of `b` where the mask is set, else those of `a`.
fn select_bytes(a: vec2<u32>, b: vec2<u32>, mask: vec2<u32>) -> vec2<u32> {
    return a ^ ((a ^ b) & mask);
}

// `select_bytes` of two bytes that stand in all places of their words.
fn select_values(a: u32, b: u32, mask: vec2<u32>) -> vec2<u32> {
    return select_bytes(vec2(a), vec2(b), mask);
}

// The values at the indices in the low nibbles of each word: a bit of the index after the other halves the table, so that all
// bytes of a word are looked up at once.
fn packed_values(index: vec2<u32>) -> vec2<u32> {
    let m0 = byte_masks(index, 0u);
    let m1 = byte_masks(index, 1u);
    let m2 = byte_masks(index, 2u);
    let v0 = select_bytes(select_values(0x81818181u, 0x98989898u, m0), select_values(0xadadadadu, 0xbfbfbfbfu, m0), m1);
    let v1 = select_bytes(select_values(0xcfcfcfcfu, 0xddddddddu, m0), select_values(0xeaeaeaeau, 0xf6f6f6f6u, m0), m1);
    let v2 = select_bytes(select_values(0x01010101u, 0x0d0d0d0du, m0), select_values(0x19191919u, 0x26262626u, m0), m1);
    let v3 = select_bytes(select_values(0x35353535u, 0x45454545u, m0), select_values(0x59595959u, 0x71717171u, m0), m1);
    return select_bytes(select_bytes(v0, v1, m2), select_bytes(v2, v3, m2), byte_masks(index, 3u));
}

fn load_packed(part: u32, block: u32, sub: u32, half: u32, s: Scales) -> PackedPart {
    let w = plane_main[part];
    let q = vec4(packed_values(w), packed_values(w >> vec2(4u)));
    return PackedPart(q, vec2(s.d), vec2(0.0));
}
