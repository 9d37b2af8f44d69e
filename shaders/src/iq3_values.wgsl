// The values of IQ3: eight magnitudes, 2 6 10 14 18 22 26 30 in the grids of ggml's IQ3_S, of which the last is 31 in those
// of IQ3_XXS, with a sign in bit 3.

// The numbers of the codes in the low nibbles of each word: 32 plus the value. `last` is added to the largest magnitude, in each
// byte.
fn packed_numbers(code: vec2<u32>, last: u32) -> vec2<u32> {
    let index = code & vec2(0x07070707u);
    let is_last = ((index + vec2(0x01010101u)) >> vec2(3u)) & vec2(last);
    let magnitude = (index << vec2(2u)) + vec2(0x02020202u) + is_last;
    // With a sign, 63 minus the magnitude, minus 31.
    let is_negative = (code >> vec2(3u)) & vec2(0x01010101u);
    let mask = (is_negative << vec2(6u)) - is_negative;
    return (magnitude ^ mask) + (vec2(0x20202020u) - mask);
}

// The table's entries.
const ENTRIES: u32 = 32u;

// The value of an entry: the low four bits of `i` are a code, and bit 4 is set for the values of IQ3_XXS.
fn entry(i: u32) -> f32 {
    let number = packed_numbers(vec2(i & 15u), i >> 4u).x & 0xffu;
    return f32(number) - 32.0;
}
