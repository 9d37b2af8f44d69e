struct Inner {
    a: vec3<f32>,
    b: f32,
    c: vec2<u32>,
    d: vec3<i32>,
}

struct Outer {
    a: f32,
    inner: Inner,
    @size(32) b: vec3<f32>,
    @align(32) c: u32,
    d: array<Inner, 2>,
    e: array<vec3<f32>, 3>,
    f: mat3x3<f32>,
    g: mat4x2<f32>,
    @size(12) h: u32,
}

struct Trailing {
    count: atomic<u32>,
    first: vec3<f32>,
    items: array<Inner>,
}

struct Flags {
    on: bool,
    values: vec3<bool>,
}

@group(0) @binding(0) var<uniform> p: Outer;
@group(0) @binding(1) var<storage> q: array<Outer>;
@group(0) @binding(2) var<storage, read_write> r: Trailing;
@group(1) @binding(0) var<storage, read_write> single: f32;
@group(1) @binding(1) var<storage> fixed: array<vec3<u32>, 5>;
@group(1) @binding(7) var<storage, read_write> out: array<Outer>;

fn make(v: vec3<f32>) -> Inner {
    return Inner(v, v.x, vec2(1u), vec3<i32>(v));
}

@compute @workgroup_size(8, 4)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    let i = lid.x;
    r.items[i] = make(q[i].inner.a);
    r.items[i].d[lid.y] = 5;
    r.first = p.e[lid.y] + p.f * q[0].b + p.e[1];
    atomicAdd(&r.count, arrayLength(&r.items) + arrayLength(&q) + fixed[i].y);
    var copy = q[i];
    copy.e[i] = copy.d[lid.y].a;
    copy.g[lid.y] = p.g[i] + (p.g * vec4(1.0));
    out[i] = copy;
    out[i + 1u] = Outer();
    let flags = Flags(i > 3u, vec3<f32>(q[1].inner.d) > p.b);
    single = select(single, q[2].inner.b, flags.on && all(flags.values));
    out[2].d = array(make(p.b), Inner());
}
