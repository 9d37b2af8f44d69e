// Linear recurrences over many tokens: the same as linear_recurrence.wgsl, but a chunk of tokens at a time, from the scores
// that linear_recurrence_scores.wgsl wrote (the SSD form of Mamba 2, Dao and Gu 2024, section 6; the WY form of
// the delta rule, Yang et al. 2024, section 3.3). With the state `S` before a chunk, and `decay(i)` from its
// beginning up to token `i`, all tokens are products of matrices:
//
//     added = inverse * (value_factor * (v - decay(i) * key_factor * (k * S)))    (mamba: step * x)
//     out   = decay(i) * query_factor * (q * S) + scores * added                  (mamba: + d * x)
//     S     = decay(last) * S + k^T * (decay(last, i) * added)
//
// A workgroup computes COLS columns of a head's matrix of one sequence, which stays in `state` between chunks. An invocation
// computes four tokens, then four rows of the state, of OWN_COLS columns.
import package::linear_recurrence_params::{p, head_offsets, score_row, token_width, CHUNK, CHUNK_VEC4S, COLUMN_STEP};
import package::spans::{NO_STATE, is_valid_span};
import constants::{WG, COLS};

@group(0) @binding(1) var<storage, read> qkv: array<f32>; // [tokens, 2 * k_heads * k_dim + v_heads * v_dim], q, k and v, or x, b and c
@group(0) @binding(2) var<storage, read> scores: array<vec4<f32>>; // [v_heads, tokens, 1 + CHUNK / 4], or [v_heads, tokens, 1 + CHUNK / 2]
@group(0) @binding(3) var<storage, read> spans: array<vec4<u32>>; // [batch], of (first token, tokens, row read, row written)
@group(0) @binding(4) var<storage, read_write> state: array<f32>; // [rows, v_heads, k_dim, v_dim]
@group(0) @binding(5) var<storage, read_write> out: array<f32>; // [tokens, v_heads, v_dim]
@if(mamba) @group(0) @binding(6) var<storage, read> d: array<f32>; // [v_heads]

const TILE = vec2<u32>(COLS, 1u);

// Invocations that share four tokens or rows.
const LANES: u32 = WG / CHUNK_VEC4S;
const OWN_COLS: u32 = COLS / LANES;
// vec4s of queries, keys and columns of the state that are in workgroup memory at a time.
const SLICE: u32 = 4u;
// vec4s from one query or key to the next, padded so that they are in different banks.
const STRIDE: u32 = SLICE + 1u;
// The same of a row of scores.
const PITCH: u32 = CHUNK_VEC4S + 1u;

// [CHUNK, STRIDE] of queries, and of keys; [CHUNK, PITCH] of scores or of the inverse; or [CHUNK, CHUNK / 4] of keys.
var<workgroup> rows: array<vec4<f32>, 2u * CHUNK * STRIDE>;
// [SLICE, COLS], of four rows of the state.
var<workgroup> columns: array<vec4<f32>, SLICE * COLS>;
// [CHUNK / 4, COLS], what four tokens add to the state.
var<workgroup> added: array<vec4<f32>, CHUNK_VEC4S * COLS>;
// Of each token: its decay from the chunk's beginning, the factor of its value, those of its key and its query.
var<workgroup> factors: array<vec4<f32>, CHUNK>;
// Of each token: its decay up to the chunk's end.
var<workgroup> decays_after: array<f32, CHUNK>;

// The tokens of a sequence in a chunk: they begin at `begin` and end before `end`, counted from the chunk's first
// token, `first`.
struct Part {
    first: u32,
    begin: u32,
    end: u32,
}

// vec4 `i` of a vector of `k_dim` elements at `base`; beyond its end, 0.
fn load(base: u32, i: u32) -> vec4<f32> {
    var v = vec4<f32>(0.0);
    for (var j = 0u; j < 4u; j++) {
        if 4u * i + j < p.k_dim {
            v[j] = qkv[base + 4u * i + j];
        }
    }
    return v;
}

// Loads the factors of the tokens, 0 for those of other sequences, and multiplies decays.
fn load_factors(part: Part, head: u32, lid: u32) {
    if lid < CHUNK {
        let is_own = lid >= part.begin && lid < part.end;
        var own = vec4<f32>(0.0);
        if is_own {
            own = scores[score_row(head, part.first + lid)];
        }
        factors[lid] = own;
    }
    workgroupBarrier();
    var before = 1.0;
    var after = 1.0;
    if lid < CHUNK {
        for (var i = part.begin; i <= lid && i < part.end; i++) {
            before *= factors[i].x;
        }
        for (var i = lid + 1u; i < part.end; i++) {
            after *= factors[i].x;
        }
    }
    workgroupBarrier();
    if lid < CHUNK {
        factors[lid].x = before;
        decays_after[lid] = after;
    }
}

