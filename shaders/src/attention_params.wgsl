// Shared by all attention kernels: parameters, scores, and storing the result.
import constants::OUT;

/// `attention`: causal attention of ragged queries over a paged KV cache, with grouped heads and an
/// online softmax (FlashAttention, Dao et al. 2022). A token at position `p` attends to the positions
/// `max(0, p + 1 - window)..=p` of its sequence, or, if windows are chunks, `p - p % window..=p`. Grid: `[heads,
/// tokens]`.
///
/// `full_attention`: a token also attends to later positions: `max(0, p + 1 - window)..min(length, p +
/// window)`, with the sequence's length in `lengths`. Grid: `[heads, tokens]`.
///
/// `attention_tiled` and `full_attention_tiled`: the same for many tokens. Grid: `[kv_heads, tokens * heads /
/// kv_heads]`.
///
/// `attention_split`: `attention` for few tokens with long sequences. What a token sees is divided into
/// chunks of at least 128 positions. If there is one chunk, the result is written; if there are several,
/// their parts, which `attention_combine` merges to the result. Grid: `[blocks * reach, tokens]`. `blocks`
/// is `kv_heads * ceil(heads / kv_heads / 8)`. `reach` is at least 128 and the number of positions that a
/// token can see: the smaller of `window` and `max_pages * page_size`.
///
/// `attention_split_wide`: the same for heads of more than 256 elements, in blocks of at most 4 heads instead of 8.
///
/// `attention_combine`: merges the parts that `attention_split` has written with the same parameters;
/// writes nothing if there is one chunk. Grid: `[heads, tokens]`.
///
/// A value has the first `value_dim` elements of its head in `v_cache`, which may be the buffer `k_cache` as well.
///
/// A head may have a sink, a score in `sinks` that joins the softmax as another position does, but has no value.
///
/// All write zeros for a token whose sequence or position is outside the page table, and read the
/// cache's last page where the table names a page outside the cache. A length is clamped to the
/// positions that the table can hold. The host's twin returns an error in all of these cases.
struct AttentionParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Query heads, a multiple of `kv_heads`.
    heads: u32,
    /// KV heads.
    kv_heads: u32,
    /// Elements in a head of queries and of the cache, at most [`MAX_HEAD_DIM`].
    head_dim: u32,
    /// Leading elements of a cached head that are a value, at most `head_dim` and [`MAX_VALUE_DIM`].
    value_dim: u32,
    /// Positions in a page.
    page_size: u32,
    /// Entries of a sequence in the page table.
    max_pages: u32,
    /// Positions that a token attends to on each side, its own included; 0 for no limit.
    window: u32,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    scale: f32,
    /// Scores become `softcap * tanh(score / softcap)`; 0 for no cap.
    softcap: f32,
    /// 1 if a window is a chunk: a token attends to no positions before the last multiple of `window`. Else 0.
    chunked: u32,
    /// 1 if heads have sinks; 0 if they have none, and any buffer may be bound as `sinks`.
    has_sinks: u32,
}

@group(0) @binding(0) var<uniform> p: AttentionParams;

@group(0) @binding(OUT) var<storage, read_write> out: array<f32>; // [tokens, heads, value_dim]
@group(0) @binding(OUT + 1u) var<storage, read> sinks: array<f32>; // [heads]

// Lower than every actual score, and finite, so that differences of scores are finite.
const LOWEST: f32 = -3.0e38;
// The score of a position that is not visible: so far below [`LOWEST`] that its weight is 0 even where no
// position is visible.
const MASKED: f32 = -3.3e38;

// Stores vec4 `i` of the result at `base`: the weighted sum of values divided by the total weight, or
// zeros if no position is visible.
fn store_out(base: u32, i: u32, weighted: vec4<f32>, total: f32) {
    let v = weighted / select(total, 1.0, total == 0.0);
    for (var j = 0u; j < 4u; j++) {
        if 4u * i + j < p.value_dim {
            out[base + 4u * i + j] = v[j];
        }
    }
}

// A head's total weight with that of its sink, where a score of `row_max` has the weight 1. The exponent is limited so
// that the total is finite; beyond the limit the results are 0 in any case.
fn with_sink(head: u32, row_max: f32, total: f32) -> f32 {
    if p.has_sinks == 0u {
        return total;
    }
    return total + exp(min(sinks[head] - row_max, 80.0));
}

// A score after the soft cap. With one exponential, tanh(x) = 1 - 2 / (exp(2x) + 1), which is cheaper than the
// devices' own; the argument is limited so that the exponential is finite.
fn capped(score: f32) -> f32 {
    if p.softcap == 0.0 {
        return score;
    }
    let e = exp(min(score * (2.0 / p.softcap), 80.0));
    return p.softcap - 2.0 * p.softcap / (e + 1.0);
}
