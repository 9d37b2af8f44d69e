// Arithmetic, comparisons and logic of two strided tensors. The op `binary_contiguous` is the faster
// path for sums and products of contiguous tensors.
import constants::WG;

/// `binary`: `out[c] = f(a[c . a_strides], b[c . b_strides])` for every coordinate `c` within `dims`,
/// of `f32` or `u32`. A stride of 0 broadcasts an operand along a dimension. Grid: `[len]`.
struct BinaryParams {
    /// Elements of the result: the product of `dims`.
    len: u32,
    /// Number of dimensions, at most 8.
    rank: u32,
    /// The function: one of the constants `BINARY_…`.
    kind: u32,
    /// 1 if the operands are `u32`, 0 if they are `f32`.
    is_u32: u32,
    /// Sizes of the dimensions, outermost first.
    dims: array<vec4<u32>, 2>,
    /// Strides of `a` in elements.
    a_strides: array<vec4<u32>, 2>,
    /// Strides of `b` in elements.
    b_strides: array<vec4<u32>, 2>,
}

/// A [`BinaryParams::kind`]: `a + b`.
const BINARY_ADD: u32 = 0u;
/// A [`BinaryParams::kind`]: `a - b`.
const BINARY_SUB: u32 = 1u;
/// A [`BinaryParams::kind`]: `a * b`.
const BINARY_MUL: u32 = 2u;
/// A [`BinaryParams::kind`]: `a / b`; for `u32`, dividing by 0 gives `a`.
const BINARY_DIV: u32 = 3u;
/// A [`BinaryParams::kind`]: `|a|^b` with the sign of `a` where `b` is odd; for `f32` only.
const BINARY_POW: u32 = 4u;
/// A [`BinaryParams::kind`]: the smaller of `a` and `b`.
const BINARY_MIN: u32 = 5u;
/// A [`BinaryParams::kind`]: the larger of `a` and `b`.
const BINARY_MAX: u32 = 6u;
/// A [`BinaryParams::kind`]: 1 where `a == b`, else 0, as `u32`.
const BINARY_EQUAL: u32 = 7u;
/// A [`BinaryParams::kind`]: 1 where `a != b`, else 0, as `u32`.
const BINARY_NOT_EQUAL: u32 = 8u;
/// A [`BinaryParams::kind`]: 1 where `a < b`, else 0, as `u32`.
const BINARY_LESS: u32 = 9u;
/// A [`BinaryParams::kind`]: 1 where `a <= b`, else 0, as `u32`.
const BINARY_LESS_EQUAL: u32 = 10u;
/// A [`BinaryParams::kind`]: 1 where `a > b`, else 0, as `u32`.
const BINARY_GREATER: u32 = 11u;
/// A [`BinaryParams::kind`]: 1 where `a >= b`, else 0, as `u32`.
const BINARY_GREATER_EQUAL: u32 = 12u;
/// A [`BinaryParams::kind`]: 1 where neither `a` nor `b` is 0, else 0; for `u32` only.
const BINARY_AND: u32 = 13u;
/// A [`BinaryParams::kind`]: 1 where `a` or `b` is not 0, else 0; for `u32` only.
const BINARY_OR: u32 = 14u;

@group(0) @binding(0) var<uniform> p: BinaryParams;
@group(0) @binding(1) var<storage, read> a: array<u32>; // dims, by a_strides; bits of f32 or u32
@group(0) @binding(2) var<storage, read> b: array<u32>; // dims, by b_strides; bits of f32 or u32
@group(0) @binding(3) var<storage, read_write> out: array<u32>; // dims, contiguous; bits of f32 or u32

const TILE = vec2<u32>(WG, 1u);

// |x|^y with the sign of x where y is odd.
fn power(x: f32, y: f32) -> f32 {
    if y == 0.0 {
        return 1.0;
    }
    let magnitude = pow(abs(x), y);
    let is_odd = abs(y - 2.0 * floor(y * 0.5)) == 1.0;
    return select(magnitude, -magnitude, x < 0.0 && is_odd);
}

fn f32_result(x: f32, y: f32) -> u32 {
    switch p.kind {
        case BINARY_ADD: { return bitcast<u32>(x + y); }
        case BINARY_SUB: { return bitcast<u32>(x - y); }
        case BINARY_MUL: { return bitcast<u32>(x * y); }
        case BINARY_DIV: { return bitcast<u32>(x / y); }
        case BINARY_POW: { return bitcast<u32>(power(x, y)); }
        case BINARY_MIN: { return bitcast<u32>(select(x, y, y < x)); }
        case BINARY_MAX: { return bitcast<u32>(select(x, y, y > x)); }
        case BINARY_EQUAL: { return u32(x == y); }
        case BINARY_NOT_EQUAL: { return u32(x != y); }
        case BINARY_LESS: { return u32(x < y); }
        case BINARY_LESS_EQUAL: { return u32(x <= y); }
        case BINARY_GREATER: { return u32(x > y); }
        default: { return u32(x >= y); }
    }
}

fn u32_result(x: u32, y: u32) -> u32 {
    switch p.kind {
        case BINARY_ADD: { return x + y; }
        case BINARY_SUB: { return x - y; }
        case BINARY_MUL: { return x * y; }
        case BINARY_DIV: { return x / max(y, 1u); }
        case BINARY_MIN: { return min(x, y); }
        case BINARY_MAX: { return max(x, y); }
        case BINARY_EQUAL: { return u32(x == y); }
        case BINARY_NOT_EQUAL: { return u32(x != y); }
        case BINARY_LESS: { return u32(x < y); }
        case BINARY_LESS_EQUAL: { return u32(x <= y); }
        case BINARY_GREATER: { return u32(x > y); }
        case BINARY_GREATER_EQUAL: { return u32(x >= y); }
        case BINARY_AND: { return u32(x != 0u && y != 0u); }
        default: { return u32(x != 0u || y != 0u); }
    }
}

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
    var a_index = 0u;
    var b_index = 0u;
    for (var d = p.rank; d > 0u; d--) {
        let word = (d - 1u) / 4u;
        let lane = (d - 1u) % 4u;
        let size = p.dims[word][lane];
        let coordinate = rest % size;
        rest /= size;
        a_index += coordinate * p.a_strides[word][lane];
        b_index += coordinate * p.b_strides[word][lane];
    }
    let x = a[a_index];
    let y = b[b_index];
    if p.is_u32 != 0u {
        out[i] = u32_result(x, y);
    } else {
        out[i] = f32_result(bitcast<f32>(x), bitcast<f32>(y));
    }
}
