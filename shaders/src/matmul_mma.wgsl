// Products of an encoded weight with few tokens on NVIDIA's tensor cores, as accurate as in f32.
//
// The numbers of an encoding become halves. Small integers need no conversion: their bits are those of subnormal halves. Codes are
// looked up (`codes`), floats of 8 bits become halves by shifts (`f8_e4m3`), those of 16 bits (`any_cols`) are multiplied as they
// are, or scaled. Each element of x is scaled by a power of two and split into two halves, whose sum differs from it by at most
// one unit in the last place of f32, or by 2^-26 of the largest element of the block. Tensor cores multiply halves exactly,
// subnormal ones included, and truncate sums to about as many bits as f32 has (M. Fasi et al., "Numerical behavior of NVIDIA
// tensor cores", 2021; see `ROUNDING`). Inputs of 2^114 or more may give infinite results; an infinite weight gives NaN.
//
// Each lane loads whole blocks of weights of two rows of a matrix. In the matrix b, x of the lane's block fills two columns, first
// halves in one and second halves in the other; for the other lanes' blocks these columns are zero. So each lane receives the
// sums of its own blocks and scales them. The subgroups of a workgroup share x and the rows, and split the columns.
import package::encoding::{Scales, load_scales, BLOCKS_PER_SCALES, SCALES, ZERO, HAS_OFFSETS};
@if(!any_cols) import package::encoding::load_packed;
@if(any_cols) import package::encoding::{half_floats, load_block};
@if(!any_cols) import package::unpack::PackedPart;
@if(any_cols) import package::unpack::HalfFloats;
import package::mma::cuda_mma_m16n8k16;
@if(!nibbles && !f8_e4m3 && !any_cols) import package::mma::cuda_byte_perm;
@if(codes) import package::value_table::coded_bytes;
@if(f8_e4m3) import package::encoding::{float_halves, FLOAT_UNIT};
import package::half_precision::{half_scale, half_unscale};
import package::quad::{quad_max, quad_sum};
import package::matmul_io::{p, output_rows, load_x, tile_row, X_WIDTH};
@if(experts) import package::matmul_io::chunk_has_rows;
@if(!gated) import package::matmul_io::store;
@if(gated) import package::matmul_io::store_gated;
import package::split_inputs::{packed, rest, sum4, HIGH_UNIT};
import constants::{WG, ROWS, TOKENS, BLOCKS, MATRICES, MAX_OWN_BLOCKS};

@if(!gated) const TILE = vec2<u32>(ROWS, TOKENS);
@if(gated) const TILE = vec2<u32>(ROWS / 2u, TOKENS);
const COLS_MULTIPLE = X_WIDTH;
const MIN_SUBGROUP = 32u;
// The rows of a lane and of a subgroup, which multiplies MATRICES matrices of 16 rows each.
const OWN_ROWS: u32 = 2u * MATRICES;
const SUBGROUP_ROWS: u32 = 16u * MATRICES;
// Blocks of a row that a lane multiplies in one step. They share scales.
const OWN_BLOCKS: u32 = min(MAX_OWN_BLOCKS, BLOCKS_PER_SCALES);
const RUNS_PER_SCALES: u32 = BLOCKS_PER_SCALES / OWN_BLOCKS;
// Subgroups that share rows, each of which multiplies the blocks of four lanes in a step.
const SPLITS: u32 = WG / 32u * SUBGROUP_ROWS / ROWS;
const STEP: u32 = 4u * OWN_BLOCKS * SPLITS;
const_assert BLOCKS % STEP == 0u;
const_assert BLOCKS_PER_SCALES % OWN_BLOCKS == 0u;
// `load_halves` fills whole groups of 8 blocks with zeros past the last one, so a subgroup may read up to 8.
const_assert 4u * OWN_BLOCKS <= 8u;
// Adding and subtracting this rounds a number below 2^11 to a multiple of 2^-3. Tensor cores truncate a sum 24 bits below its
// largest exponent, and align subnormal halves as if their exponent were -14, so products of small weights would lose low bits.
// Products with multiples of 2^-3 have no bits there.
const ROUNDING: f32 = 1572864.0;
// The unit of numbers as halves. A half whose bits are those of the integer `n` below 1024 is `n * 2^-24`.
@if(!f8_e4m3 && !any_cols && !fp4) const UNIT: f32 = 5.9604645e-8;
@if(any_cols || fp4) const UNIT: f32 = 1.0;
@if(f8_e4m3) const UNIT: f32 = 1.0 / FLOAT_UNIT;
// The bits of two bytes of a word that are numbers of the first 16 columns of a block, or of the others: high nibbles stay where
// they are.
@if(nibbles) const LOW_MASK: u32 = 0x000f000fu;
@if(nibbles) const HIGH_MASK: u32 = 0x00f000f0u;
@if(!nibbles) const LOW_MASK: u32 = 0x00ff00ffu;
@if(!nibbles) const HIGH_MASK: u32 = 0x00ff00ffu;

