// Sums and products of contiguous f32 tensors, where the second is repeated along the first: the fast
// path of the strided op `binary`.
import constants::WG;

/// `binary_contiguous`: `out[i] = f(a[i], b[i % b_len])`, where `f` is a sum, a product or a sum with a
/// scaled `b`. Grid: `[len]`.
struct BinaryContiguousParams {
    /// Elements of `a` and `out`.
    len: u32,
    /// Elements of `b`, which is repeated over `a`; at least 1.
    b_len: u32,
    /// One of [`CONTIGUOUS_ADD`], [`CONTIGUOUS_MUL`] and [`CONTIGUOUS_SCALED_ADD`].
    kind: u32,
    /// Factor on `b` for [`CONTIGUOUS_SCALED_ADD`].
    scale: f32,
}

/// A [`BinaryContiguousParams::kind`]: `a + b`.
const CONTIGUOUS_ADD: u32 = 0u;
/// A [`BinaryContiguousParams::kind`]: `a * b`.
const CONTIGUOUS_MUL: u32 = 1u;
/// A [`BinaryContiguousParams::kind`]: `a + scale * b`.
const CONTIGUOUS_SCALED_ADD: u32 = 2u;

@group(0) @binding(0) var<uniform> p: BinaryContiguousParams;
@group(0) @binding(1) var<storage, read> a: array<f32>; // [len]
@group(0) @binding(2) var<storage, read> b: array<f32>; // [b_len]
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // [len]

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
    let u = a[i];
    let v = b[i % p.b_len];
    if p.kind == CONTIGUOUS_SCALED_ADD {
        out[i] = u + p.scale * v;
    } else {
        out[i] = select(u + v, u * v, p.kind == CONTIGUOUS_MUL);
    }
}
