// The same as linear_recurrence_chunked.wgsl for software adapters: an invocation computes four whole columns of a
// head's matrix of one sequence, without barriers, four tokens and then four rows at a time. All invocations load the
// same queries, keys and scores. The longest loops are unrolled by four, because llvmpipe ends the loops of an invocation
// after 65,535 turns in all: after more than 1,000 tokens with states of 256 rows.
import package::linear_recurrence_params::{p, head_offsets, score_row, token_width, CHUNK, COLUMN_STEP, ROW_VEC4S};
import package::spans::{NO_STATE, is_valid_span};
import constants::{WG, ROWS};

@group(0) @binding(1) var<storage, read> qkv: array<f32>; // [tokens, 2 * k_heads * k_dim + v_heads * v_dim], q, k and v, or x, b and c
@group(0) @binding(2) var<storage, read> scores: array<f32>; // [v_heads, tokens, 4 + CHUNK], or [v_heads, tokens, 4 + 2 * CHUNK]
@group(0) @binding(3) var<storage, read> spans: array<vec4<u32>>; // [batch], of (first token, tokens, row read, row written)
@group(0) @binding(4) var<storage, read_write> state: array<f32>; // [rows, v_heads, k_dim, v_dim]
@group(0) @binding(5) var<storage, read_write> out: array<f32>; // [tokens, v_heads, v_dim]
@if(mamba) @group(0) @binding(6) var<storage, read> d: array<f32>; // [v_heads]

const TILE = vec2<u32>(4u * WG, 1u);

// The columns of the state.
var<private> own: array<vec4<f32>, ROWS>;
// Of each token of a chunk: what it reads of the state, and what it adds to it.
var<private> reads: array<vec4<f32>, CHUNK>;
var<private> added: array<vec4<f32>, CHUNK>;

// Four tokens or rows, of four columns.
alias Tile = array<vec4<f32>, 4>;

// Where four tokens begin in the input, from token `t` on. Those from `end` on repeat the last one before it; nothing reads
// their results.
fn token_offsets(t: u32, end: u32) -> vec4<u32> {
    return min(t + vec4(0u, 1u, 2u, 3u), vec4(end - 1u)) * token_width();
}

// Four numbers of the input.
fn load_each(at: vec4<u32>) -> vec4<f32> {
    return vec4(qkv[at.x], qkv[at.y], qkv[at.z], qkv[at.w]);
}

// Four columns of the values of a token, from `at` on; 0 beyond the last one.
fn load_values(at: u32, count: u32) -> vec4<f32> {
    var v = vec4<f32>(0.0);
    for (var c = 0u; c < 4u; c++) {
        if c < count {
            v[c] = qkv[at + c];
        }
    }
    return v;
}

// Adds four numbers times four columns.
fn add_products(sums: ptr<function, Tile>, factors: vec4<f32>, columns: vec4<f32>) {
    (*sums)[0] += factors.x * columns;
    (*sums)[1] += factors.y * columns;
    (*sums)[2] += factors.z * columns;
    (*sums)[3] += factors.w * columns;
}

// Computes what the four tokens from `i` on read of the state before the chunk, and what each adds if it is alone in
// it. Returns the decay up to the last one, `before` up to them.
fn read_state(first: u32, i: u32, end: u32, row: u32, before: f32, offsets: vec3<u32>, count: u32) -> f32 {
    let at = token_offsets(first + i, first + end);
    var read = Tile();
    @if(!mamba) var answers = Tile();
    var k = 0u;
    for (; k + 4u <= p.k_dim; k += 4u) {
        add_products(&read, load_each(at + offsets.x + k), own[k]);
        add_products(&read, load_each(at + offsets.x + k + 1u), own[k + 1u]);
        add_products(&read, load_each(at + offsets.x + k + 2u), own[k + 2u]);
        add_products(&read, load_each(at + offsets.x + k + 3u), own[k + 3u]);
        @if(!mamba) {
            add_products(&answers, load_each(at + offsets.y + k), own[k]);
            add_products(&answers, load_each(at + offsets.y + k + 1u), own[k + 1u]);
            add_products(&answers, load_each(at + offsets.y + k + 2u), own[k + 2u]);
            add_products(&answers, load_each(at + offsets.y + k + 3u), own[k + 3u]);
        }
    }
    for (; k < p.k_dim; k++) {
        add_products(&read, load_each(at + offsets.x + k), own[k]);
        @if(!mamba) add_products(&answers, load_each(at + offsets.y + k), own[k]);
    }
    var decay = before;
    // Loops over four are unrolled, which keeps their arrays in registers.
    for (var r = 0u; r < 4u; r++) {
        if i + r < end {
            let factors = row + (i + r) * 4u * ROW_VEC4S;
            let values = load_values(at[r] + offsets.z, count);
            decay *= scores[factors];
            @if(mamba) added[i + r] = scores[factors + 1u] * values;
            @if(!mamba) added[i + r] = scores[factors + 1u] * (values - decay * scores[factors + 2u] * answers[r]);
            reads[i + r] = decay * scores[factors + 3u] * read[r];
        }
    }
    return decay;
}

