enable f16;

@group(0) @binding(0) var<storage> a: array<mat4x4<f32>>;
@group(0) @binding(1) var<uniform> b: mat3x3<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<mat2x3<f32>>;
@group(0) @binding(3) var<storage, read_write> d: mat2x2<f16>;
@group(0) @binding(4) var<storage, read_write> v: array<vec4<f32>>;

@compute @workgroup_size(16)
fn main(@builtin(local_invocation_index) lid: u32) {
    let m = a[lid];
    v[0] = m * v[1] + v[2] * m + (m * a[1] - a[2] + 2.0 * m)[lid];
    v[1].x = determinant(m) + determinant(b) + f32(determinant(d)) + b[lid][1] + m[2][lid];
    c[lid] = b * c[0] + mat2x3<f32>(v[0].xyz, b[1]) * mat2x2<f32>(1.0, 2.0, 3.0, 4.0);
    c[1] = transpose(mat3x2<f32>(v[0].xy, v[1].zw, vec2(1.0)));
    c[2][lid] = c[1][0];
    c[2][1][lid] = 3.0;
    d = d * d + mat2x2<f16>(mat2x2<f32>(v[3].xy, v[3].zw)) * 2.0h;
    v[2] = vec4(mat2x2<f32>(d) * v[4].xy, (b * v[5].xyz).yz);
    var local = mat3x3<f32>();
    local[lid] = b[0];
    local[1][2] = 7.0;
    v[3] = vec4((local * b)[2], 1.0);
}