// Factors of the sums over a block of x.
struct Factors {
    // The sum of its elements, scaled as the products are; with two scales in a block, the sum of each half of the block.
    sums: array<f32, SCALES>,
    // Undoes the scaling of the products.
    unscale: f32,
}

// BLOCKS blocks of x as halves: four groups of columns of each block, for each of which there are the first halves, then the
// second ones. A word has two of the columns, as `packed` returns them, then the same of the group 16 columns to the right.
// Behind them are zeros.
const ZEROS: u32 = 8u * TOKENS * BLOCKS;
var<workgroup> halves: array<vec4<u32>, ZEROS + 1u>; // [block, token, group, half]
var<workgroup> factors: array<Factors, TOKENS * BLOCKS>; // [block, token]
var<workgroup> partials: array<f32, SPLITS * ROWS * TOKENS>; // [split, token, row]

// Numbers whose halves are the first ones; `unit` is the factor by which they were scaled besides `half_scale`. Weights that are
// integers want them rounded; those that are floats have nearly all bits in normal halves.
@if(f8_e4m3 || any_cols || fp4)
fn first(v: vec4<f32>, unit: f32) -> vec4<f32> {
    return v;
}

@if(!f8_e4m3 && !any_cols && !fp4)
fn first(v: vec4<f32>, unit: f32) -> vec4<f32> {
    return (v + unit * ROUNDING) - unit * ROUNDING;
}

// Splits the blocks of x from `first_block` on into halves. Blocks past the end, up to a multiple of 8, are zeros.
fn load_halves(first_token: u32, first_block: u32, lid: u32) {
    let last_token = output_rows() - 1u;
    let last_block = p.blocks - 1u;
    // Four invocations for each block: a subgroup has eight.
    let end = 4u * TOKENS * min(BLOCKS, (p.blocks - first_block + 7u) & ~7u);
    for (var i = lid; i < end; i += WG) {
        let group = i % 4u;
        let block = first_block + i / (4u * TOKENS);
        let token = min(first_token + i / 4u % TOKENS, last_token);
        let at = 8u * min(block, last_block) + group;
        let x = array(load_x(token, at), load_x(token, at + 4u));
        let m = max(abs(x[0]), abs(x[1]));
        let largest = quad_max(max(max(m.x, m.y), max(m.z, m.w)));
        let scale = select(0.0, half_scale(largest), block <= last_block);
        let low = scale * x[0];
        let high = HIGH_UNIT * scale * x[1];
        let words = vec4(packed(first(low, 1.0)), packed(first(high, HIGH_UNIT)));
        halves[2u * i] = words;
        halves[2u * i + 1u] = vec4(packed(rest(low, words.xy)), packed(rest(high, words.zw)));
        var f: Factors;
        f.unscale = half_unscale(largest) / UNIT;
        if SCALES == 1u {
            f.sums[0] = UNIT * scale * quad_sum(sum4(x[0] + x[1]));
        } else {
            f.sums[0] = UNIT * scale * quad_sum(sum4(x[0]));
            f.sums[SCALES - 1u] = UNIT * scale * quad_sum(sum4(x[1]));
        }
        if group == 0u {
            factors[i / 4u] = f;
        }
    }
}

