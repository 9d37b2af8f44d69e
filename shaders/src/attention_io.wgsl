// Shared by all `attention` kernels: bindings, loading the query, storing the result, the range of
// positions that a token attends to, and scores.
import package::cache::{cached_heads, query_dot_key};
import package::paged::{has_table_entry, kv_row, page_count, sequence_capacity};

/// `attention`: causal attention of ragged queries over a paged KV cache, with grouped heads and an
/// online softmax (FlashAttention, Dao et al. 2022). A token at position `p` attends to the positions
/// `max(0, p + 1 - window)..=p` of its sequence. Grid: `[heads, tokens]`.
///
/// `full_attention`: a token also attends to later positions: `max(0, p + 1 - window)..min(length, p +
/// window)`, with the sequence's length in `lengths`. Grid: `[heads, tokens]`.
///
/// Both write zeros for a token whose sequence or position is outside the page table, and read the
/// cache's last page where the table names a page outside the cache. A length is clamped to the
/// positions that the table can hold. The host's twin returns an error in all of these cases.
struct AttentionParams {
    /// Tokens in the batch.
    tokens: u32,
    /// Query heads, a multiple of `kv_heads`.
    heads: u32,
    /// KV heads.
    kv_heads: u32,
    /// Elements in a head, at most [`MAX_HEAD_DIM`].
    head_dim: u32,
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
}

@group(0) @binding(0) var<uniform> p: AttentionParams;
@group(0) @binding(1) var<storage, read> q: array<f32>; // [tokens, heads, head_dim]
// Bindings 2 and 3 are the cache.
@group(0) @binding(4) var<storage, read> index: array<vec2<u32>>; // [tokens], of (sequence, position)
@group(0) @binding(5) var<storage, read> page_table: array<u32>; // [batch, max_pages]
@group(0) @binding(6) var<storage, read_write> out: array<f32>; // [tokens, heads, head_dim]
@if(bidirectional) @group(0) @binding(7) var<storage, read> lengths: array<u32>; // [batch]

// Lower than every actual score, and finite, so that differences of scores are finite.
const LOWEST: f32 = -3.0e38;

// Loads vec4 `i` of the query at `base`, times `p.scale`; elements past the head's end are 0.
fn load_query(base: u32, i: u32) -> vec4<f32> {
    var v = vec4(0.0);
    for (var j = 0u; j < 4u; j++) {
        if 4u * i + j < p.head_dim {
            v[j] = q[base + 4u * i + j];
        }
    }
    return v * p.scale;
}

// Stores vec4 `i` of the result at `base`: the weighted sum of values divided by the total weight, or
// zeros if no position is visible.
fn store_out(base: u32, i: u32, weighted: vec4<f32>, total: f32) {
    let v = weighted / select(total, 1.0, total == 0.0);
    for (var j = 0u; j < 4u; j++) {
        if 4u * i + j < p.head_dim {
            out[base + 4u * i + j] = v[j];
        }
    }
}

// The number of whole pages in the cache.
fn cache_pages(vec4s: u32) -> u32 {
    return page_count(cached_heads(vec4s), p.page_size, p.kv_heads);
}

// The range of positions that a token (sequence, position) attends to: the first position and one past
// the last. The range is empty if the token is outside the page table or the cache is empty.
fn visible_range(token: vec2<u32>, pages: u32) -> vec2<u32> {
    if pages == 0u || !has_table_entry(token, arrayLength(&page_table), p.page_size, p.max_pages) {
        return vec2(0u);
    }
    let causal_end = token.y + 1u;
    let start = select(0u, causal_end - min(p.window, causal_end), p.window != 0u);
    @if(!bidirectional) let end = causal_end;
    @if(bidirectional) let stored_length = lengths[min(token.x, arrayLength(&lengths) - 1u)];
    @if(bidirectional) let length = clamp(stored_length, causal_end, sequence_capacity(p.page_size, p.max_pages));
    @if(bidirectional) let end = select(length, token.y + min(p.window, length - token.y), p.window != 0u);
    return vec2(start, end);
}

// The index of a head in the cache at a visible position. An invalid page is clamped to the last one.
fn visible_kv_row(sequence: u32, position: u32, kv_head: u32, pages: u32) -> u32 {
    let page = min(page_table[sequence * p.max_pages + position / p.page_size], pages - 1u);
    return kv_row(page, position, p.page_size, p.kv_heads) + kv_head;
}

// The score of the query with the key at offset `head`, after the soft cap.
fn capped_score(head: u32, vec4s: u32) -> f32 {
    let score = query_dot_key(head, vec4s);
    if p.softcap == 0.0 {
        return score;
    }
    // The argument is clamped, because tanh overflows internally on some devices.
    return p.softcap * tanh(clamp(score / p.softcap, -20.0, 20.0));
}
