// The bindings that every `matmul` kernel has, and how it reads x and writes its results. With
// `experts` a token's weight is one of several of equal size that stand one after the other.
import package::unpack::Block;

@if(!experts)
struct MatmulParams {
    tokens: u32,
    rows: u32,
    cols: u32,
    blocks: u32,
    out_stride: u32,
    out_offset: u32,
    bias_offset: u32,
    has_bias: u32,
}

@if(experts)
struct MatmulExpertsParams {
    tokens: u32,
    rows: u32,
    cols: u32,
    blocks: u32,
    share: u32,
    first_row: u32,
    chunk_rows: u32,
}

@if(!experts) @group(0) @binding(0) var<uniform> p: MatmulParams;
@if(experts) @group(0) @binding(0) var<uniform> p: MatmulExpertsParams;
@if(scalar) @group(0) @binding(1) var<storage, read> x: array<f32>; // [tokens, cols]
@if(!scalar) @group(0) @binding(1) var<storage, read> x: array<vec4<f32>>; // [tokens, cols / 4]
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // [tokens, out_stride]
@if(!experts) @group(0) @binding(3) var<storage, read> bias: array<f32>; // [>= rows]
@if(experts) @group(0) @binding(3) var<storage, read> ids: array<u32>; // [tokens]

// What the columns must be a multiple of for `load_x`.
@if(!scalar) const X_WIDTH = 4u;
@if(scalar) const X_WIDTH = 1u;

// The row of x that a token multiplies.
@if(!experts)
fn x_row(t: u32) -> u32 {
    return t;
}

@if(experts)
fn x_row(t: u32) -> u32 {
    return t / p.share;
}

// Where a token's row of the weight stands in this chunk; past the last one, the last one.
@if(!experts)
fn weight_row(t: u32, row: u32) -> u32 {
    return min(row, p.rows - 1u);
}

@if(experts)
fn weight_row(t: u32, row: u32) -> u32 {
    // A row before the chunk wraps to a number past its end.
    return min(ids[t] * p.rows + min(row, p.rows - 1u) - p.first_row, p.chunk_rows - 1u);
}

// Four elements of x from column `c`; zero past the row's end.
@if(scalar)
fn load_x(t: u32, c: u32) -> vec4<f32> {
    let at = vec4(c) + vec4(0u, 1u, 2u, 3u);
    let i = vec4(x_row(t) * p.cols) + min(at, vec4(p.cols - 1u));
    return select(vec4(0.0), vec4(x[i.x], x[i.y], x[i.z], x[i.w]), at < vec4(p.cols));
}

@if(!scalar)
fn load_x(t: u32, c: u32) -> vec4<f32> {
    let v = x[(x_row(t) * p.cols + min(c, p.cols - 4u)) / 4u];
    return select(vec4(0.0), v, vec4(c < p.cols));
}

// A block of x of one token.
fn load_x_block(t: u32, b: u32) -> Block {
    let c = 32u * b;
    return Block(
        load_x(t, c), load_x(t, c + 4u), load_x(t, c + 8u), load_x(t, c + 12u),
        load_x(t, c + 16u), load_x(t, c + 20u), load_x(t, c + 24u), load_x(t, c + 28u),
    );
}

fn dot_block(a: Block, b: Block) -> f32 {
    let even = a[0] * b[0] + a[2] * b[2] + a[4] * b[4] + a[6] * b[6];
    let odd = a[1] * b[1] + a[3] * b[3] + a[5] * b[5] + a[7] * b[7];
    let sum = even + odd;
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// Writes one result, if it lies in the product.
@if(!experts)
fn store(t: u32, row: u32, value: f32) {
    if t < p.tokens && row < p.rows {
        var add = 0.0;
        if p.has_bias != 0u {
            add = bias[p.bias_offset + row];
        }
        out[t * p.out_stride + p.out_offset + row] = value + add;
    }
}

// Writes one result, if its row lies in this chunk.
@if(experts)
fn store(t: u32, row: u32, value: f32) {
    if t < p.tokens && row < p.rows && ids[t] * p.rows + row - p.first_row < p.chunk_rows {
        out[t * p.rows + row] = value;
    }
}
