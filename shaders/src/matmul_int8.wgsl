// Products of an encoded weight with signed bytes, in registers: for software adapters, and the baseline.
//
// As in `matmul.wgsl`, an invocation computes ROWS rows of TOKENS tokens and uses no workgroup memory.
import package::encoding::{load_scales, load_packed, Scales, BLOCKS_PER_SCALES, SCALES, PACKED_ZERO, HAS_OFFSETS};
import package::int8_inputs::{load_half, load_factors, half_sum, dot_words};
import package::matmul_io::{p, output_rows, store, weight_row, X_WIDTH};
import package::unpack::PackedPart;
import constants::{WG, ROWS, TOKENS};

const TILE = vec2<u32>(WG * ROWS, TOKENS);
const COLS_MULTIPLE = X_WIDTH;

// A block of x.
struct Inputs {
    low: vec4<u32>,
    high: vec4<u32>,
    scale: f32,
    // The sums of both halves.
    sums: vec2<i32>,
}

fn load_inputs(t: u32, b: u32) -> Inputs {
    let factors = load_factors(t, b);
    return Inputs(
        load_half(t, b, 0u), load_half(t, b, 1u),
        bitcast<f32>(factors.x), vec2(half_sum(factors, 0u), half_sum(factors, 1u)),
    );
}

fn dot_half(even: vec2<u32>, odd: vec2<u32>, x: vec4<u32>, sum: i32) -> i32 {
    return dot_words(even, x.xy, dot_words(odd, x.zw, sum));
}

// Adds the product of a block, given by its two parts, and its inputs to `sum`.
fn dot_packed(even: PackedPart, odd: PackedPart, v: Inputs, sum: f32) -> f32 {
    if SCALES == 1u {
        let total = v.sums.x + v.sums.y;
        let low = dot_half(even.q.xy, odd.q.xy, v.low, -PACKED_ZERO * total);
        var scaled = even.scale.x * f32(dot_half(even.q.zw, odd.q.zw, v.high, low));
        if HAS_OFFSETS {
            scaled += even.offset.x * f32(total);
        }
        return sum + v.scale * scaled;
    }
    let low = f32(dot_half(even.q.xy, odd.q.xy, v.low, -PACKED_ZERO * v.sums.x));
    let high = f32(dot_half(even.q.zw, odd.q.zw, v.high, -PACKED_ZERO * v.sums.y));
    var scaled = even.scale.x * low + even.scale.y * high;
    if HAS_OFFSETS {
        scaled += even.offset.x * f32(v.sums.x) + even.offset.y * f32(v.sums.y);
    }
    return sum + v.scale * scaled;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = ((wid.x + wid.z * groups.x) * WG + lid) * ROWS;
    let first_token = wid.y * TOKENS;
    var first_blocks: array<u32, ROWS>;
    var acc: array<array<f32, TOKENS>, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        first_blocks[r] = weight_row(first_token, first_row + r) * p.blocks;
        for (var t = 0u; t < TOKENS; t++) {
            acc[r][t] = 0.0;
        }
    }
    var scales: array<Scales, ROWS>;
    var xs: array<Inputs, TOKENS>;
    for (var first = 0u; first < p.blocks; first += BLOCKS_PER_SCALES) {
        for (var r = 0u; r < ROWS; r++) {
            scales[r] = load_scales((first_blocks[r] + first) / BLOCKS_PER_SCALES);
        }
        for (var sub = 0u; sub < BLOCKS_PER_SCALES; sub++) {
            let b = first + sub;
            for (var t = 0u; t < TOKENS; t++) {
                xs[t] = load_inputs(min(first_token + t, output_rows() - 1u), b);
            }
            for (var r = 0u; r < ROWS; r++) {
                let part = 2u * (first_blocks[r] + b);
                let even = load_packed(part, sub, 0u, scales[r]);
                let odd = load_packed(part + 1u, sub, 1u, scales[r]);
                for (var t = 0u; t < TOKENS; t++) {
                    acc[r][t] = dot_packed(even, odd, xs[t], acc[r][t]);
                }
            }
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        for (var t = 0u; t < TOKENS; t++) {
            store(first_token + t, first_row + r, acc[r][t]);
        }
    }
}
