// out[at] = condition[at . c_strides] != 0 ? a[at . a_strides] : b[at . b_strides] for every place
// `at` of dims.
import constants::WG;

struct ChooseParams {
    len: u32,
    rank: u32,
    pad0: u32,
    pad1: u32,
    dims: array<vec4<u32>, 2>,
    c_strides: array<vec4<u32>, 2>,
    a_strides: array<vec4<u32>, 2>,
    b_strides: array<vec4<u32>, 2>,
}

@group(0) @binding(0) var<uniform> p: ChooseParams;
@group(0) @binding(1) var<storage, read> condition: array<u32>;
@group(0) @binding(2) var<storage, read> a: array<u32>;
@group(0) @binding(3) var<storage, read> b: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<u32>; // dims

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
    var rest = i;
    var at_c = 0u;
    var at_a = 0u;
    var at_b = 0u;
    for (var d = p.rank; d > 0u; d--) {
        let quad = (d - 1u) / 4u;
        let lane = (d - 1u) % 4u;
        let size = p.dims[quad][lane];
        let at = rest % size;
        rest /= size;
        at_c += at * p.c_strides[quad][lane];
        at_a += at * p.a_strides[quad][lane];
        at_b += at * p.b_strides[quad][lane];
    }
    if condition[at_c] != 0u {
        out[i] = a[at_a];
    } else {
        out[i] = b[at_b];
    }
}
