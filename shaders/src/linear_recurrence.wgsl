// Linear recurrences over the sequences of a ragged batch. Each head of a sequence has a matrix of `k_dim` rows
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
    /// Added to the sums of squares of `q` and `k`.
    eps: f32,
    /// Factor on the result.
    scale: f32,
}

@group(0) @binding(0) var<uniform> p: LinearRecurrenceParams;
@group(0) @binding(1) var<storage, read> qkv: array<f32>; // [tokens, 2 * k_heads * k_dim + v_heads * v_dim], q, k and v
@group(0) @binding(2) var<storage, read> gates: array<f32>; // [tokens, 2, v_heads], b and dt
@group(0) @binding(3) var<storage, read> a_log: array<f32>; // [v_heads]
@group(0) @binding(4) var<storage, read> dt_bias: array<f32>; // [v_heads]
@group(0) @binding(5) var<storage, read> spans: array<vec4<u32>>; // [batch], of (first token, tokens, row read, row written)
@group(0) @binding(6) var<storage, read_write> state: array<f32>; // [rows, v_heads, k_dim, v_dim]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [tokens, v_heads, v_dim]

const TILE = vec2<u32>(COLS, 1u);

const LANES = WG / COLS;

@if(!serial) var<workgroup> products: array<vec3<f32>, WG>;
@if(!serial) var<workgroup> reads: array<f32, WG>;

// The sums over the lanes of a column.
@if(!serial)
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
@if(serial)
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
        let q_base = t * (2u * keys + width) + k_head * p.k_dim;
        let k_base = q_base + keys;
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
        let q_scale = inverseSqrt(sums.z + p.eps) * p.scale;
        let gate = t * 2u * p.v_heads + head;
        let decay = exp(decay_rate * softplus(gates[gate + p.v_heads] + bias));
        let v = qkv[t * (2u * keys + width) + 2u * keys + own_column];
        let correction = sigmoid(gates[gate]) * (v - decay * sums.x * k_scale) * k_scale;
        var read = 0.0;
        for (var i = 0u; i < ROWS; i++) {
            let row = i * LANES + lane;
            if row < p.k_dim {
                own[i] = own[i] * decay + qkv[k_base + row] * correction;
                read += own[i] * qkv[q_base + row];
            }
        }
        read = column_read(read, lid);
        if lane == 0u && column < width {
            out[t * width + column] = read * q_scale;
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
