// Products with an encoded weight for few tokens, on GPUs.
//
// A workgroup computes ROWS rows of TOKENS tokens. Two invocations share a block of weights: each loads half
// of it, so that adjacent invocations load adjacent words of the weight and of x. The rows share the loads of
// x and the tokens those of the weight. The sums over x that zero points and offsets are multiplied with are
// computed once for all rows.
//
// Partial sums are added through workgroup memory in two steps. With `f16_partials` they are stored there in
// half precision, two in a word, which halves the memory at the accuracy and range of half precision. With
// `subgroups`, which is faster for few sums, each subgroup adds its own partial sums, then those of all.
import package::encoding::{load_scales, load_part, BLOCKS_PER_SCALES, SCALES, ZERO, HAS_OFFSETS};
import package::unpack::Part;
@if(subnormals) import package::unpack::SUBNORMALS;
@if(lookup) import package::value_table::fill_table;
@if(f16_partials) import package::unpack::half_at;
import package::matmul_io::{p, output_rows, load_x, tile_row, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
@if(!gated) import package::matmul_io::store;
@if(gated) import package::matmul_io::store_gated;
import constants::{WG, ROWS, TOKENS};

@if(!gated) const TILE = vec2<u32>(ROWS, TOKENS);
@if(gated) const TILE = vec2<u32>(ROWS / 2u, TOKENS);
const COLS_MULTIPLE = X_WIDTH;
@if(subgroups) const MIN_SUBGROUP = 1u;
// The sums that a workgroup computes, and the invocations that add up the partial sums of one.
const SUMS: u32 = ROWS * TOKENS;
@if(!subgroups) const LANES: u32 = WG / SUMS;

@if(!f16_partials) var<workgroup> partials: array<array<f32, WG>, SUMS>;
@if(f16_partials) var<workgroup> partials: array<array<u32, WG>, SUMS / 2u>;

// The elements of x that a part is multiplied with.
struct Inputs {
    x: array<vec4<f32>, 4>,
    // The sum of the first two groups, and that of the last two.
    sums: vec2<f32>,
}

fn sum4(v: vec4<f32>) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

// What x is multiplied by for weights as `subnormal_bytes` returns them: 2^80, 2^72, 2^64 and 2^80. The products are then
// those of the bytes times 2^-69. Values of x of 2^48 and more become infinite, and sums below 2^-57 lose bits.
@if(subnormals) const SUBNORMAL_SCALE = vec4(1.2089258e24f, 4.7223665e21f, 1.8446744e19f, 1.2089258e24f);
@if(subnormals) const SUBNORMAL_UNIT: f32 = 1.6940659e-21;

// The elements of x for part `part` of a row of weights.
fn load_inputs(t: u32, part: u32, half: u32) -> Inputs {
    let g = 4u * part - 2u * half;
    let x = array(load_x(t, g), load_x(t, g + 1u), load_x(t, g + 4u), load_x(t, g + 5u));
    let sums = vec2(sum4(x[0] + x[1]), sum4(x[2] + x[3]));
    @if(subnormals)
    if SUBNORMALS {
        let s = SUBNORMAL_SCALE;
        return Inputs(array(s * x[0], s * x[1], s * x[2], s * x[3]), SUBNORMAL_UNIT * sums);
    }
    return Inputs(x, sums);
}

fn dot4(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, sum))));
}

// Adds the product of a part and its inputs to `sum`. The zero point is taken off the sums of products.
fn dot_part(w: Part, v: Inputs, sum: f32) -> f32 {
    if SCALES == 1u {
        let all = v.sums.x + v.sums.y;
        let high = dot4(w.q[2], v.x[2], dot4(w.q[3], v.x[3], -ZERO * all));
        let scaled = fma(w.scale.x, dot4(w.q[0], v.x[0], dot4(w.q[1], v.x[1], high)), sum);
        if HAS_OFFSETS {
            return fma(w.offset.x, all, scaled);
        }
        return scaled;
    }
    let zero = -ZERO * v.sums;
    let high = dot4(w.q[2], v.x[2], dot4(w.q[3], v.x[3], zero.y));
    let low = dot4(w.q[0], v.x[0], dot4(w.q[1], v.x[1], zero.x));
    let scaled = fma(w.scale.y, high, fma(w.scale.x, low, sum));
    if HAS_OFFSETS {
        return fma(w.offset.x, v.sums.x, fma(w.offset.y, v.sums.y, scaled));
    }
    return scaled;
}

// A partial sum by one invocation.
@if(!f16_partials && !subgroups)
fn partial_sum(i: u32, lane: u32) -> f32 {
    return partials[i][lane];
}

@if(f16_partials)
fn partial_sum(i: u32, lane: u32) -> f32 {
    return half_at(partials[i / 2u][lane], i);
}

// Packs two numbers in half precision, clamped to its finite range.
@if(f16_partials)
fn pack_halves(a: f32, b: f32) -> u32 {
    return pack2x16float(clamp(vec2(a, b), vec2(-65504.0), vec2(65504.0)));
}

