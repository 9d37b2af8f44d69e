//! The parts of a decoder, which the pipelines build.

use wisp_engine::{
    graph::{AttentionSpec, CacheFormat, DType, HeadSpec, Op, RopeSpec},
    shape,
};

use super::Bench;

#[test]
fn parts_of_a_decoder() {
    let mut b = Bench::new();
    let heads = HeadSpec {
        heads: 2,
        head_dim: 4,
    };
    let rope = RopeSpec {
        heads,
        rotary_dim: 4,
        interleaved: false,
    };
    let (x, short, index) = (
        b.x(shape!["n", 8u64]),
        b.x(shape!["n", 6u64]),
        b.u(shape!["n", 2u64]),
    );
    let (table, pages, small) = (
        b.w(shape![9u64, 4u64]),
        b.u(shape!["b", "p"]),
        b.w(shape![9u64, 2u64]),
    );
    b.refuses(
        Op::Rope(rope),
        &[short, index, table],
        "rope: x must be 8 wide, but $0 is [n, 6]",
    );
    b.refuses(
        Op::Rope(rope),
        &[x, x, table],
        "rope: the index must be u32 with 2 dimensions, but $1 is f32[n, 8]",
    );
    b.refuses(
        Op::Rope(rope),
        &[x, index, small],
        "rope: the table must be 4 wide, but $2 is [9, 2]",
    );
    let odd = RopeSpec {
        rotary_dim: 6,
        ..rope
    };
    let wide = b.w(shape![9u64, 6u64]);
    b.refuses(
        Op::Rope(odd),
        &[x, index, wide],
        "rope: cannot rotate 6 of 4 elements",
    );
    let cache = b.buffer(DType::U32, shape!["pages", 16u64, 2u64, 4u64]);
    let bad = b.buffer(DType::U32, shape!["pages", 16u64, 2u64, 3u64]);
    let write = Op::KvWrite {
        heads,
        page_size: 16,
        format: CacheFormat::F32,
    };
    b.refuses(
        write,
        &[short, x, index, pages, cache, cache],
        "kv_write: k must be 8 wide, but $0 is [n, 6]",
    );
    let empty = Op::KvWrite {
        heads,
        page_size: 0,
        format: CacheFormat::F32,
    };
    b.refuses(
        empty,
        &[x, x, index, pages, cache, cache],
        "kv_write: a page of the cache must have room for a position",
    );
    let other = b.x(shape!["m", 8u64]);
    b.refuses(
        write,
        &[x, other, index, pages, cache, cache],
        "kv_write: outer dimensions differ: [n, 8] and [m, 8]",
    );
    b.refuses(
        write,
        &[x, x, index, index, x, cache],
        "kv_write: the key cache must be a buffer, but $4 is none",
    );
    b.refuses(
        write,
        &[x, x, index, pages, cache, bad],
        "kv_write: the value cache must be 4 wide, but $5 is [pages, 16, 2, 3]",
    );
    let spec = AttentionSpec {
        heads: 2,
        kv_heads: 2,
        head_dim: 4,
        page_size: 16,
        format: CacheFormat::F32,
        window: 0,
        scale: 0.5,
        softcap: 0.0,
        causal: true,
    };
    let attention = Op::Attention(spec);
    b.refuses(
        attention,
        &[short, cache, cache, index, pages],
        "attention: q must be 8 wide, but $0 is [n, 6]",
    );
    b.refuses(
        attention,
        &[x, bad, cache, index, pages],
        "attention: the key cache must be 4 wide, but $1 is [pages, 16, 2, 3]",
    );
    let shared = Op::Attention(AttentionSpec {
        kv_heads: 3,
        ..spec
    });
    b.refuses(
        shared,
        &[x, cache, cache, index, pages],
        "attention: 2 heads cannot share 3 KV heads",
    );
    let empty = Op::Attention(AttentionSpec {
        page_size: 0,
        ..spec
    });
    b.refuses(
        empty,
        &[x, cache, cache, index, pages],
        "attention: a page of the cache must have room for a position",
    );
    let both = Op::Attention(AttentionSpec {
        causal: false,
        ..spec
    });
    b.refuses(
        both,
        &[x, cache, cache, index, pages, x],
        "full_attention: the lengths must be u32 with 1 dimensions, but $5 is f32[n, 8]",
    );
    b.refuses(
        both,
        &[x, cache, cache, index, pages],
        "full_attention: it does not take 5 operands",
    );
    let adapters = b.u(shape!["b"]);
    let [a, low] = [8u64, 3].map(|cols| b.buffer(DType::F32, shape![4u64, 2u64, cols]));
    b.refuses(
        Op::Lora,
        &[x, index, adapters, a, x, x],
        "lora: b must be f32 with 3 dimensions, but $4 is f32[n, 8]",
    );
    b.refuses(
        Op::Lora,
        &[x, index, adapters, a, low, x],
        "lora: [4, 2, 8] and [4, 2, 3] do not fit the products",
    );
    let sample = [x, index, pages, index, index, index, index, index];
    b.refuses(
        Op::Sample,
        &sample,
        "sample: settings must be a buffer, but $1 is none",
    );
}