// Two matrices a: one of the numbers of a group of columns, and one of those 16 columns to the right.
alias Numbers = array<vec4<u32>, 2>;

// The numbers in the bytes of two rows' words as the matrix a: bytes 0 and 2 of both, then bytes 1 and 3.
@if(nibbles)
fn subnormals(top: u32, bottom: u32, mask: u32) -> vec4<u32> {
    return vec4(vec2(top, bottom), vec2(top, bottom) >> vec2(8u)) & vec4(mask);
}

@if(!nibbles && !codes && !f8_e4m3 && !any_cols)
fn subnormals(top: u32, bottom: u32, mask: u32) -> vec4<u32> {
    return vec4(vec2(top, bottom) & vec2(mask), cuda_byte_perm(top, 0u, 0x4341u), cuda_byte_perm(bottom, 0u, 0x4341u));
}

@if(f8_e4m3)
fn subnormals(top: u32, bottom: u32, mask: u32) -> vec4<u32> {
    return vec4(float_halves(top), float_halves(bottom)).xzyw;
}

// Group `i` of blocks of two rows.
@if(any_cols)
fn numbers_of(top: array<vec4<u32>, 4>, bottom: array<vec4<u32>, 4>, i: u32) -> Numbers {
    var numbers: Numbers;
    for (var half = 0u; half < 2u; half++) {
        let t = top[2u * half + i / 2u];
        let b = bottom[2u * half + i / 2u];
        numbers[half] = select(vec4(t.xy, b.xy), vec4(t.zw, b.zw), i % 2u == 1u).xzyw;
    }
    return numbers;
}

// Group `i` of parts of two rows.
@if(!codes && !any_cols)
fn numbers_of(top: vec4<u32>, bottom: vec4<u32>, i: u32) -> Numbers {
    return Numbers(subnormals(top[i], bottom[i], LOW_MASK), subnormals(top[2u + i], bottom[2u + i], HIGH_MASK));
}

// The bytes are the high ones of halves, whose low ones are 0.
@if(codes && fp4)
fn numbers_of(top: vec4<u32>, bottom: vec4<u32>, i: u32) -> Numbers {
    let bytes = vec4(coded_bytes(top[i]), coded_bytes(bottom[i])).xzyw;
    var low: vec4<u32>;
    for (var j = 0u; j < 4u; j++) {
        low[j] = cuda_byte_perm(bytes[j], 0u, 0x2404u);
    }
    return Numbers(low, bytes & vec4(0xff00ff00u));
}

@if(codes && !fp4)
fn numbers_of(top: vec4<u32>, bottom: vec4<u32>, i: u32) -> Numbers {
    let bytes = vec4(coded_bytes(top[i]), coded_bytes(bottom[i])).xzyw;
    var high: vec4<u32>;
    for (var j = 0u; j < 4u; j++) {
        high[j] = cuda_byte_perm(bytes[j], 0u, 0x4341u);
    }
    return Numbers(bytes & vec4(LOW_MASK), high);
}

// Loads the scales of each row's run of blocks.
fn load_own_scales(own: array<u32, OWN_ROWS>) -> array<Scales, OWN_ROWS> {
    var scales: array<Scales, OWN_ROWS>;
    for (var i = 0u; i < OWN_ROWS; i++) {
        scales[i] = load_scales(own[i] / RUNS_PER_SCALES);
    }
    return scales;
}

// The weights of a lane's rows: one block of each.
@if(!any_cols) alias Weights = array<array<PackedPart, 2>, OWN_ROWS>;
@if(any_cols) alias Weights = array<array<vec4<u32>, 4>, OWN_ROWS>;

