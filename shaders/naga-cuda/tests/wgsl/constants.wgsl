struct Entry {
    key: vec3<f32>,
    values: array<vec2<i32>, 2>,
    scale: f32,
}

const ENTRIES = array(Entry(vec3(1.0, 2.0, 3.0), array(vec2(1, 2), vec2(3)), 0.5), Entry());
const DIRECTIONS = vec4(1, -2, 3, -2147483648);
const ROTATION = mat3x3<f32>(1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0);
const MATRICES = array<mat2x3<f32>, 2>(mat2x3<f32>(), mat2x3<f32>(1.0, 2.0, 3.0, 4.0, 5.0, 6.0));
const SUM = vec2(1.0f) + vec2(3.0f, 4.0f);
const IS_SAME = vec2(3.0f) == vec2(3.0f, 4.0f);
const ALIAS = ENTRIES;
const N = 4u;
var<private> table: array<Entry, 2> = ENTRIES;
var<private> point = vec3(SUM, 2.0).zxy;
var<workgroup> sums: array<f32, N * 2u>;

@group(0) @binding(0) var<storage, read_write> x: array<f32, N>;

@compute @workgroup_size(N, N - 2u)
fn main(@builtin(local_invocation_index) i: u32) {
    const local = array(vec3(1.0), vec3(2.0));
    var copy = ALIAS;
    var first = ENTRIES[0];
    first.values[i] = vec2(DIRECTIONS[i]);
    sums[i] = ENTRIES[i].key[i] + f32(ALIAS[i].values[1][i]) + ROTATION[i].y + MATRICES[i][1].z + f32(ENTRIES[1].values[i].x);
    x[i] = sums[N - i] + SUM[i] + select(1.0, 2.0, IS_SAME[i]) + local[i].z + table[i].scale + point[i] + copy[i].key.x;
    x[i & 3u] += f32(vec4(vec3(vec2(6, 7), 8), 9)[i]) + f32(first.values[0].y) + vec4(vec2(1.0, x[0]), SUM)[i];
}
