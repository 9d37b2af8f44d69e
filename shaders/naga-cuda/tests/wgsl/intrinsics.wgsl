@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> z: array<vec4<i32>>;

fn cuda_mma_m16n8k16(a: vec4<u32>, b: vec2<u32>, c: vec4<f32>) -> vec4<f32> {
    return c + f32(a.x ^ b.y);
}

fn cuda_mma_m16n8k32_i8(a: vec4<u32>, b: vec2<u32>, c: vec4<i32>) -> vec4<i32> {
    return c + i32(a.x ^ b.y);
}

fn cuda_mma_m16n8k16_i8(a: vec2<u32>, b: u32, c: vec4<i32>) -> vec4<i32> {
    return c + i32(a.x ^ b);
}

fn cuda_byte_perm(low: u32, high: u32, selector: u32) -> u32 {
    return low + high + selector;
}

fn cuda_add_f16x2(a: u32, b: u32) -> u32 {
    return a + b;
}

fn cuda_fma_f16x2(a: u32, b: u32, c: u32) -> u32 {
    return a * b + c;
}

@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) lid: u32) {
    let a = cuda_fma_f16x2(cuda_byte_perm(x[0], x[1], 0x4140u), x[2], x[3]);
    y[lid] = cuda_mma_m16n8k16(vec4(a, cuda_add_f16x2(x[2], x[3]), x[3], x[4]), vec2(x[5], x[6]), y[lid]);
    z[lid] = cuda_mma_m16n8k16_i8(vec2(a, x[1]), x[2], cuda_mma_m16n8k32_i8(vec4(a, x[2], x[3], x[4]), vec2(x[5], x[6]), z[lid]));
}
