// How `attention_split` divides what a token sees, and what `attention_combine` merges. Both calculate it from
// the parameters alone, so that they agree.
import package::attention_params::p;
import package::paged::sequence_capacity;

/// Parts of heads that a run of `attention_split` writes at most, for each query head: tokens times chunks.
const MAX_PARTS: u32 = 512u;

/// Query heads of a KV head for which the grid of `attention_split_wide` has a workgroup. On tensor cores every other workgroup
/// computes those of two.
const WIDE_SPLIT_HEADS: u32 = 4u;

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

// What a workgroup of `attention_split` computes: a chunk for some query heads of a KV head.
struct Share {
    chunk: u32,
    kv_head: u32,
    first_head: u32,
    heads: u32,
}

// The share of workgroup `x`, where a share has up to `at_once` query heads.
fn share_of(x: u32, at_once: u32) -> Share {
    let group = p.heads / p.kv_heads;
    let blocks = (group + at_once - 1u) / at_once;
    let kv_head = x / blocks % p.kv_heads;
    let first_of_group = x % blocks * at_once;
    return Share(
        x / (blocks * p.kv_heads), kv_head, kv_head * group + first_of_group, min(at_once, group - first_of_group),
    );
}

// The first position of a chunk of what a token sees, and one past the last; the same if the chunk is empty.
fn chunk_range(visible: vec2<u32>, chunk: u32) -> vec2<u32> {
    let start = min(visible.x + chunk * chunk_positions(), visible.y);
    return vec2(start, min(start + chunk_positions(), visible.y));
}

// Where the part of a head begins in `parts`, of a token and chunk: the weighted sum of values, then a
// vector of the largest score and the sum of weights.
fn part_offset(t: u32, chunk: u32, head: u32, value_vec4s: u32) -> u32 {
    return ((t * chunk_count() + chunk) * p.heads + head) * (value_vec4s + 1u);
}
