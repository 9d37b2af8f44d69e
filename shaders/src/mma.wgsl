// Intrinsics of `naga-cuda`, which replaces these functions with instructions. Their bodies compute the same in WGSL.

// Returns `a * b + c` for a matrix `a` of 16 by 16 halves, `b` of 16 by 8 halves, and `c` of 16 by 8 floats, as NVIDIA's
// `mma.m16n8k16` has them in registers. With `g = lane / 4` and `i = 2 * (lane % 4)` a lane has
//
// - of `a` rows `g` and `g + 8` at columns `i` and `i + 1`, one word for each row, then the same rows at columns `i + 8` and
//   `i + 9`;
// - of `b` column `g` at rows `i` and `i + 1`, and at rows `i + 8` and `i + 9`;
// - of `c` row `g` at columns `i` and `i + 1`, then row `g + 8` at these columns.
//
// All invocations of a subgroup of 32 must call it together.
fn cuda_mma_m16n8k16(a: vec4<u32>, b: vec2<u32>, c: vec4<f32>) -> vec4<f32> {
    let lane = subgroupExclusiveAdd(1u);
    var sums = c;
    for (var pair = 0u; pair < 8u; pair++) {
        let is_second = pair >= 4u;
        let source = pair % 4u;
        let rows = select(a.xy, a.zw, is_second);
        let top = unpack2x16float(subgroupShuffle(rows.x, (lane & 28u) + source));
        let bottom = unpack2x16float(subgroupShuffle(rows.y, (lane & 28u) + source));
        let columns = select(b.x, b.y, is_second);
        let left = unpack2x16float(subgroupShuffle(columns, 8u * (lane % 4u) + source));
        let right = unpack2x16float(subgroupShuffle(columns, 8u * (lane % 4u) + 4u + source));
        sums += vec4(dot(top, left), dot(top, right), dot(bottom, left), dot(bottom, right));
    }
    return sums;
}

// Returns `a * b + c` for a matrix `a` of 16 by 32 signed bytes, `b` of 32 by 8 signed bytes, and `c` of 16 by 8 integers, as
// NVIDIA's `mma.m16n8k32` has them in registers. With `g = lane / 4` and `i = 4 * (lane % 4)` a lane has
//
// - of `a` rows `g` and `g + 8` at columns `i` to `i + 3`, one word for each row, then the same rows 16 columns to the right;
// - of `b` column `g` at rows `i` to `i + 3`, and 16 rows below;
// - of `c` the elements that `cuda_mma_m16n8k16` has.
//
// All invocations of a subgroup of 32 must call it together.
fn cuda_mma_m16n8k32_i8(a: vec4<u32>, b: vec2<u32>, c: vec4<i32>) -> vec4<i32> {
    return cuda_mma_m16n8k16_i8(a.zw, b.y, cuda_mma_m16n8k16_i8(a.xy, b.x, c));
}

// The same for 16 columns of `a` and 16 rows of `b`, of which a lane has the first words: `mma.m16n8k16`.
fn cuda_mma_m16n8k16_i8(a: vec2<u32>, b: u32, c: vec4<i32>) -> vec4<i32> {
    let lane = subgroupExclusiveAdd(1u);
    var sums = c;
    for (var source = 0u; source < 4u; source++) {
        let top = subgroupShuffle(a.x, (lane & 28u) + source);
        let bottom = subgroupShuffle(a.y, (lane & 28u) + source);
        let left = subgroupShuffle(b, 8u * (lane % 4u) + source);
        let right = subgroupShuffle(b, 8u * (lane % 4u) + 4u + source);
        sums += vec4(
            dot4I8Packed(top, left), dot4I8Packed(top, right), dot4I8Packed(bottom, left), dot4I8Packed(bottom, right),
        );
    }
    return sums;
}

// Selects four of the eight bytes of `low` (0 to 3) and `high` (4 to 7): hexadecimal digit `i` of `selector`, below 8, is the
// index of byte `i` of the result.
fn cuda_byte_perm(low: u32, high: u32, selector: u32) -> u32 {
    var bytes = 0u;
    for (var i = 0u; i < 4u; i++) {
        let place = (selector >> (4u * i)) & 7u;
        let byte = (select(low, high, place >= 4u) >> (8u * (place % 4u))) & 255u;
        bytes |= byte << (8u * i);
    }
    return bytes;
}

// The sums of two halves of each word, rounded to halves.
fn cuda_add_f16x2(a: u32, b: u32) -> u32 {
    return pack2x16float(unpack2x16float(a) + unpack2x16float(b));
}

// `a * b + c` for two halves of each word, rounded to halves.
fn cuda_fma_f16x2(a: u32, b: u32, c: u32) -> u32 {
    return pack2x16float(fma(unpack2x16float(a), unpack2x16float(b), unpack2x16float(c)));
}
