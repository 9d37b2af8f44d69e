// The table of sixteen values of NF4.
import package::unpack::nibbles;

// The entries of the table in workgroup memory, and the value of one.
const ENTRIES: u32 = 16u;

fn entry(i: u32) -> f32 {
    return computed_values(i).x;
}

// Four of the values, selected by the two low bits of each index.
fn select_of_four(low: vec4<bool>, high: vec4<bool>, a: f32, b: f32, c: f32, d: f32) -> vec4<f32> {
    let first = select(vec4(a), vec4(b), low);
    return select(first, select(vec4(c), vec4(d), low), high);
}

// The values at the indices in the low nibbles of a word's bytes, as the exact floats of the reference.
fn computed_values(word: u32) -> vec4<f32> {
    let index = nibbles(word);
    let b0 = (index & vec4(1u)) != vec4(0u);
    let b1 = (index & vec4(2u)) != vec4(0u);
    let b2 = (index & vec4(4u)) != vec4(0u);
    let v0 = select_of_four(b0, b1, -1.0, -0.6961928, -0.52507305, -0.3949175);
    let v1 = select_of_four(b0, b1, -0.28444138, -0.18477343, -0.091050036, 0.0);
    let v2 = select_of_four(b0, b1, 0.0795803, 0.1609302, 0.2461123, 0.33791524);
    let v3 = select_of_four(b0, b1, 0.44070983, 0.562617, 0.72295684, 1.0);
    return select(select(v0, v1, b2), select(v2, v3, b2), index >= vec4(8u));
}
