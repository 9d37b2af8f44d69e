@group(0) @binding(0) var<storage, read_write> f: array<f32>;
@group(0) @binding(1) var<storage, read_write> v: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> t: array<vec3<f32>>;
@group(0) @binding(3) var<storage, read_write> i: array<vec4<i32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let a = f[id.x];
    let b = v[id.x];
    let c = t[id.x];
    f[0] = abs(a) + sign(a) + ceil(a) + floor(a) + round(a) + trunc(a) + fract(a) + saturate(a) + a % 3.0;
    f[1] = exp(a) + exp2(a) + log(a) + log2(a) + pow(a, 2.5) + sqrt(a) + inverseSqrt(a) + fma(a, a, a);
    f[2] = sin(a) + cos(a) + tan(a) + asin(a) + acos(a) + atan(a) + atan2(a, b.x) + sinh(a) + cosh(a) + tanh(a);
    f[3] = asinh(a) + acosh(a) + atanh(a) + radians(a) + degrees(a) + step(a, 1.0) + smoothstep(0.0, 1.0, a);
    f[4] = mix(a, b.x, 0.5) + length(b) + distance(b, b.wzyx) + dot(c, c.zyx) + length(a) + ldexp(a, i[0].x);
    v[0] = abs(b) + sign(b) + round(b) + exp(b) + tanh(b) + pow(b, b) + mix(b, b.yxwz, a) + mix(b, b, b) + b % b;
    v[1] = fma(b, b, b) + step(b, b) + smoothstep(b, b, b) + normalize(b) + min(b, b) + clamp(b, b, b) + saturate(b);
    v[2] = 2.0 * b + b * 3.0 - b / b + -b + atan2(b, b) + fract(b) + ldexp(b, i[0]) + quantizeToF16(b);
    t[0] = cross(c, c.zxy) + normalize(c) + reflect(c, c) + refract(c, c, a) + faceForward(c, c, c) + trunc(c);
    let m = modf(a);
    let e = frexp(a);
    f[5] = m.fract + m.whole + e.fract + f32(e.exp);
    let m3 = modf(c);
    let e3 = frexp(c);
    t[1] = m3.fract + m3.whole + e3.fract + vec3<f32>(e3.exp);
    let m4 = modf(b);
    v[3] = m4.fract * m4.whole + frexp(b).fract;
    i[1] = vec4<i32>(b) + vec4<i32>(vec4<u32>(b)) + bitcast<vec4<i32>>(b) + vec4<i32>(b < b.wzyx);
    f[6] = f32(i[0].x) + f32(u32(a)) + bitcast<f32>(i[0].y) + f32(a > 1.0) + f32(bool(a)) + 1e-45 + 3.4e38;
}
