struct Counter {
    values: array<vec3<f32>, 4>,
    n: u32,
}

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
var<workgroup> shared_counter: Counter;
var<workgroup> ticket: atomic<i32>;
var<private> own: Counter;

fn add(target_value: ptr<function, f32>, v: f32) {
    *target_value += v;
}

fn add_shared(i: u32) {
    let c = &shared_counter;
    (*c).values[i] += vec3(1.0);
    c.values[1][i] = 2.0;
    c.n += 1u;
}

fn shift(v: ptr<function, vec3<f32>>, by: u32) {
    (*v).y += f32(by);
}

fn bump(c: ptr<function, Counter>, i: u32) {
    shift(&(*c).values[i], (*c).n);
    (*c).values[i + 1u].z += 1.0;
}

fn add_private(c: ptr<private, vec3<f32>>, i: u32) -> f32 {
    (*c)[i] = 4.0;
    return (*c)[i + 1u];
}

fn take() -> i32 {
    let t = &ticket;
    return atomicAdd(t, 1);
}

fn fill(a: ptr<function, array<f32, 4>>) {
    for (var i = 0u; i < 4u; i++) {
        (*a)[i] = f32(i);
    }
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lid: u32) {
    var values: array<f32, 4>;
    fill(&values);
    add(&values[lid], 2.0);
    let p = &values[2];
    add(p, *p);
    var counter = own;
    bump(&counter, lid);
    own = counter;
    add_shared(lid);
    let t = take();
    let element = &x[lid];
    *element = values[lid & 3u] + add_private(&own.values[lid], 1u) + f32(t) + shared_counter.values[1].x;
}
