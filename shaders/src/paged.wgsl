// The paged KV cache: [pages, page_size, kv_heads] heads, whose elements the files in `caches/` define.
// A page table row of `max_pages` entries lists the pages of a sequence.
//
// Page tables, sequence numbers and positions are data that a user may write, so each of them is checked
// before it becomes an address.

// The number of a position's first head in the cache.
fn kv_row(page: u32, position: u32, page_size: u32, kv_heads: u32) -> u32 {
    return (page * page_size + position % page_size) * kv_heads;
}

// Whole pages in a cache of so many heads.
fn page_count(heads: u32, page_size: u32, kv_heads: u32) -> u32 {
    // Divided one by one: the product may overflow.
    return heads / max(kv_heads, 1u) / max(page_size, 1u);
}

// Positions that a sequence's row of the page table has room for, less than 2^31 so that a loop over
// positions may add a stride without overflow.
fn sequence_capacity(page_size: u32, max_pages: u32) -> u32 {
    return min(max_pages, 0x7fffffffu / max(page_size, 1u)) * page_size;
}

// Whether a token's (sequence, position) has an entry in a page table of `table_len` entries.
fn has_table_entry(token: vec2<u32>, table_len: u32, page_size: u32, max_pages: u32) -> bool {
    return token.x < table_len / max(max_pages, 1u) && token.y < sequence_capacity(page_size, max_pages);
}
