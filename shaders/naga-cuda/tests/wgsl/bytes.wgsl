@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;

fn unsigned_bytes(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(255u));
}

@compute @workgroup_size(1)
fn main() {
    y[0] = unsigned_bytes(x[0]);
    y[1] = vec4<f32>(unpack4xU8(x[1]));
    y[2] = vec4<f32>(vec4<i32>(vec4(x[2]) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u));
    y[3] = vec4<f32>(unpack4xI8(x[3]));
    // Not those: nibbles, another order, bytes of several words.
    y[4] = vec4<f32>((vec4(x[4]) >> vec4(0u, 8u, 16u, 24u)) & vec4(15u));
    y[5] = vec4<f32>((vec4(x[5]) >> vec4(24u, 16u, 8u, 0u)) & vec4(255u));
    y[6] = vec4<f32>((vec4(x[6], x[6], x[7], x[7]) >> vec4(0u, 8u, 16u, 24u)) & vec4(255u));
}
