// Selects elements of one of two strided tensors by a condition.
import constants::WG;

/// `select`: `out[c]` is `a[c . a_strides]` where `condition[c . condition_strides]` is not 0, else
/// `b[c . b_strides]`, for every coordinate `c` within `dims`. Grid: `[len]`.
struct SelectParams {
    /// Elements of the result: the product of `dims`.
    len: u32,
    /// Number of dimensions, at most 8.
    rank: u32,
    /// Padding.
    pad0: u32,
    /// Padding.
    pad1: u32,
    /// Sizes of the dimensions, outermost first.
    dims: array<vec4<u32>, 2>,
    /// Strides of `condition` in elements.
    condition_strides: array<vec4<u32>, 2>,
    /// Strides of `a` in elements.
    a_strides: array<vec4<u32>, 2>,
    /// Strides of `b` in elements.
    b_strides: array<vec4<u32>, 2>,
}

@group(0) @binding(0) var<uniform> p: SelectParams;
@group(0) @binding(1) var<storage, read> condition: array<u32>; // dims, by condition_strides
@group(0) @binding(2) var<storage, read> a: array<u32>; // dims, by a_strides; 4-byte elements
@group(0) @binding(3) var<storage, read> b: array<u32>; // dims, by b_strides; 4-byte elements
@group(0) @binding(4) var<storage, read_write> out: array<u32>; // dims, contiguous; 4-byte elements

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
    var condition_index = 0u;
    var a_index = 0u;
    var b_index = 0u;
    for (var d = p.rank; d > 0u; d--) {
        let word = (d - 1u) / 4u;
        let lane = (d - 1u) % 4u;
        let size = p.dims[word][lane];
        let coordinate = rest % size;
        rest /= size;
        condition_index += coordinate * p.condition_strides[word][lane];
        a_index += coordinate * p.a_strides[word][lane];
        b_index += coordinate * p.b_strides[word][lane];
    }
    if condition[condition_index] != 0u {
        out[i] = a[a_index];
    } else {
        out[i] = b[b_index];
    }
}
