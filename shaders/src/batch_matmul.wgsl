// out[batch, i, j] = sum over k of a[batch, i, k] * b[batch, k, j], both read by their strides, so that
// neither is copied to be transposed or repeated.
import constants::WG;

struct BatchMatmulParams {
    len: u32,
    rank: u32,
    m: u32,
    n: u32,
    k: u32,
    a_row: u32,
    a_col: u32,
    b_row: u32,
    b_col: u32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
    dims: array<vec4<u32>, 2>,
    a_strides: array<vec4<u32>, 2>,
    b_strides: array<vec4<u32>, 2>,
}

@group(0) @binding(0) var<uniform> p: BatchMatmulParams;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [batches, m, n]

const TILE = vec2<u32>(WG, 1u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let i = (wid.x + wid.y * groups.x) * WG + lid;
    if i >= p.len {
        return;
    }
    let row = i / p.n;
    var at_a = row % p.m * p.a_row;
    var at_b = i % p.n * p.b_col;
    var rest = row / p.m;
    for (var d = p.rank; d > 0u; d--) {
        let quad = (d - 1u) / 4u;
        let lane = (d - 1u) % 4u;
        let size = p.dims[quad][lane];
        let at = rest % size;
        rest /= size;
        at_a += at * p.a_strides[quad][lane];
        at_b += at * p.b_strides[quad][lane];
    }
    var sum = 0.0;
    for (var k = 0u; k < p.k; k++) {
        sum = fma(a[at_a], b[at_b], sum);
        at_a += p.a_col;
        at_b += p.b_row;
    }
    out[i] = sum;
}
