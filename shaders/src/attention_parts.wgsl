// The parts that `attention_split` writes where there are several chunks.
import package::attention_params::p;

@group(0) @binding(8) var<storage, read_write> parts: array<vec4<f32>>; // [MAX_PARTS, heads, vec4s of a value + 1], where several chunks are

// Stores vec4 `i` of a part that begins at `part`: the weighted sum of values and, with the first, the score that has the weight 1
// and the sum of weights.
fn store_part(part: u32, i: u32, value_vec4s: u32, sum: vec4<f32>, row_max: f32, total: f32) {
    // Zeros beyond the value, whatever the cache has there.
    let elements = vec4(4u * i) + vec4(0u, 1u, 2u, 3u);
    parts[part + i] = select(vec4(0.0), sum, elements < vec4(p.value_dim));
    if i == 0u {
        // Of an empty chunk both are 0. A comparison with `>` would drop NaN.
        parts[part + value_vec4s] = vec4(select(0.0, row_max, total != 0.0), total, 0.0, 0.0);
    }
}
