// How `attention_split` divides what a token sees, and what `attention_combine` merges. Both calculate it from
// the parameters alone, so that they agree.
import package::attention_params::p;
import package::paged::sequence_capacity;

/// Parts of heads that a run of `attention_split` writes at most, for each query head: tokens times chunks.
const MAX_PARTS: u32 = 512u;

/// The fewest positions of a chunk of `attention_split`, and those that it computes at a time.
const CHUNK_STEP: u32 = 128u;

// The positions that a token sees at most.
fn reach() -> u32 {
    let capacity = sequence_capacity(p.page_size, p.max_pages);
    return select(capacity, min(p.window, capacity), p.window != 0u);
}

// The positions of a chunk: a multiple of `CHUNK_STEP`, larger for more tokens.
fn chunk_positions() -> u32 {
    let most = max(MAX_PARTS / max(p.tokens, 1u), 1u);
    let chunks = clamp(reach() / CHUNK_STEP, 1u, most);
    let positions = (reach() + chunks - 1u) / chunks;
    return (positions + CHUNK_STEP - 1u) / CHUNK_STEP * CHUNK_STEP;
}

// The number of chunks of each token.
fn chunk_count() -> u32 {
    let positions = max(chunk_positions(), 1u);
    return max((reach() + positions - 1u) / positions, 1u);
}

// Where the part of a head begins in `parts`, of a token and chunk: the weighted sum of values, then a
// vector of the largest score and the sum of weights.
fn part_offset(t: u32, chunk: u32, head: u32, value_vec4s: u32) -> u32 {
    return ((t * chunk_count() + chunk) * p.heads + head) * (value_vec4s + 1u);
}
