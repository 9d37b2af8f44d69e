// Small conversions shared by the encodings.

// A block's 32 weights: 8 groups of 4.
alias Block = array<vec4<f32>, 8>;

// The four bytes of a word.
fn bytes(word: u32) -> vec4<u32> {
    return (vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu);
}

// The four signed bytes of a word.
fn signed_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4(word) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u));
}

// Four bytes, each of them with its bits below `mask` only.
fn masked(word: u32, mask: u32) -> vec4<f32> {
    return vec4<f32>(bytes(word & mask));
}

// The four bytes of nibbles that belong to group `g` of a block: its words hold weights 0..16 in
// their low halves and 16..32 in their high ones.
fn low_nibbles(word: u32) -> vec4<f32> {
    return masked(word, 0x0f0f0f0fu);
}

fn high_nibbles(word: u32) -> vec4<f32> {
    return masked(word >> 4u, 0x0f0f0f0fu);
}

// The bits of group `g` of a word of bits, one in each byte.
fn bit_group(word: u32, g: u32) -> vec4<f32> {
    return masked(word >> g, 0x01010101u);
}

// The crumbs (2 bits) at bit `shift` of each byte.
fn crumb_group(word: u32, shift: u32) -> vec4<f32> {
    return masked(word >> shift, 0x03030303u);
}

// The 16-bit float in the low (`i` even) or high (`i` odd) half of a word.
fn half_at(word: u32, i: u32) -> f32 {
    return unpack2x16float(word >> (16u * (i & 1u))).x;
}