// Loads the scores of the tokens, or the inverse, with each other: 0 where one of them is of another sequence.
fn load_scores(part: Part, head: u32, matrix: u32, lid: u32) {
    for (var k = lid; k < CHUNK * CHUNK_VEC4S; k += WG) {
        let i = k / CHUNK_VEC4S;
        let j = k % CHUNK_VEC4S;
        var v = vec4<f32>(0.0);
        if i >= part.begin && i < part.end {
            v = scores[score_row(head, part.first + i) + 1u + matrix * CHUNK_VEC4S + j];
            v = select(v, vec4(0.0), 4u * j + vec4(0u, 1u, 2u, 3u) < vec4(part.begin));
        }
        rows[i * PITCH + j] = v;
    }
}

// The product of four rows of scores, from `i` on, with a column of `added`, added to `sums`.
fn add_scores(i: u32, column: u32, sums: vec4<f32>, end: u32) -> vec4<f32> {
    var v = sums;
    for (var j = 0u; 4u * j < end; j++) {
        let a = added[j * COLS + column];
        for (var r = 0u; r < 4u; r++) {
            v[r] += dot(rows[(i + r) * PITCH + j], a);
        }
    }
    return v;
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
    let head_width = (p.v_dim + COLUMN_STEP - 1u) / COLUMN_STEP * COLUMN_STEP;
    let at = (wid.x + wid.z * groups.x) * COLS;
    let head = at / head_width;
    let first_column = at % head_width;
    if head >= p.v_heads || first_column >= p.v_dim {
        return;
    }
    let offsets = head_offsets(head);
    let matrix = head * p.k_dim * p.v_dim + first_column;
    let col_count = min(COLS, p.v_dim - first_column);
    let end = span.x + span.y;
    // This invocation's tokens, or a quarter of its rows, and its first column of the tile.
    let own_vec4 = lid / LANES;
    let lane = lid % LANES;
    var row_read = span.z;
    for (var first = span.x / CHUNK * CHUNK; first < end; first += CHUNK) {
        let part = Part(first, max(first, span.x) - first, min(end - first, CHUNK));
        load_factors(part, head, lid);
        // What the tokens read of the state, and what they answer to their keys: [OWN_COLS], of four tokens.
        var read: array<vec4<f32>, OWN_COLS>;
        @if(!mamba) var answers: array<vec4<f32>, OWN_COLS>;
        for (var c = 0u; c < OWN_COLS; c++) {
            read[c] = vec4(0.0);
            @if(!mamba) answers[c] = vec4(0.0);
        }
        for (var slice = 0u; 4u * slice < p.k_dim && row_read != NO_STATE; slice += SLICE) {
            for (var k = lid; k < CHUNK * SLICE; k += WG) {
                let i = k / SLICE;
                var query = vec4<f32>(0.0);
                @if(!mamba) var key = vec4<f32>(0.0);
                if i >= part.begin && i < part.end {
                    let base = (first + i) * token_width();
                    query = load(base + offsets.x, slice + k % SLICE);
                    @if(!mamba) key = load(base + offsets.y, slice + k % SLICE);
                }
                rows[i * STRIDE + k % SLICE] = query;
                @if(!mamba) rows[(CHUNK + i) * STRIDE + k % SLICE] = key;
            }
            for (var k = lid; k < SLICE * COLS; k += WG) {
                var v = vec4<f32>(0.0);
                for (var r = 0u; r < 4u; r++) {
                    let row = 4u * (slice + k / COLS) + r;
                    if row < p.k_dim && k % COLS < col_count {
                        v[r] = state[row_read * row_size + matrix + row * p.v_dim + k % COLS];
                    }
                }
                columns[k] = v;
            }
            workgroupBarrier();
            for (var x = 0u; x < SLICE; x++) {
                var own: array<vec4<f32>, OWN_COLS>;
                for (var c = 0u; c < OWN_COLS; c++) {
                    own[c] = columns[x * COLS + lane + LANES * c];
                }
                for (var r = 0u; r < 4u; r++) {
                    let i = 4u * own_vec4 + r;
                    let query = rows[i * STRIDE + x];
                    @if(!mamba) let key = rows[(CHUNK + i) * STRIDE + x];
                    for (var c = 0u; c < OWN_COLS; c++) {
                        read[c][r] += dot(query, own[c]);
                        @if(!mamba) answers[c][r] += dot(key, own[c]);
                    }
                }
            }
            workgroupBarrier();
        }
        @if(!mamba) load_scores(part, head, 1u, lid);
        @if(mamba) load_scores(part, head, 0u, lid);
        workgroupBarrier();
        for (var c = 0u; c < OWN_COLS; c++) {
            var v = vec4<f32>(0.0);
            for (var r = 0u; r < 4u; r++) {
                let i = 4u * own_vec4 + r;
                let f = factors[i];
                if i >= part.begin && i < part.end && lane + LANES * c < col_count {
                    let value = qkv[(first + i) * token_width() + offsets.z + first_column + lane + LANES * c];
                    @if(!mamba) v[r] = f.y * (value - f.x * f.z * answers[c][r]);
                    @if(mamba) v[r] = f.y * value;
                    read[c][r] *= f.x * f.w;
                    @if(mamba) read[c][r] += d[head] * value;
                }
            }
            added[own_vec4 * COLS + lane + LANES * c] = v;
        }
        workgroupBarrier();
        @if(!mamba) {
            for (var c = 0u; c < OWN_COLS; c++) {
                answers[c] = add_scores(4u * own_vec4, lane + LANES * c, vec4(0.0), part.end);
            }
            workgroupBarrier();
            for (var c = 0u; c < OWN_COLS; c++) {
                added[own_vec4 * COLS + lane + LANES * c] = answers[c];
            }
            load_scores(part, head, 0u, lid);
            workgroupBarrier();
        }
        for (var c = 0u; c < OWN_COLS; c++) {
            let column = lane + LANES * c;
            let v = add_scores(4u * own_vec4, column, read[c], part.end);
            for (var r = 0u; r < 4u; r++) {
                let i = 4u * own_vec4 + r;
                if i >= part.begin && i < part.end && column < col_count {
                    out[((first + i) * p.v_heads + head) * p.v_dim + first_column + column] = v[r];
                }
            }
        }
        let total = factors[part.end - 1u].x;
        for (var row = 0u; row < p.k_dim; row += CHUNK) {
            workgroupBarrier();
            for (var k = lid; k < CHUNK * CHUNK_VEC4S; k += WG) {
                let i = k / CHUNK_VEC4S;
                var key = vec4<f32>(0.0);
                if i >= part.begin && i < part.end {
                    key = load((first + i) * token_width() + offsets.y, row / 4u + k % CHUNK_VEC4S) * decays_after[i];
                }
                rows[k] = key;
            }
            workgroupBarrier();
            // [OWN_COLS], of four rows.
            var own: array<vec4<f32>, OWN_COLS>;
            let own_row = row + 4u * own_vec4;
            for (var c = 0u; c < OWN_COLS; c++) {
                own[c] = vec4(0.0);
                for (var r = 0u; r < 4u; r++) {
                    if row_read != NO_STATE && own_row + r < p.k_dim && lane + LANES * c < col_count {
                        own[c][r] = total * state[row_read * row_size + matrix + (own_row + r) * p.v_dim + lane + LANES * c];
                    }
                }
            }
            for (var j = part.begin / 4u; 4u * j < part.end; j++) {
                var keys: array<vec4<f32>, 4>;
                for (var r = 0u; r < 4u; r++) {
                    keys[r] = rows[(4u * j + r) * CHUNK_VEC4S + own_vec4];
                }
                for (var c = 0u; c < OWN_COLS; c++) {
                    let a = added[j * COLS + lane + LANES * c];
                    own[c] += keys[0] * a.x + keys[1] * a.y + keys[2] * a.z + keys[3] * a.w;
                }
            }
            for (var c = 0u; c < OWN_COLS; c++) {
                for (var r = 0u; r < 4u; r++) {
                    if own_row + r < p.k_dim && lane + LANES * c < col_count {
                        state[span.w * row_size + matrix + (own_row + r) * p.v_dim + lane + LANES * c] = own[c][r];
                    }
                }
            }
        }
        row_read = span.w;
        // Workgroup memory needs none: what the next chunk writes first was last read before the rows.
        storageBarrier();
    }
}