// The products of the scores of the tokens from `i` on, or (`matrix` 1) of their rows of the inverse, with what the tokens
// from `begin` on add. They are 0 for later tokens.
fn score_sums(row: u32, matrix: u32, i: u32, begin: u32, end: u32) -> Tile {
    let tokens = min(i + vec4(0u, 1u, 2u, 3u), vec4(end - 1u));
    let at = row + 4u * (tokens * ROW_VEC4S + 1u) + matrix * CHUNK;
    var sums = Tile();
    for (var j = begin; j < min(i + 4u, end); j++) {
        add_products(&sums, vec4(scores[at.x + j], scores[at.y + j], scores[at.z + j], scores[at.w + j]), added[j]);
    }
    return sums;
}

// Replaces what each token adds alone by what it adds after the others, from the last one to the first, because each
// depends on the earlier ones.
@if(!mamba)
fn solve(row: u32, begin: u32, end: u32) {
    for (var n = (end - begin + 3u) / 4u; n > 0u; n--) {
        let i = begin + 4u * (n - 1u);
        let sums = score_sums(row, 1u, i, begin, end);
        for (var r = 0u; r < 4u; r++) {
            if i + r < end {
                added[i + r] = sums[r];
            }
        }
    }
}

// Replaces four rows by those after the chunk, from row `k` on. `key` is where a token's key begins.
fn update_rows(first: u32, k: u32, begin: u32, end: u32, decay: f32, key: u32) {
    // Rows beyond the last one repeat it.
    let rows = min(k + vec4(0u, 1u, 2u, 3u), vec4(p.k_dim - 1u));
    var sums = Tile(decay * own[rows.x], decay * own[rows.y], decay * own[rows.z], decay * own[rows.w]);
    var i = begin;
    for (; i + 4u <= end; i += 4u) {
        let at = (first + i) * token_width() + key + rows;
        add_products(&sums, load_each(at), added[i]);
        add_products(&sums, load_each(at + token_width()), added[i + 1u]);
        add_products(&sums, load_each(at + 2u * token_width()), added[i + 2u]);
        add_products(&sums, load_each(at + 3u * token_width()), added[i + 3u]);
    }
    for (; i < end; i++) {
        add_products(&sums, load_each((first + i) * token_width() + key + rows), added[i]);
    }
    for (var r = 0u; r < 4u; r++) {
        if k + r < p.k_dim {
            own[k + r] = sums[r];
        }
    }
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
    let tile = (wid.x + wid.z * groups.x) * TILE.x;
    let head = tile / head_width;
    let column = tile % head_width + 4u * lid;
    if head >= p.v_heads || column >= p.v_dim {
        return;
    }
    let count = min(4u, p.v_dim - column);
    let offsets = head_offsets(head) + vec3(0u, 0u, column);
    let cell = head * p.k_dim * p.v_dim + column;
    for (var k = 0u; k < p.k_dim; k++) {
        own[k] = vec4(0.0);
        for (var c = 0u; c < 4u; c++) {
            if c < count && span.z != NO_STATE {
                own[k][c] = state[span.z * row_size + cell + k * p.v_dim + c];
            }
        }
    }
    let span_end = span.x + span.y;
    for (var first = span.x / CHUNK * CHUNK; first < span_end; first += CHUNK) {
        let begin = max(first, span.x) - first;
        let end = min(span_end - first, CHUNK);
        let row = 4u * score_row(head, first);
        var decay = 1.0;
        for (var i = begin; i < end; i += 4u) {
            decay = read_state(first, i, end, row, decay, offsets, count);
        }
        @if(!mamba) solve(row, begin, end);
        for (var i = begin; i < end; i += 4u) {
            let sums = score_sums(row, 0u, i, begin, end);
            for (var r = 0u; r < 4u; r++) {
                if i + r < end {
                    let t = first + i + r;
                    var result = reads[i + r] + sums[r];
                    @if(mamba) result += d[head] * load_values(t * token_width() + offsets.z, count);
                    for (var c = 0u; c < 4u; c++) {
                        if c < count {
                            out[(t * p.v_heads + head) * p.v_dim + column + c] = result[c];
                        }
                    }
                }
            }
        }
        // What the tokens add at the end of the chunk.
        var after = 1.0;
        for (var i = end; i > begin; i--) {
            added[i - 1u] *= after;
            after *= scores[row + (i - 1u) * 4u * ROW_VEC4S];
        }
        for (var k = 0u; k < p.k_dim; k += 4u) {
            update_rows(first, k, begin, end, decay, offsets.y);
        }
    }
    for (var k = 0u; k < p.k_dim; k++) {
        for (var c = 0u; c < 4u; c++) {
            if c < count {
                state[span.w * row_size + cell + k * p.v_dim + c] = own[k][c];
            }
        }
    }
}
