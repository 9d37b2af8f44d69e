// Linear recurrences with matrices as states, over the sequences of a ragged batch. Each head of a sequence has a matrix of `k_dim` rows
// and `v_dim` columns; each token decays it, adds to it, and reads it. A workgroup computes COLS columns, token
// by token. LANES invocations share a column, each with every LANES-th row of it in registers.
import package::spans::{NO_STATE, is_valid_span};
import constants::{WG, COLS, ROWS};

/// `gated_delta_rule` (Yang et al. 2024, "Gated Delta Networks"): for each token `t` and head, in this order,
/// `S *= exp(-exp(a_log) * softplus(dt + dt_bias))`, `S += k^T * (sigmoid(b) * (v - k * S))` and `out[t] = scale *
/// q * S`, where `q` and `k` are divided by `sqrt(sum of squares + eps)` first. A head of `q` and `k` serves
/// `v_heads / k_heads` heads. `state[row]` holds the matrices of a sequence; it reads one row, and writes the
/// matrices after its last token to a row. Grid: `[v_heads * v_dim, batch]`.
///
/// `mamba2_scan` (Dao and Gu 2024, "Transformers are SSMs"): the same without normalization and correction:
/// `S *= exp(-exp(a_log) * step)`, `S += b^T * (step * x)` and `out[t] = c * S + d * x`, where `step =
/// softplus(dt + dt_bias)`. A token of the input is `x`, `b` and `c`; `x` stands for `v`, `b` for `k` and `c`
/// for `q`. Grid: `[v_heads * v_dim, batch]`.
///
/// Nothing is written for an invalid span; the host's twin returns an error.
struct LinearRecurrenceParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Sequences that have a span.
    batch: u32,
    /// Heads of `q` and `k`, a divisor of `v_heads`.
    k_heads: u32,
    /// Heads of `v` and of the state.
    v_heads: u32,
    /// Elements of a head of `q` or `k`: rows of a matrix; at most 256.
    k_dim: u32,
    /// Elements of a head of `v`: columns of a matrix.
    v_dim: u32,
    /// Added to the sums of squares of `q` and `k`; not used by `mamba2_scan`.
    eps: f32,
    /// Factor on `q`: 1 for `mamba2_scan`.
    scale: f32,
}

@group(0) @binding(0) var<uniform> p: LinearRecurrenceParams;
@group(0) @binding(1) var<storage, read> qkv: array<f32>; // [tokens, 2 * k_heads * k_dim + v_heads * v_dim], q, k and v, or x, b and c
@group(0) @binding(2) var<storage, read> gates: array<f32>; // [tokens, 2, v_heads], b and dt, or [tokens, v_heads], dt
@group(0) @binding(3) var<storage, read> a_log: array<f32>; // [v_heads]
@group(0) @binding(4) var<storage, read> dt_bias: array<f32>; // [v_heads]
@group(0) @binding(5) var<storage, read> spans: array<vec4<u32>>; // [batch], of (first token, tokens, row read, row written)
@group(0) @binding(6) var<storage, read_write> state: array<f32>; // [rows, v_heads, k_dim, v_dim]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [tokens, v_heads, v_dim]
@if(mamba) @group(0) @binding(8) var<storage, read> d: array<f32>; // [v_heads]

const TILE = vec2<u32>(COLS, 1u);

const LANES = WG / COLS;

@if(!serial && !mamba) var<workgroup> products: array<vec3<f32>, WG>;
@if(!serial) var<workgroup> reads: array<f32, WG>;

// The sums over the lanes of a column.
@if(!serial && !mamba)
fn column_sums(sums: vec3<f32>, lid: u32) -> vec3<f32> {
    products[lid] = sums;
    workgroupBarrier();
    var total = vec3<f32>(0.0);
    for (var lane = 0u; lane < LANES; lane++) {
        total += products[lane * COLS + lid % COLS];
    }
    return total;
}

@if(!serial)
fn column_read(sum: f32, lid: u32) -> f32 {
    reads[lid] = sum;
    workgroupBarrier();
    var total = 0.0;
    for (var lane = 0u; lane < LANES; lane++) {
        total += reads[lane * COLS + lid % COLS];
    }
    return total;
}

