enable f16;

struct Halves {
    a: f16,
    b: vec2<f16>,
    c: vec3<f16>,
    d: f16,
    e: vec4<f16>,
    f: array<vec3<f16>, 3>,
    g: array<f16, 3>,
}

@group(0) @binding(0) var<storage, read_write> s: Halves;
@group(0) @binding(1) var<storage, read_write> f: array<f32>;
var<workgroup> w: array<f16, 33>;

@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) lid: u32) {
    let a = s.a;
    let b = s.b;
    let c = s.c;
    let e = s.e;
    s.a = a + s.d * a - a / s.d % 2.0h + f16(f[0]) + f16(lid) + f16(i32(lid)) + f16(a < 1.0h) - -a;
    s.b = b * b + b - b / b + fma(b, b, b) + vec2<f16>(vec2<f32>(f[0], f[1])) + 2.0h * b + min(b, b);
    s.c = c * c + c + exp(c) + max(c, c) + s.f[lid] + clamp(c, c, c) + vec3(1.5h);
    s.e = e * e + fma(e, e, e) + e * 2.0h + sqrt(e) + abs(e) + mix(e, e, e) + select(e, e.wzyx, e < e) + floor(e);
    s.f[1] = s.f[2];
    s.g[lid] = s.g[lid + 1u] + dot(b, b) + dot(e, e) + length(c) + max(a, s.d) + smoothstep(a, a, a) + sign(a);
    f[lid] = f32(a) + f32(e.y) + unpack2x16float(pack2x16float(vec2<f32>(b))).x + f32(u32(a)) + f32(i32(a));
    w[lid] = a;
    workgroupBarrier();
    f[lid + 1u] = f32(w[32u - lid]) + f32(normalize(e).x) + f32(modf(a).fract) + f32(bool(a));
}
