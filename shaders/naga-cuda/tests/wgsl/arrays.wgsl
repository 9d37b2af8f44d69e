const TABLE = array<f32, 5>(0.0, 1.5, -2.0, 1e10, 0.1);
const NESTED = array(array(vec2(1u, 2u), vec2(3u)), array(vec2<u32>(), vec2(5u, 6u)));
const VECTORS = array(vec3(1.0, 2.0, 3.0), vec3(4.0));

struct Pair {
    a: array<vec4<f32>, 2>,
    b: array<array<u32, 3>, 2>,
}

@group(0) @binding(0) var<storage> x: array<array<vec4<f32>, 4>>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> tile: array<array<f32, 33>, 8>;
var<workgroup> pair: Pair;
var<private> scratch: array<vec3<f32>, 7>;
var<private> total: u32 = 3u;

fn at(a: array<f32, 5>, i: i32) -> f32 {
    return a[i];
}

@compute @workgroup_size(32, 8)
fn main(@builtin(local_invocation_id) lid: vec3<u32>, @builtin(workgroup_id) wid: vec3<u32>) {
    let i = i32(lid.x) - 3;
    tile[lid.y][lid.x] = x[wid.x][lid.y][lid.x];
    pair.a[lid.x][i] = 1.0;
    pair.b[1][lid.y] = total;
    workgroupBarrier();
    scratch[i] = VECTORS[lid.x];
    scratch[lid.y][i] = 2.0;
    var local = array<vec4<f32>, 2>();
    local[1][lid.x] = 3.0;
    var v = vec4<f32>(1.0, 2.0, 3.0, 4.0);
    v[lid.y] = v[i] + local[lid.x & 1u].y;
    let value = x[wid.x];
    y[i] = TABLE[i] + at(TABLE, i) + f32(NESTED[lid.x][lid.y].y) + scratch[2].z + v.x + v[lid.x] + value[lid.x][i];
    y[7] = array(1.0, 2.0, 3.0)[lid.x] + tile[lid.y][31u - lid.x] + pair.a[0].x + f32(pair.b[lid.x][i]);
    y[arrayLength(&y) - 1u] = vec3(1.0, 2.0, y[0])[i];
}