// Loads block `b` of the run of blocks of each row; `own` are the places of these runs, which are run `run` of their rows.
fn load_weights(own: array<u32, OWN_ROWS>, run: u32, b: u32, scales: array<Scales, OWN_ROWS>) -> Weights {
    let sub = (OWN_BLOCKS * (run % RUNS_PER_SCALES)) | b;
    var w: Weights;
    for (var i = 0u; i < OWN_ROWS; i++) {
        let at = (OWN_BLOCKS * own[i]) | b;
        @if(any_cols) w[i] = load_block(at);
        @if(!any_cols)
        for (var half = 0u; half < 2u; half++) {
            w[i][half] = load_packed(2u * at + half, at, sub, half, scales[i]);
        }
    }
    return w;
}

// What `block_sum` leaves to multiply its result by.
@if(integer_scales)
fn factor(s: Scales) -> f32 {
    return s.d;
}

@if(!integer_scales)
fn factor(s: Scales) -> f32 {
    return 1.0;
}

@if(any_cols)
fn block_sum(w: HalfFloats, low: f32, high: f32, f: Factors) -> f32 {
    return w.unit * low;
}

// The sum of weights of a block times x: `low` is the sum of numbers times x of its first 16 columns, `high` of the others,
// or with one scale `low` is that of all.
@if(!any_cols)
fn block_sum(w: PackedPart, low: f32, high: f32, f: Factors) -> f32 {
    var sum = w.scale.x * without_zero(low, f.sums[0]);
    if SCALES == 2u {
        sum = fma(w.scale.y, without_zero(high, f.sums[SCALES - 1u]), sum);
    }
    if HAS_OFFSETS {
        sum = fma(w.offset.x, f.sums[0], sum);
        if SCALES == 2u {
            sum = fma(w.offset.y, f.sums[SCALES - 1u], sum);
        }
    }
    return sum;
}

