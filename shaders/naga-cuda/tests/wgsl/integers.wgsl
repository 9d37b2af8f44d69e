@group(0) @binding(0) var<storage, read_write> i: array<i32, 16>;
@group(0) @binding(1) var<storage, read_write> u: array<u32, 16>;
@group(0) @binding(2) var<storage, read_write> v: array<vec4<i32>, 4>;
@group(0) @binding(3) var<storage, read_write> w: array<vec3<u32>, 4>;

@compute @workgroup_size(1)
fn main() {
    i[0] = i[1] + i[2] - i[3] * i[4];
    i[5] = i[6] / i[7] % i[8];
    i[9] = -i[10] ^ ~i[11] & (i[12] | -2147483648);
    i[13] = (i[14] << u[0]) >> u[1];
    u[2] = u[3] / u[4] % u[5] + (u[6] << u[7] >> 3u);
    v[0] = v[1] + v[2] * v[3] / v[0] % v[1] - 3 * v[2];
    v[1] = -v[2] << vec4<u32>(1u, 2u, 3u, u[9]);
    v[2] = min(v[0], v[1]) + max(v[2], v[3]) + clamp(v[0], v[1], v[2]) + abs(v[3]) + sign(v[2]);
    w[0] = w[1] / w[2] + w[3] % w[1] + (~w[0] ^ w[1]) - vec3(7u);
    let less = v[0] < v[1];
    v[3] = select(v[0], v[1], less & (v[2] >= v[3]) | !(v[0] == v[2]));
    i[15] = select(i[0], i[1], any(less) && all(v[0] != v[1]) || i[2] <= i[3]);
    u[8] = u32(dot(v[0], v[1])) + dot(w[0], w[1]);
    w[2] = cross_of(w[0]);
}

fn cross_of(a: vec3<u32>) -> vec3<u32> {
    return a.zxy * a.yzx;
}
