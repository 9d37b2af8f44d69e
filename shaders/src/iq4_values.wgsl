// The table of sixteen values of IQ4_NL and IQ4_XS: ggml's signed bytes -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38,
// 53 69 89 113.
import package::unpack::nibbles;

// The entries of the table in workgroup memory, and the value of one.
const ENTRIES: u32 = 16u;

fn entry(i: u32) -> f32 {
    return computed_values(i).x;
}

// All values plus 128, a byte each.
const BYTES = vec4<u32>(0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u);

// The values at the indices in the low nibbles of a word's bytes.
fn computed_values(word: u32) -> vec4<f32> {
    let index = nibbles(word);
    let low = select(vec4(0xbfad9881u), vec4(0xf6eaddcfu), (index & vec4(4u)) != vec4(0u));
    let high = select(vec4(0x26190d01u), vec4(0x71594535u), (index & vec4(4u)) != vec4(0u));
    let entries = select(low, high, index >= vec4(8u));
    return vec4<f32>(vec4<i32>(entries << (24u - 8u * (index & vec4(3u)))) >> vec4(24u));
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
fn computed_packed_values(index: vec2<u32>) -> vec2<u32> {
    let m0 = byte_masks(index, 0u);
    let m1 = byte_masks(index, 1u);
    let m2 = byte_masks(index, 2u);
    let v0 = select_bytes(select_values(0x81818181u, 0x98989898u, m0), select_values(0xadadadadu, 0xbfbfbfbfu, m0), m1);
    let v1 = select_bytes(select_values(0xcfcfcfcfu, 0xddddddddu, m0), select_values(0xeaeaeaeau, 0xf6f6f6f6u, m0), m1);
    let v2 = select_bytes(select_values(0x01010101u, 0x0d0d0d0du, m0), select_values(0x19191919u, 0x26262626u, m0), m1);
    let v3 = select_bytes(select_values(0x35353535u, 0x45454545u, m0), select_values(0x59595959u, 0x71717171u, m0), m1);
    return select_bytes(select_bytes(v0, v1, m2), select_bytes(v2, v3, m2), byte_masks(index, 3u));
}
