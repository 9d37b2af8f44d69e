// What tokens of a chunk add to each other's results in a linear recurrence, in parallel over all chunks of a batch:
// see `LinearRecurrenceParams`. A workgroup computes the products of the queries and keys of one head with the keys of
// its chunk, an invocation those of four tokens with four tokens, and from them the scores of each head that shares them.
//
// Chunks may hold tokens of several sequences. Every number depends only on the tokens between two tokens, so that
// one that is not finite reaches no score between tokens of another sequence.
import package::linear_recurrence_gates::{qkv, decay_of_head, token_gates};
import package::linear_recurrence_params::{p, head_offsets, score_row, token_width, CHUNK, CHUNK_VEC4S};

@group(0) @binding(5) var<storage, read_write> scores: array<vec4<f32>>; // [v_heads, tokens, 1 + CHUNK / 4], or [v_heads, tokens, 1 + CHUNK / 2]

const TILE = vec2<u32>(1u, CHUNK);

// An invocation for four tokens by four tokens, and one for each length of a query or key.
const WG: u32 = CHUNK * CHUNK / 16u;
// vec4s of queries and keys that are in workgroup memory at a time.
const SLICE: u32 = 4u;
// vec4s from one query or key to the next, padded so that they are in different banks.
const STRIDE: u32 = SLICE + 1u;
// Numbers from one row of a matrix to the next, padded likewise.
const PITCH: u32 = CHUNK + 1u;

var<workgroup> queries: array<vec4<f32>, CHUNK * STRIDE>;
var<workgroup> keys: array<vec4<f32>, CHUNK * STRIDE>;
// Sums of squares of the queries, then of the keys.
@if(!mamba) var<workgroup> squares: array<f32, 2u * CHUNK>;
var<workgroup> decays: array<f32, CHUNK>;
// `sigmoid(b)` divided by the square of the length of `k`, and the factor of `q`.
@if(!mamba) var<workgroup> factors: array<vec2<f32>, CHUNK>;
// `a`, and the inverse of `1 + a`.
@if(!mamba) var<workgroup> couplings: array<f32, CHUNK * PITCH>;
@if(!mamba) var<workgroup> inverse: array<f32, CHUNK * PITCH>;

// vec4 `i` of a vector at `base`; beyond its end, 0.
fn load(base: u32, i: u32) -> vec4<f32> {
    var v = vec4<f32>(0.0);
    for (var j = 0u; j < 4u; j++) {
        if 4u * i + j < p.k_dim {
            v[j] = qkv[base + 4u * i + j];
        }
    }
    return v;
}

// Writes the factors of a token of a head.
fn store_factors(t: u32, head: u32, i: u32) {
    let gate = token_gates(t, head, decay_of_head(head));
    var row = vec4<f32>(gate, 1.0, p.scale);
    @if(!mamba) {
        row.w *= inverseSqrt(squares[i] + p.eps);
        row.z = inverseSqrt(squares[CHUNK + i] + p.eps);
        row.y *= row.z;
        factors[i] = vec2(row.y * row.z, row.w);
    }
    decays[i] = row.x;
    scores[score_row(head, t)] = row;
}

// The decays of four tokens from `i` on since token `j`: 0 for those before it.
fn decays_since(i: u32, j: u32) -> vec4<f32> {
    var product = 1.0;
    for (var m = j + 1u; m <= i; m++) {
        product *= decays[m];
    }
    var v = vec4<f32>(0.0);
    for (var r = 0u; r < 4u; r++) {
        if i + r > max(i, j) {
            product *= decays[i + r];
        }
        if i + r >= j {
            v[r] = product;
        }
    }
    return v;
}

