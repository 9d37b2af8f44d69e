// The paged KV cache: [pages, page_size, kv_heads] heads, in a format that a file in `caches/` defines.
// A page table row of `max_pages` entries lists the pages of a sequence.
//
// Users can write page tables, sequence numbers and positions, so each is checked before it is used as
// an address.

// The index of a position's first head in the cache.
fn kv_row(page: u32, position: u32, page_size: u32, kv_heads: u32) -> u32 {
    return (page * page_size + position % page_size) * kv_heads;
}

// The number of whole pages in a cache of `heads` heads.
fn page_count(heads: u32, page_size: u32, kv_heads: u32) -> u32 {
    // Two divisions, because the product of the divisors may overflow.
    return heads / max(kv_heads, 1u) / max(page_size, 1u);
}

// The number of positions that a sequence's row of the page table can hold, limited to less than 2^31
// so that a loop over positions can add a stride without overflow.
fn sequence_capacity(page_size: u32, max_pages: u32) -> u32 {
    return min(max_pages, 0x7fffffffu / max(page_size, 1u)) * page_size;
}

// Whether a token's (sequence, position) has an entry in a page table of `table_len` entries.
fn has_table_entry(token: vec2<u32>, table_len: u32, page_size: u32, max_pages: u32) -> bool {
    return token.x < table_len / max(max_pages, 1u) && token.y < sequence_capacity(page_size, max_pages);
}
