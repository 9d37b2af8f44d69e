// Strided copies: transposes, slices, and the parts of a concatenation.
import constants::WG;

/// `copy`: `out[out_offset + c . out_strides] = x[x_offset + c . x_strides]` for every coordinate `c`
/// within `dims`. Grid: `[len]`.
struct CopyParams {
    /// Elements to copy: the product of `dims`.
    len: u32,
    /// Number of dimensions, at most 8.
    rank: u32,
    /// Index of the first element in `x`.
    x_offset: u32,
    /// Index of the first element in `out`.
    out_offset: u32,
    /// Sizes of the dimensions, outermost first.
    dims: array<vec4<u32>, 2>,
    /// Strides of `x` in elements.
    x_strides: array<vec4<u32>, 2>,
    /// Strides of `out` in elements.
    out_strides: array<vec4<u32>, 2>,
}

@group(0) @binding(0) var<uniform> p: CopyParams;
@group(0) @binding(1) var<storage, read> x: array<u32>; // dims, by x_strides; 4-byte elements
@group(0) @binding(2) var<storage, read_write> out: array<u32>; // dims, by out_strides; 4-byte elements

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
    var x_index = p.x_offset;
    var out_index = p.out_offset;
    for (var d = p.rank; d > 0u; d--) {
        let word = (d - 1u) / 4u;
        let lane = (d - 1u) % 4u;
        let size = p.dims[word][lane];
        let coordinate = rest % size;
        rest /= size;
        x_index += coordinate * p.x_strides[word][lane];
        out_index += coordinate * p.out_strides[word][lane];
    }
    out[out_index] = x[x_index];
}