// With one lane the sums are complete.
@if(serial && !mamba)
fn column_sums(sums: vec3<f32>, lid: u32) -> vec3<f32> {
    return sums;
}

@if(serial)
fn column_read(sum: f32, lid: u32) -> f32 {
    return sum;
}

// ln(1 + e^x) without overflow.
fn softplus(x: f32) -> f32 {
    return max(x, 0.0) + log(1.0 + exp(-abs(x)));
}

@if(!mamba)
fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(min(-x, 87.0)));
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    if wid.y >= min(p.batch, arrayLength(&spans)) {
        return;
    }
    let span = spans[wid.y];
    let row_size = p.v_heads * p.k_dim * p.v_dim;
    // Invalid span: nothing is written.
    if !is_valid_span(span, p.tokens, arrayLength(&state) / max(row_size, 1u)) {
        return;
    }
    let width = p.v_heads * p.v_dim;
    let column = (wid.x + wid.z * groups.x) * COLS + lid % COLS;
    // No invocation may return before the barriers: those beyond the last column repeat it without writing.
    let own_column = min(column, width - 1u);
    let lane = lid / COLS;
    let head = own_column / p.v_dim;
    let cell = head * p.k_dim * p.v_dim + own_column % p.v_dim;
    var own: array<f32, ROWS>;
    for (var i = 0u; i < ROWS; i++) {
        let row = i * LANES + lane;
        own[i] = 0.0;
        if row < p.k_dim && span.z != NO_STATE {
            own[i] = state[span.z * row_size + cell + row * p.v_dim];
        }
    }
    let decay_rate = -exp(a_log[head]);
    let bias = dt_bias[head];
    let keys = p.k_heads * p.k_dim;
    let k_head = head / max(p.v_heads / max(p.k_heads, 1u), 1u);
    for (var n = 0u; n < span.y; n++) {
        let t = span.x + n;
        let base = t * (2u * keys + width);
        @if(!mamba) let q_base = base + k_head * p.k_dim;
        @if(!mamba) let k_base = q_base + keys;
        @if(!mamba) let v = qkv[base + 2u * keys + own_column];
        @if(!mamba) let gate = (2u * t + 1u) * p.v_heads + head;
        @if(mamba) let k_base = base + width + k_head * p.k_dim;
        @if(mamba) let q_base = k_base + keys;
        @if(mamba) let v = qkv[base + own_column];
        @if(mamba) let gate = t * p.v_heads + head;
        let step = softplus(gates[gate] + bias);
        let decay = exp(decay_rate * step);
        var added = step * v;
        var read_scale = p.scale;
        @if(!mamba) {
            var sums = vec3<f32>(0.0);
            for (var i = 0u; i < ROWS; i++) {
                let row = i * LANES + lane;
                if row < p.k_dim {
                    let k = qkv[k_base + row];
                    let q = qkv[q_base + row];
                    sums += vec3<f32>(own[i] * k, k * k, q * q);
                }
            }
            sums = column_sums(sums, lid);
            let k_scale = inverseSqrt(sums.y + p.eps);
            read_scale *= inverseSqrt(sums.z + p.eps);
            added = sigmoid(gates[gate - p.v_heads]) * (v - decay * sums.x * k_scale) * k_scale;
        }
        var read = 0.0;
        for (var i = 0u; i < ROWS; i++) {
            let row = i * LANES + lane;
            if row < p.k_dim {
                own[i] = own[i] * decay + qkv[k_base + row] * added;
                read += own[i] * qkv[q_base + row];
            }
        }
        @if(mamba && !serial) {
            // The sums of the last token were read.
            workgroupBarrier();
        }
        read = column_read(read, lid) * read_scale;
        @if(mamba) read += d[head] * v;
        if lane == 0u && column < width {
            out[t * width + column] = read;
        }
    }
    if column < width {
        for (var i = 0u; i < ROWS; i++) {
            let row = i * LANES + lane;
            if row < p.k_dim {
                state[span.w * row_size + cell + row * p.v_dim] = own[i];
            }
        }
    }
}
