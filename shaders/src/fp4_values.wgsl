// The 4-bit floats E2M1 (1 sign, 2 exponent, 1 mantissa; OCP Microscaling Formats 1.0), doubled so that they are integers.
import package::unpack::nibbles;

// The entries of the table in workgroup memory, and the value of one.
const ENTRIES: u32 = 16u;

fn entry(i: u32) -> f32 {
    return computed_values(i).x;
}

// The doubled values of all codes as halves, of each the high byte. The low ones are 0.
const BYTES = vec4<u32>(0x42403c00u, 0x4a484644u, 0xc2c0bc80u, 0xcac8c6c4u);

// The doubled values of the codes in the low nibbles of a word's bytes: magnitudes 0 1 2 3 4 6 8 12, packed in nibbles; bit 3
// is the sign.
fn computed_values(word: u32) -> vec4<f32> {
    let code = nibbles(word);
    let magnitude = vec4<f32>((vec4(0xc8643210u) >> (4u * (code & vec4(7u)))) & vec4(15u));
    return select(magnitude, -magnitude, code >= vec4(8u));
}

// The doubled values of the codes in the low nibbles of each word plus 12, so that no byte is negative and none carries.
fn computed_packed_values(code: vec2<u32>) -> vec2<u32> {
    // From code 4 on, the two low bits count twice, and 7 stands for 2 more.
    let is_upper = (code >> vec2(2u)) & vec2(0x01010101u);
    let low = code & (is_upper | (is_upper << vec2(1u)));
    let magnitude = (code & vec2(0x07070707u)) + low + 2u * (low & (low >> vec2(1u)));
    // With a sign, 15 minus the magnitude, minus 3.
    let is_negative = (code >> vec2(3u)) & vec2(0x01010101u);
    let mask = (is_negative << vec2(4u)) - is_negative;
    return (magnitude ^ mask) + (vec2(0x0c0c0c0cu) - mask);
}
