// Shared by all kernels of linear recurrences: parameters, and how a prompt is computed in chunks.

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
/// `gated_delta_rule_chunked` and `mamba2_scan_chunked`: the same for many tokens, which are computed [`CHUNK`] at a
/// time from the state before them and from the scores that `gated_delta_rule_scores` and `mamba2_scan_scores` write
/// with the same parameters. Grid: `[v_heads * v_dim, batch]`, with `v_dim` rounded up to a multiple of
/// [`COLUMN_STEP`].
///
/// `gated_delta_rule_scores` and `mamba2_scan_scores`: what tokens of a chunk add to each other's results, which depends on
/// no state. The chunks are those of the batch, whatever its sequences are. A token has a row for each head: four
/// factors, then its scores with the tokens of its chunk, 0 for later ones: `score[i][j] = scale * (q[i] * k[j]) *
/// decay(i, j)`, where `decay(i, j)` is the product of the decays of the tokens after `j` up to `i`. The delta rule has
/// also a row of the inverse of `1 + a`, where `a[i][j] = sigmoid(b[i]) * (k[i] * k[j]) * decay(i, j)` for `j < i`: it
/// multiplies what each token would add if it were alone in its chunk, and yields what they add together (the UT
/// transform, Yang et al. 2024, section 3.3). Grid: `[k_heads, tokens]`.
///
/// The factors are the token's decay; that of its value, which is `step`, or `sigmoid(b)` divided by the length of `k`;
/// 1 divided by the length of `k`; and that of `q`, `scale` divided by its length. Scores multiply `k` as it is stored,
/// not normalized, and so does the inverse.
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

/// Tokens that `gated_delta_rule_chunked` and `mamba2_scan_chunked` compute at a time, those of a multiple of it in the
/// batch and the next ones.
const CHUNK: u32 = 32u;

/// Columns of a matrix are computed in groups of this many, or of a divisor.
const COLUMN_STEP: u32 = 32u;

@group(0) @binding(0) var<uniform> p: LinearRecurrenceParams;

// vec4s of a token's scores.
const CHUNK_VEC4S: u32 = CHUNK / 4u;

// vec4s of a token's row of a head: the factors, the scores, and the row of the inverse.
@if(mamba) const ROW_VEC4S: u32 = 1u + CHUNK_VEC4S;
@if(!mamba) const ROW_VEC4S: u32 = 1u + 2u * CHUNK_VEC4S;

// Where a token's row begins.
fn score_row(head: u32, t: u32) -> u32 {
    return (head * p.tokens + t) * ROW_VEC4S;
}

// Elements of a token of the input.
fn token_width() -> u32 {
    return 2u * p.k_heads * p.k_dim + p.v_heads * p.v_dim;
}

// Where the queries, the keys and the values of a head begin in a token of the input.
fn head_offsets(head: u32) -> vec3<u32> {
    let keys = p.k_heads * p.k_dim;
    let key = head / max(p.v_heads / max(p.k_heads, 1u), 1u) * p.k_dim;
    @if(!mamba) return vec3(key, keys + key, 2u * keys + head * p.v_dim);
    @if(mamba) let values = p.v_heads * p.v_dim;
    @if(mamba) return vec3(values + keys + key, values + key, head * p.v_dim);
}
