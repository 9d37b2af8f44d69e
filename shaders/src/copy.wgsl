// out[out_offset + at . out_strides] = x[x_offset + at . x_strides] for every place `at` of dims:
// transposes, slices, and parts of what is put together.
import constants::WG;

struct CopyParams {
    len: u32,
    rank: u32,
    x_offset: u32,
    out_offset: u32,
    dims: array<vec4<u32>, 2>,
    x_strides: array<vec4<u32>, 2>,
    out_strides: array<vec4<u32>, 2>,
}

@group(0) @binding(0) var<uniform> p: CopyParams;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

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
    var source = p.x_offset;
    var place = p.out_offset;
    for (var d = p.rank; d > 0u; d--) {
        let quad = (d - 1u) / 4u;
        let lane = (d - 1u) % 4u;
        let size = p.dims[quad][lane];
        let at = rest % size;
        rest /= size;
        source += at * p.x_strides[quad][lane];
        place += at * p.out_strides[quad][lane];
    }
    out[place] = x[source];
}
