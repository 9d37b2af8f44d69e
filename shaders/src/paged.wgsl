// The paged KV cache: [pages, page_size, kv_heads] heads; `caches/` says what one is made of.

// The number of a position's first head.
fn cache_row(page: u32, position: u32, page_size: u32, kv_heads: u32) -> u32 {
    return (page * page_size + position % page_size) * kv_heads;
}