// Column `c` of the inverse, by forward substitution.
@if(!mamba)
fn solve_column(c: u32) {
    for (var i = 0u; i < CHUNK; i++) {
        var sum = select(0.0, 1.0, i == c);
        for (var j = c; j < i; j++) {
            sum -= couplings[i * PITCH + j] * inverse[j * PITCH + c];
        }
        inverse[i * PITCH + c] = sum;
    }
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let k_head = wid.x;
    let first = wid.y * CHUNK;
    if k_head >= p.k_heads || first >= p.tokens {
        return;
    }
    let count = min(CHUNK, p.tokens - first);
    let group = p.v_heads / p.k_heads;
    let offsets = head_offsets(k_head * group);
    // This invocation's tokens: from `i` on, with those from `j` on.
    let i = lid / CHUNK_VEC4S * 4u;
    let j = lid % CHUNK_VEC4S * 4u;
    // [4 tokens], of four others.
    var query_products: array<vec4<f32>, 4>;
    @if(!mamba) var key_products: array<vec4<f32>, 4>;
    for (var r = 0u; r < 4u; r++) {
        query_products[r] = vec4(0.0);
        @if(!mamba) key_products[r] = vec4(0.0);
    }
    @if(!mamba) var own_squares = 0.0;
    for (var slice = 0u; 4u * slice < p.k_dim; slice += SLICE) {
        for (var k = lid; k < CHUNK * SLICE; k += WG) {
            // Tokens beyond the last one repeat it; nothing reads their results.
            let base = (first + min(k / SLICE, count - 1u)) * token_width();
            let at = k / SLICE * STRIDE + k % SLICE;
            queries[at] = load(base + offsets.x, slice + k % SLICE);
            keys[at] = load(base + offsets.y, slice + k % SLICE);
        }
        workgroupBarrier();
        for (var x = 0u; x < SLICE; x++) {
            var own: array<vec4<f32>, 4>;
            for (var s = 0u; s < 4u; s++) {
                own[s] = keys[(j + s) * STRIDE + x];
            }
            for (var r = 0u; r < 4u; r++) {
                let query = queries[(i + r) * STRIDE + x];
                query_products[r] += vec4(dot(query, own[0]), dot(query, own[1]), dot(query, own[2]), dot(query, own[3]));
                @if(!mamba) let key = keys[(i + r) * STRIDE + x];
                @if(!mamba) key_products[r] += vec4(dot(key, own[0]), dot(key, own[1]), dot(key, own[2]), dot(key, own[3]));
            }
            @if(!mamba) {
                let at = lid % CHUNK * STRIDE + x;
                if lid < CHUNK {
                    own_squares += dot(queries[at], queries[at]);
                } else {
                    own_squares += dot(keys[at], keys[at]);
                }
            }
        }
        workgroupBarrier();
    }
    @if(!mamba) {
        squares[lid] = own_squares;
        workgroupBarrier();
    }
    for (var head = k_head * group; head < (k_head + 1u) * group; head++) {
        if lid < CHUNK {
            store_factors(first + min(lid, count - 1u), head, lid);
        }
        workgroupBarrier();
        // [4 tokens i], of four tokens j, from columns of four tokens i.
        let since = transpose(mat4x4(decays_since(i, j), decays_since(i, j + 1u), decays_since(i, j + 2u), decays_since(i, j + 3u)));
        for (var r = 0u; r < 4u; r++) {
            var decayed = since[r] * query_products[r];
            @if(mamba) decayed *= p.scale;
            @if(!mamba) decayed *= factors[i + r].y;
            // A product that is not finite must not become one of later tokens.
            decayed = select(vec4(0.0), decayed, vec4(i + r) >= j + vec4(0u, 1u, 2u, 3u));
            if i + r < count {
                scores[score_row(head, first + i + r) + 1u + j / 4u] = decayed;
            }
            @if(!mamba)
            for (var s = 0u; s < 4u; s++) {
                couplings[(i + r) * PITCH + j + s] = factors[i + r].x * since[r][s] * key_products[r][s];
            }
        }
        workgroupBarrier();
        @if(!mamba) {
            if lid < CHUNK {
                solve_column(lid);
            }
            workgroupBarrier();
            for (var k = lid; k < CHUNK * CHUNK_VEC4S; k += WG) {
                let row = k / CHUNK_VEC4S;
                let at = row * PITCH + k % CHUNK_VEC4S * 4u;
                if row < count {
                    let v = vec4(inverse[at], inverse[at + 1u], inverse[at + 2u], inverse[at + 3u]);
                    scores[score_row(head, first + row) + 1u + CHUNK_VEC4S + k % CHUNK_VEC4S] = v;
                }
            }
            // The next head's `store_factors` precedes a barrier, and so does what replaces `couplings` and `inverse`.
        }
    }
}
