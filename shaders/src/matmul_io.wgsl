// Shared by all `matmul` kernels: bindings, loading x, storing results. With `experts` (the op
// matmul_experts) the weight is a stack of weights, and each output row multiplies one of them. With `gated`
// (the op matmul_gated) the weight is a stack of two, and one product is the gate of the other. With `int8`
// (the ops with that ending) x is quantised, and `int8_inputs` loads it.
@if(gated) import package::activation::activate;
import package::unpack::Block;

/// `matmul.<encoding>`: `out[t, out_offset + r] = dot(weight[r, :], x[t, :]) (+ bias[bias_offset + r])`.
/// `weight` is a chunk of the rows of a larger weight. Grid: `[rows, tokens]`.
///
/// `matmul_int8.<encoding>`: the same for rows of `x` that `quantize` has made bytes of. The products of bytes are
/// summed as integers over a block of 32 columns or, for encodings with a scale for every 16 columns, over half of it.
@if(!experts && !gated)
struct MatmulParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Rows of this chunk of the weight.
    rows: u32,
    /// Weights in a row: the reduced dimension.
    cols: u32,
    /// Blocks of 32 weights in a row.
    blocks: u32,
    /// Elements from one token's output to the next.
    out_stride: u32,
    /// Index of this chunk's first row within a token's output.
    out_offset: u32,
    /// Index of this chunk's first row within `bias`.
    bias_offset: u32,
    /// 1 to add `bias`; 0 if there is none, and any buffer may be bound as `bias`.
    has_bias: u32,
}

/// `matmul_experts.<encoding>`: `out[i, r] = dot(weight[ids[i] * rows + r, :], x[i / pairs_per_row,
/// :])`, where `i` numbers pairs of a token and an expert. If experts are in turn, `ids[i]` is `i % experts`. Grid:
/// `[rows, pairs]`.
///
/// `weight` is a chunk of the rows of all experts: rows `first_row..first_row + chunk_rows` of `[experts *
/// rows, cols]`. Results for other rows are not written. An id past the last expert selects the last
/// one; the host's twin returns an error.
///
/// `matmul_experts_int8.<encoding>`: the same for rows of `x` that `quantize` has made bytes of.
@if(experts)
struct MatmulExpertsParams {
    /// Pairs of a token and an expert.
    pairs: u32,
    /// Experts of the layer.
    experts: u32,
    /// Rows of one expert's weight.
    rows: u32,
    /// Weights in a row: the reduced dimension.
    cols: u32,
    /// Blocks of 32 weights in a row.
    blocks: u32,
    /// Consecutive pairs that multiply the same row of `x`.
    pairs_per_row: u32,
    /// First row of this chunk among the rows of all experts.
    first_row: u32,
    /// Rows of this chunk.
    chunk_rows: u32,
    /// 1 if experts are in turn, and any buffer may be bound as `ids`; else 0.
    in_turn: u32,
}

/// `matmul_gated.<encoding>`: `out[t, r] = activation(gate) * up`, where `gate = dot(weight[r, :], x[t, :])
/// (+ bias[r])` and `up = dot(weight[rows + r, :], x[t, :]) (+ bias[rows + r])`. Grid: `[rows, tokens]`.
///
/// The op has kernels for GPUs only; elsewhere the product and the gate are two calls.
///
/// `matmul_gated_int8.<encoding>`: the same for rows of `x` that `quantize` has made bytes of.
@if(gated)
struct MatmulGatedParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Elements of a row of the result: half of the rows of the weight.
    rows: u32,
    /// Weights in a row: the reduced dimension.
    cols: u32,
    /// Blocks of 32 weights in a row.
    blocks: u32,
    /// One of the constants `ACTIVATION_…`.
    activation: u32,
    /// 1 to add `bias`; 0 if there is none, and any buffer may be bound as `bias`.
    has_bias: u32,
}

@if(!experts && !gated) @group(0) @binding(0) var<uniform> p: MatmulParams;
@if(gated) @group(0) @binding(0) var<uniform> p: MatmulGatedParams;
@if(experts) @group(0) @binding(0) var<uniform> p: MatmulExpertsParams;
@if(scalar && !experts && !int8) @group(0) @binding(1) var<storage, read> x: array<f32>; // [tokens, cols]
@if(!scalar && !experts && !int8) @group(0) @binding(1) var<storage, read> x: array<vec4<f32>>; // [tokens, cols], in vec4s
@if(scalar && experts && !int8) @group(0) @binding(1) var<storage, read> x: array<f32>; // [pairs / pairs_per_row, cols]
@if(!scalar && experts && !int8) @group(0) @binding(1) var<storage, read> x: array<vec4<f32>>; // [pairs / pairs_per_row, cols], in vec4s
@if(!experts && !gated) @group(0) @binding(2) var<storage, read_write> out: array<f32>; // [tokens, out_stride]
@if(gated) @group(0) @binding(2) var<storage, read_write> out: array<f32>; // [tokens, rows]
@if(experts) @group(0) @binding(2) var<storage, read_write> out: array<f32>; // [pairs, rows]
@if(!experts && !gated) @group(0) @binding(3) var<storage, read> bias: array<f32>; // [bias_offset + rows] or longer
@if(gated) @group(0) @binding(3) var<storage, read> bias: array<f32>; // [2 * rows]
@if(experts) @group(0) @binding(3) var<storage, read> ids: array<u32>; // [pairs]

