// Linear recurrences with matrices as states, over the sequences of a ragged batch. Each head of a sequence has a matrix of `k_dim` rows
// and `v_dim` columns; each token decays it, adds to it, and reads it. A workgroup computes COLS columns, token
// by token. LANES invocations share a column, each with every LANES-th row of it in registers.
import package::linear_recurrence_gates::{qkv, decay_of_head, token_gates};
import package::linear_recurrence_params::{p, head_offsets, token_width};
import package::spans::{NO_STATE, is_valid_span};
import constants::{WG, COLS, ROWS};

@group(0) @binding(5) var<storage, read> spans: array<vec4<u32>>; // [batch], of (first token, tokens, row read, row written)
@group(0) @binding(6) var<storage, read_write> state: array<f32>; // [rows, v_heads, k_dim, v_dim]
@group(0) @binding(7) var<storage, read_write> out: array<f32>; // [tokens, v_heads, v_dim]
@if(mamba) @group(0) @binding(8) var<storage, read> d: array<f32>; // [v_heads]

const TILE = vec2<u32>(COLS, 1u);

const LANES = WG / COLS;

// The rows of the column that this invocation has. Loops over them are unrolled by four, because llvmpipe ends the loops of an
// invocation after 65,535 turns in all: with one row a turn after 480 tokens with states of 256 rows.
@if(serial) var<private> own: array<f32, ROWS>;

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

// The products of row `i * LANES + lane` of the column with the key, and of the key and of the query with themselves; 0 beyond
// the last row.
@if(serial && !mamba)
fn row_products(i: u32, lane: u32, q_base: u32, k_base: u32) -> vec3<f32> {
    let row = i * LANES + lane;
    if row >= p.k_dim {
        return vec3(0.0);
    }
    let k = qkv[k_base + row];
    let q = qkv[q_base + row];
    return vec3<f32>(own[i] * k, k * k, q * q);
}

// Decays the row, adds to it, and returns its product with the query.
@if(serial)
fn update_row(i: u32, lane: u32, q_base: u32, k_base: u32, decay: f32, added: f32) -> f32 {
    let row = i * LANES + lane;
    if row >= p.k_dim {
        return 0.0;
    }
    own[i] = own[i] * decay + qkv[k_base + row] * added;
    return own[i] * qkv[q_base + row];
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
    @if(!serial) var own: array<f32, ROWS>;
    for (var i = 0u; i < ROWS; i++) {
        let row = i * LANES + lane;
        own[i] = 0.0;
        if row < p.k_dim && span.z != NO_STATE {
            own[i] = state[span.z * row_size + cell + row * p.v_dim];
        }
    }
    let decay_rate = decay_of_head(head);
    let offsets = head_offsets(head);
    for (var n = 0u; n < span.y; n++) {
        let t = span.x + n;
        let base = t * token_width();
        let q_base = base + offsets.x;
        let k_base = base + offsets.y;
        let v = qkv[base + offsets.z + own_column % p.v_dim];
        let gate = token_gates(t, head, decay_rate);
        let decay = gate.x;
        var added = gate.y * v;
        var read_scale = p.scale;
        @if(!mamba) {
            var sums = vec3<f32>(0.0);
            @if(!serial) for (var i = 0u; i < ROWS; i++) {
                let row = i * LANES + lane;
                if row < p.k_dim {
                    let k = qkv[k_base + row];
                    let q = qkv[q_base + row];
                    sums += vec3<f32>(own[i] * k, k * k, q * q);
                }
            }
            @if(serial) for (var i = 0u; i < ROWS; i += 4u) {
                if i >= p.k_dim {
                    break;
                }
                sums += row_products(i, lane, q_base, k_base);
                sums += row_products(i + 1u, lane, q_base, k_base);
                sums += row_products(i + 2u, lane, q_base, k_base);
                sums += row_products(i + 3u, lane, q_base, k_base);
            }
            sums = column_sums(sums, lid);
            let k_scale = inverseSqrt(sums.y + p.eps);
            read_scale *= inverseSqrt(sums.z + p.eps);
            added = gate.y * (v - decay * sums.x * k_scale) * k_scale;
        }
        var read = 0.0;
        @if(!serial) for (var i = 0u; i < ROWS; i++) {
            let row = i * LANES + lane;
            if row < p.k_dim {
                own[i] = own[i] * decay + qkv[k_base + row] * added;
                read += own[i] * qkv[q_base + row];
            }
        }
        @if(serial) for (var i = 0u; i < ROWS; i += 4u) {
            if i >= p.k_dim {
                break;
            }
            read += update_row(i, lane, q_base, k_base, decay, added);
            read += update_row(i + 1u, lane, q_base, k_base, decay, added);
            read += update_row(i + 2u, lane, q_base, k_base, decay, added);
            read += update_row(i + 3u, lane, q_base, k_base, decay, added);
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
