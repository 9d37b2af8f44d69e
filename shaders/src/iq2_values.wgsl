// The values of IQ2: three magnitudes, 8 25 43 in the grids of ggml's IQ2 and 1 7 9 in those of IQ1, with a sign.

// The magnitude of index 0, and what is added for bits 0 and 1 of an index.
fn steps_of(is_iq1: bool) -> vec3<u32> {
    return select(vec3(8u, 17u, 35u), vec3(1u, 6u, 8u), is_iq1);
}

// The numbers of four indices, one in the two low bits of each byte, with signs in the lowest bits: 64 plus the value.
fn packed_numbers(index: vec2<u32>, sign: vec2<u32>, steps: vec3<u32>) -> vec2<u32> {
    let low = index & vec2(0x01010101u);
    let high = (index >> vec2(1u)) & vec2(0x01010101u);
    let magnitude = vec2(steps.x * 0x01010101u) + low * steps.y + high * steps.z;
    // With a sign, 127 minus the magnitude, minus 63.
    let is_negative = sign & vec2(0x01010101u);
    let mask = (is_negative << vec2(7u)) - is_negative;
    return (magnitude ^ mask) + (vec2(0x40404040u) - mask);
}

// The table's entries.
const ENTRIES: u32 = 16u;

// The value of an entry: bits 0 and 1 of `i` are an index, bit 2 is the sign, and bit 3 is set for the values of IQ1.
fn entry(i: u32) -> f32 {
    let number = packed_numbers(vec2(i & 3u), vec2((i >> 2u) & 1u), steps_of(i >= 8u)).x & 0xffu;
    return f32(number) - 64.0;
}