// A sum of numbers times x, less that of the zero point.
@if(!any_cols)
fn without_zero(sum: f32, x: f32) -> f32 {
    if ZERO == 0.0 {
        return sum;
    }
    return fma(-ZERO, x, sum);
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
    let lane = lid % 32u;
    let subgroup = lid / 32u;
    // The subgroup's rows, and its place among those that share them.
    let rows = SUBGROUP_ROWS * (subgroup / SPLITS);
    let split = subgroup % SPLITS;
    // The lane's first row in every matrix; its second is 8 rows below. Its block among four next to each other.
    let row = rows + lane / 4u;
    let own = lane % 4u;
    // The lane's blocks in every row; past the end of the rows its last ones, which are multiplied by zeros.
    let token = min(first_token, output_rows() - 1u);
    let last_run = p.blocks / OWN_BLOCKS - 1u;
    var run = min(4u * split + own, last_run);
    var runs: array<u32, OWN_ROWS>;
    for (var i = 0u; i < OWN_ROWS; i++) {
        runs[i] = tile_row(token, first_row, row + 8u * i, ROWS) * (p.blocks / OWN_BLOCKS) + run;
    }
    // The lane's column of the matrix b is x of block `lane / 8`, the first halves if `lane / 4` is even. Its rows are those of
    // the lane's own block.
    let is_own = lane / 8u == own;
    let stride = select(0u, 2u, is_own);
    if lid == 0u {
        halves[ZEROS] = vec4(0u);
    }
    // The sum of token `t` and the lane's row `i` is number `OWN_ROWS * t + i`.
    var acc: array<f32, TOKENS * OWN_ROWS>;
    for (var i = 0u; i < TOKENS * OWN_ROWS; i++) {
        acc[i] = 0.0;
    }
    for (var step = 0u; step < p.blocks; step += STEP) {
        // The loads of weights and those of x overlap.
        let scales = load_own_scales(runs);
        var weights: array<Weights, OWN_BLOCKS>;
        for (var b = 0u; b < OWN_BLOCKS; b++) {
            weights[b] = load_weights(runs, run, b, scales);
        }
        if step % BLOCKS == 0u {
            // The halves before have been read.
            workgroupBarrier();
            load_halves(first_token, step, lid);
            workgroupBarrier();
        }
        // The same for a whole subgroup.
        if step + 4u * OWN_BLOCKS * split < p.blocks {
            for (var b = 0u; b < OWN_BLOCKS; b++) {
                @if(!any_cols) let w = weights[b];
                @if(any_cols) var w: array<HalfFloats, OWN_ROWS>;
                @if(any_cols)
                for (var i = 0u; i < OWN_ROWS; i++) {
                    w[i] = half_floats(weights[b][i]);
                }
                let block = (step + OWN_BLOCKS * (4u * split + own)) % BLOCKS + b;
                for (var t = 0u; t < TOKENS; t++) {
                    let local = TOKENS * block + t;
                    let at = select(ZEROS, 8u * local + lane / 4u % 2u, is_own);
                    var sums: array<array<vec4<f32>, SCALES>, MATRICES>;
                    for (var m = 0u; m < MATRICES; m++) {
                        for (var s = 0u; s < SCALES; s++) {
                            sums[m][s] = vec4(0.0);
                        }
                    }
                    for (var group = 0u; group < 4u; group++) {
                        let x = halves[at + stride * group];
                        for (var m = 0u; m < MATRICES; m++) {
                            @if(!any_cols)
                            let numbers = numbers_of(w[2u * m][group / 2u].q, w[2u * m + 1u][group / 2u].q, group % 2u);
                            @if(any_cols) let numbers = numbers_of(w[2u * m].halves, w[2u * m + 1u].halves, group);
                            sums[m][0] = cuda_mma_m16n8k16(numbers[0], x.xy, sums[m][0]);
                            sums[m][SCALES - 1u] = cuda_mma_m16n8k16(numbers[1], x.zw, sums[m][SCALES - 1u]);
                        }
                    }
                    let f = factors[local];
                    for (var m = 0u; m < MATRICES; m++) {
                        // The products with first and with second halves.
                        let low = sums[m][0].xz + sums[m][0].yw;
                        let high = sums[m][SCALES - 1u].xz + sums[m][SCALES - 1u].yw;
                        let i = OWN_ROWS * t + 2u * m;
                        let unscale = f.unscale * vec2(factor(scales[2u * m]), factor(scales[2u * m + 1u]));
                        @if(!any_cols) let both = array(w[2u * m][0], w[2u * m + 1u][0]);
                        @if(any_cols) let both = array(w[2u * m], w[2u * m + 1u]);
                        acc[i] = fma(unscale.x, block_sum(both[0], low.x, high.x, f), acc[i]);
                        acc[i + 1u] = fma(unscale.y, block_sum(both[1], low.y, high.y, f), acc[i + 1u]);
                    }
                }
            }
        }
        let following = min((step + STEP) / OWN_BLOCKS + 4u * split + own, last_run);
        for (var i = 0u; i < OWN_ROWS; i++) {
            runs[i] += following - run;
        }
        run = following;
    }
    // Adds the sums of the four lanes that share a row, then those of the subgroups that do.
    for (var t = 0u; t < TOKENS; t++) {
        for (var i = 0u; i < OWN_ROWS; i++) {
            let sum = quad_sum(acc[OWN_ROWS * t + i]);
            if own == 0u {
                partials[ROWS * (TOKENS * split + t) + row + 8u * i] = sum;
            }
        }
    }
    workgroupBarrier();
    for (var i = lid; i < TILE.x * TOKENS; i += WG) {
        let t = i / TILE.x;
        let r = i % TILE.x;
        @if(!gated) store(first_token + t, first_row + r, total(t, r));
        @if(gated) store_gated(first_token + t, first_row + r, total(t, r), total(t, r + TILE.x));
    }
}

// The sum of token `t` and row `r`.
fn total(t: u32, r: u32) -> f32 {
    var sum = 0.0;
    for (var split = 0u; split < SPLITS; split++) {
        sum += partials[ROWS * (TOKENS * split + t) + r];
    }
    return sum;
}
