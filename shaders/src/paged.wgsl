// The paged KV cache: [pages, page_size, kv_heads, ceil(head_dim / 4)] of vec4<f32>.

// Where a page's slot begins, in rows of one head.
fn cache_row(page: u32, position: u32, page_size: u32, kv_heads: u32) -> u32 {
    return (page * page_size + position % page_size) * kv_heads;
}
