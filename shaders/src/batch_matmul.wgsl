// Batched products of strided matrices. Strides express transposed and broadcast operands, so that
// neither is copied. An invocation computes one element.
import constants::WG;

/// `batch_matmul`: `out[batch, i, j] = sum over k of a[batch, i, k] * b[batch, k, j]`.
/// Grid: `[len]`.
struct BatchMatmulParams {
    /// Elements of the result: the product of `dims`, `m` and `n`.
    len: u32,
    /// Number of batch dimensions, at most 8.
    rank: u32,
    /// Rows of `a` and of the result.
    m: u32,
    /// Columns of `b` and of the result.
    n: u32,
    /// Columns of `a` and rows of `b`: the reduced dimension.
    k: u32,
    /// Elements from one row of `a` to the next.
    a_row: u32,
    /// Elements from one column of `a` to the next.
    a_col: u32,
    /// Elements from one row of `b` to the next.
    b_row: u32,
    /// Elements from one column of `b` to the next.
    b_col: u32,
    /// Padding.
    pad0: u32,
    /// Padding.
    pad1: u32,
    /// Padding.
    pad2: u32,
    /// Sizes of the batch dimensions, outermost first.
    dims: array<vec4<u32>, 2>,
    /// Strides of `a` over the batch dimensions, in elements.
    a_strides: array<vec4<u32>, 2>,
    /// Strides of `b` over the batch dimensions, in elements.
    b_strides: array<vec4<u32>, 2>,
}

@group(0) @binding(0) var<uniform> p: BatchMatmulParams;
@group(0) @binding(1) var<storage, read> a: array<f32>; // [dims.., m, k], by a_strides, a_row and a_col
@group(0) @binding(2) var<storage, read> b: array<f32>; // [dims.., k, n], by b_strides, b_row and b_col
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [dims.., m, n], contiguous

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
    var a_index = row % p.m * p.a_row;
    var b_index = i % p.n * p.b_col;
    var rest = row / p.m;
    for (var d = p.rank; d > 0u; d--) {
        let word = (d - 1u) / 4u;
        let lane = (d - 1u) % 4u;
        let size = p.dims[word][lane];
        let coordinate = rest % size;
        rest /= size;
        a_index += coordinate * p.a_strides[word][lane];
        b_index += coordinate * p.b_strides[word][lane];
    }
    var sum = 0.0;
    for (var k = 0u; k < p.k; k++) {
        sum = fma(a[a_index], b[b_index], sum);
        a_index += p.a_col;
        b_index += p.b_row;
    }
    out[i] = sum;
}
