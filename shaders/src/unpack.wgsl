// Bit manipulation that the weight encodings share.

// The 32 weights of a block: 8 groups of 4.
alias Block = array<vec4<f32>, 8>;

// The four bytes of a word, the lowest first.
fn bytes(word: u32) -> vec4<u32> {
    return (vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu);
}

// The four signed bytes of a word, as floats.
fn signed_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>(vec4<i32>(vec4(word) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u));
}

// The four bytes of a masked word, as floats.
fn masked_bytes(word: u32, mask: u32) -> vec4<f32> {
    return vec4<f32>(bytes(word & mask));
}

// The low nibble of each byte of a word, as floats. The words of a block hold weights 0..16 in their low
// nibbles and 16..32 in their high nibbles.
fn low_nibbles(word: u32) -> vec4<f32> {
    return masked_bytes(word, 0x0f0f0f0fu);
}

// The high nibble of each byte of a word, as floats.
fn high_nibbles(word: u32) -> vec4<f32> {
    return masked_bytes(word >> 4u, 0x0f0f0f0fu);
}

// Bit `g` of each byte of a word, as floats: the high bits of group `g` of a block.
fn bit_group(word: u32, g: u32) -> vec4<f32> {
    return masked_bytes(word >> g, 0x01010101u);
}

// The two bits at bit `shift` of each byte of a word, as floats.
fn two_bit_group(word: u32, shift: u32) -> vec4<f32> {
    return masked_bytes(word >> shift, 0x03030303u);
}

// The half-precision float in the low (`i` even) or high (`i` odd) half of a word.
fn half_at(word: u32, i: u32) -> f32 {
    return unpack2x16float(word >> (16u * (i & 1u))).x;
}