// Adds up the partial sums of the invocations, and stores the results.
@if(subgroups)
fn store_sums(acc: array<f32, SUMS>, first_token: u32, first_row: u32, lid: u32) {
    let lane = subgroupExclusiveAdd(1u);
    let lanes = subgroupAdd(1u);
    // The first invocation of a subgroup stores its sums, the others 0: no order of subgroups is assumed.
    for (var i = 0u; i < SUMS; i++) {
        let sum = subgroupAdd(acc[i]);
        partials[i][lid] = select(0.0, sum, lane == 0u);
    }
    workgroupBarrier();
    // An invocation stores one result: that of one sum or, with `gated`, of two.
    let first = ROWS * (lid / TILE.x) + lid % TILE.x;
    var own = 0.0;
    @if(gated) var up = 0.0;
    for (var i = 0u; i < SUMS; i++) {
        var sum = 0.0;
        for (var other = lane; other < WG; other += lanes) {
            sum += partials[i][other];
        }
        let all = subgroupAdd(sum);
        own = select(own, all, i == first);
        @if(gated) up = select(up, all, i == first + TILE.x);
    }
    if lid < TILE.x * TOKENS {
        @if(!gated) store(first_token + lid / TILE.x, first_row + lid % TILE.x, own);
        @if(gated) store_gated(first_token + lid / TILE.x, first_row + lid % TILE.x, own, up);
    }
}

@if(!subgroups)
fn store_sums(acc: array<f32, SUMS>, first_token: u32, first_row: u32, lid: u32) {
    for (var i = 0u; i < SUMS; i += 2u) {
        @if(f16_partials) partials[i / 2u][lid] = pack_halves(acc[i], acc[i + 1u]);
        @if(!f16_partials) partials[i][lid] = acc[i];
        @if(!f16_partials) partials[i + 1u][lid] = acc[i + 1u];
    }
    workgroupBarrier();
    // LANES invocations for each sum add SUMS partial sums each, then one for each sum adds LANES.
    let i = lid / LANES;
    let lane = lid % LANES;
    var sum = 0.0;
    for (var other = lane; other < WG; other += LANES) {
        sum += partial_sum(i, other);
    }
    // An invocation writes where it alone has read, unless two sums share a word.
    @if(f16_partials) { workgroupBarrier(); }
    @if(!f16_partials) partials[i][lane] = sum;
    @if(f16_partials) partials[i / 2u][(i & 1u) * LANES + lane] = pack_halves(sum, sum);
    workgroupBarrier();
    // An invocation stores one result: that of one sum or, with `gated`, of two.
    if lid < TILE.x * TOKENS {
        let first = ROWS * (lid / TILE.x) + lid % TILE.x;
        @if(!gated) store(first_token + lid / TILE.x, first_row + lid % TILE.x, total(first));
        @if(gated)
        store_gated(
            first_token + lid / TILE.x, first_row + lid % TILE.x, total(first), total(first + TILE.x)
        );
    }
}

// The sum of what LANES invocations have added up.
@if(!f16_partials)
fn total(i: u32) -> f32 {
    var sum = 0.0;
    for (var lane = 0u; lane < LANES; lane++) {
        sum += partials[i][lane];
    }
    return sum;
}

@if(f16_partials)
fn total(i: u32) -> f32 {
    var sum = 0.0;
    for (var lane = 0u; lane < LANES; lane++) {
        sum += half_at(partials[i / 2u][(i & 1u) * LANES + lane], 0u);
    }
    return sum;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let first_row = (wid.x + wid.z * groups.x) * TILE.x;
    let first_token = wid.y * TOKENS;
    @if(experts) {
        if !chunk_has_rows(first_token, first_row, TILE.x) {
            return;
        }
    }
    @if(lookup) {
        fill_table(lid);
        workgroupBarrier();
    }
    var tokens: array<u32, TOKENS>;
    for (var t = 0u; t < TOKENS; t++) {
        tokens[t] = min(first_token + t, output_rows() - 1u);
    }
    var first_parts: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        first_parts[r] = 2u * tile_row(tokens[0], first_row, r, ROWS) * p.blocks;
    }
    // The sum of row `r` and token `t` is number `ROWS * t + r`.
    var acc: array<f32, SUMS>;
    for (var i = 0u; i < SUMS; i++) {
        acc[i] = 0.0;
    }
    let half = lid % 2u;
    // Rows and steps are whole numbers of blocks that share scales.
    let sub = (lid / 2u) % BLOCKS_PER_SCALES;
    for (var part = lid; part < 2u * p.blocks; part += WG) {
        @if(!weights_first) {
            var v: array<Inputs, TOKENS>;
            for (var t = 0u; t < TOKENS; t++) {
                v[t] = load_inputs(tokens[t], part, half);
            }
            for (var r = 0u; r < ROWS; r++) {
                let at = first_parts[r] + part;
                let w = load_part(at, sub, half, load_scales(at / (2u * BLOCKS_PER_SCALES)));
                for (var t = 0u; t < TOKENS; t++) {
                    acc[ROWS * t + r] = dot_part(w, v[t], acc[ROWS * t + r]);
                }
            }
        }
        @if(weights_first) {
            var w: array<Part, ROWS>;
            for (var r = 0u; r < ROWS; r++) {
                let at = first_parts[r] + part;
                w[r] = load_part(at, sub, half, load_scales(at / (2u * BLOCKS_PER_SCALES)));
            }
            for (var t = 0u; t < TOKENS; t++) {
                let v = load_inputs(tokens[t], part, half);
                for (var r = 0u; r < ROWS; r++) {
                    acc[ROWS * t + r] = dot_part(w[r], v, acc[ROWS * t + r]);
                }
            }
        }
    }
    @if(subnormals)
    if SUBNORMALS {
        for (var i = 0u; i < SUMS; i++) {
            acc[i] /= SUBNORMAL_UNIT;
        }
    }
    store_sums(acc, first_token, first_row, lid);
}