// The number of columns must be a multiple of this for `load_x`.
@if(scalar) const X_WIDTH = 1u;
@if(!scalar && any_cols) const X_WIDTH = 4u;
@if(!any_cols) const X_WIDTH = 32u;

// The number of output rows: tokens, or pairs of a token and an expert.
@if(!experts)
fn output_rows() -> u32 {
    return p.tokens;
}

@if(experts)
fn output_rows() -> u32 {
    return p.pairs;
}

// The row of x that output row `t` multiplies.
@if(!experts)
fn x_row(t: u32) -> u32 {
    return t;
}

@if(experts)
fn x_row(t: u32) -> u32 {
    return t / p.pairs_per_row;
}

// The row of the chunk that output row `t` multiplies for its element `row`, clamped to the last row.
// Invocations past the end, or whose expert is in another chunk, load that row and discard their result.
@if(!experts)
fn weight_row(t: u32, row: u32) -> u32 {
    return min(row, p.rows - 1u);
}

@if(experts)
fn weight_row(t: u32, row: u32) -> u32 {
    return min(first_expert_row(t) + min(row, p.rows - 1u), p.chunk_rows - 1u);
}

// The expert of a pair; an invalid id selects the last one.
@if(experts)
fn expert(pair: u32) -> u32 {
    if p.in_turn != 0u {
        return pair % p.experts;
    }
    return min(ids[pair], p.experts - 1u);
}

// The first row of a pair's expert, relative to the chunk. It wraps around if the expert begins before
// the chunk, and the sum with a row wraps back, so the sum is less than `chunk_rows` exactly for rows
// inside the chunk.
@if(experts)
fn first_expert_row(t: u32) -> u32 {
    return expert(t) * p.rows - p.first_row;
}

// Returns whether the chunk has any of the `rows` rows from `first` on that output row `t` multiplies: the first of
// them, or the chunk begins with a later one. A workgroup whose tile has none returns.
@if(experts)
fn chunk_has_rows(t: u32, first: u32, rows: u32) -> bool {
    let start = first_expert_row(min(t, p.pairs - 1u)) + first;
    return start < p.chunk_rows || 0u - start < rows;
}

// Loads elements `4 * g..4 * g + 4` of the row of x that output row `t` multiplies; elements past the row's end
// are 0.
@if(scalar)
fn load_x(t: u32, g: u32) -> vec4<f32> {
    let at = vec4(4u * g) + vec4(0u, 1u, 2u, 3u);
    let i = vec4(x_row(t) * p.cols) + min(at, vec4(p.cols - 1u));
    return select(vec4(0.0), vec4(x[i.x], x[i.y], x[i.z], x[i.w]), at < vec4(p.cols));
}

@if(!scalar && any_cols)
fn load_x(t: u32, g: u32) -> vec4<f32> {
    let groups = p.cols / 4u;
    let v = x[x_row(t) * groups + min(g, groups - 1u)];
    return select(vec4(0.0), v, vec4(g < groups));
}

// Rows are whole blocks.
@if(!any_cols && !int8)
fn load_x(t: u32, g: u32) -> vec4<f32> {
    return x[x_row(t) * (p.cols / 4u) + g];
}

// Loads block `b` (32 elements) of a row of x.
@if(!int8)
fn load_x_block(t: u32, b: u32) -> Block {
    let g = 8u * b;
    return Block(
        load_x(t, g), load_x(t, g + 1u), load_x(t, g + 2u), load_x(t, g + 3u),
        load_x(t, g + 4u), load_x(t, g + 5u), load_x(t, g + 6u), load_x(t, g + 7u),
    );
}

fn dot_block(a: Block, b: Block) -> f32 {
    let even = a[0] * b[0] + a[2] * b[2] + a[4] * b[4] + a[6] * b[6];
    let odd = a[1] * b[1] + a[3] * b[3] + a[5] * b[5] + a[7] * b[7];
    let sum = even + odd;
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// The row of the weight that row `i` of a tile of `rows` rows multiplies; the tile's results begin at row
// `first` of the output. With `gated` the second half of a tile multiplies by the other weight of the stack.
@if(!gated)
fn tile_row(t: u32, first: u32, i: u32, rows: u32) -> u32 {
    return weight_row(t, first + i);
}

@if(gated)
fn tile_row(t: u32, first: u32, i: u32, rows: u32) -> u32 {
    return weight_row(t, first + i % (rows / 2u)) + select(0u, p.rows, i >= rows / 2u);
}

// Stores the gated product of the results of two rows, unless the row or the token is past the end.
@if(gated)
fn store_gated(t: u32, row: u32, gate: f32, up: f32) {
    if t < p.tokens && row < p.rows {
        var sums = vec2(gate, up);
        if p.has_bias != 0u {
            sums += vec2(bias[row], bias[p.rows + row]);
        }
        out[t * p.rows + row] = activate(sums.x, p.activation) * sums.y;
    }
}

// Stores one result, unless its row or token is past the end.
@if(!experts && !gated)
fn store(t: u32, row: u32, value: f32) {
    if t < p.tokens && row < p.rows {
        var bias_value = 0.0;
        if p.has_bias != 0u {
            bias_value = bias[p.bias_offset + row];
        }
        out[t * p.out_stride + p.out_offset + row] = value + bias_value;
    }
}

// Stores one result if its row of the weight is in this chunk.
@if(experts)
fn store(t: u32, row: u32, value: f32) {
    if t < p.pairs && row < p.rows && first_expert_row(t) + row < p.chunk_rows {
        out[t * p.rows + row] = value;
    }
}
