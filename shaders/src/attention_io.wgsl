// Shared by the attention kernels that read the cache: bindings, loading the query, the range of positions that
// a token attends to, and scores.
import package::attention_params::{p, capped};
import package::cache::{cached_heads, query_dot_key};
import package::paged::{has_table_entry, kv_row, page_count, sequence_capacity};

@group(0) @binding(1) var<storage, read> q: array<f32>; // [tokens, heads, head_dim]
// Bindings 2 and 3 are the cache.
@group(0) @binding(4) var<storage, read> index: array<vec2<u32>>; // [tokens], of (sequence, position)
@group(0) @binding(5) var<storage, read> page_table: array<u32>; // [batch, max_pages]
@if(bidirectional) @group(0) @binding(8) var<storage, read> lengths: array<u32>; // [batch]

// Loads vec4 `i` of the query at `base`, times `p.scale`; elements past the head's end are 0.
fn load_query(base: u32, i: u32) -> vec4<f32> {
    let at = base + 4u * i;
    var v = vec4(0.0);
    if 4u * i + 4u <= p.head_dim {
        v = vec4(q[at], q[at + 1u], q[at + 2u], q[at + 3u]);
    } else {
        // At most three elements, so that compilers keep this rare case short.
        for (var j = 0u; 4u * i + j < p.head_dim; j++) {
            v[j] = q[at + j];
        }
    }
    return v * p.scale;
}

// The sum, plus the dot product of two vectors.
fn add_dot(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, sum))));
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
    var start = select(0u, causal_end - min(p.window, causal_end), p.window != 0u);
    if p.chunked != 0u {
        start = token.y - token.y % max(p.window, 1u);
    }
    @if(!bidirectional) let end = causal_end;
    @if(bidirectional) let stored_length = lengths[min(token.x, arrayLength(&lengths) - 1u)];
    @if(bidirectional) let length = clamp(stored_length, causal_end, sequence_capacity(p.page_size, p.max_pages));
    @if(bidirectional) let end = select(length, token.y + min(p.window, length - token.y), p.window != 0u);
    return vec2(start, end);
}

// Tokens of one sequence that follow each other in a batch.
struct Run {
    sequence: u32,
    // One past the last of them.
    end: u32,
    // The range of positions that contains all that they see.
    visible: vec2<u32>,
}

// The tokens of the sequence of token `first` that follow it, up to `end`.
fn run_of_tokens(first: u32, end: u32, pages: u32) -> Run {
    var run = Run(index[first].x, first, vec2(0xffffffffu, 0u));
    while run.end < end && index[run.end].x == run.sequence {
        let range = visible_range(index[run.end], pages);
        if range.x < range.y {
            run.visible = vec2(min(run.visible.x, range.x), max(run.visible.y, range.y));
        }
        run.end++;
    }
    return run;
}

// The index of a head in the cache at a visible position. An invalid page is clamped to the last one.
fn visible_kv_row(sequence: u32, position: u32, kv_head: u32, pages: u32) -> u32 {
    let page = min(page_table[sequence * p.max_pages + position / p.page_size], pages - 1u);
    return kv_row(page, position, p.page_size, p.kv_heads) + kv_head;
}

// The score of the query with the key at offset `head`, after the soft cap.
fn capped_score(head: u32, vec4s: u32) -> f32 {
    return capped(query_dot_key(head, vec4s));
}
