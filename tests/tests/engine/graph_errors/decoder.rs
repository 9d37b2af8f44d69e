//! The parts of a decoder, which the pipelines build.

use wisp_engine::{
    graph::{
        AttentionSpec, CacheFormat, DType, HeadSpec, Op, RopeSpec,
        ops::{KvWrite, Lora, Sample},
    },
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
        "rope: x must be [.., 8], but $0 is [n, 6]",
    );
    b.refuses(
        Op::Rope(rope),
        &[x, x, table],
        "rope: the index must be u32 with 2 dimensions, but $1 is f32[n, 8]",
    );
    b.refuses(
        Op::Rope(rope),
        &[x, index, small],
        "rope: the table must be [.., 4], but $2 is [9, 2]",
    );
    let odd = RopeSpec {
        rotary_dim: 6,
        ..rope
    };
    let wide = b.w(shape![9u64, 6u64]);
    b.refuses(
        Op::Rope(odd),
        &[x, index, wide],
        "rope: rotary_dim (6) must be even and at most head_dim (4)",
    );
    let cache = b.buffer(DType::U32, shape!["pages", 16u64, 2u64, 4u64]);
    let bad = b.buffer(DType::U32, shape!["pages", 16u64, 2u64, 3u64]);
    let write = KvWrite {
        heads,
        page_size: 16,
        format: CacheFormat::F32,
    };
    b.refuses(
        write,
        &[short, x, index, pages, cache, cache],
        "kv_write: k must be [.., 8], but $0 is [n, 6]",
    );
    let empty = KvWrite {
        heads,
        page_size: 0,
        format: CacheFormat::F32,
    };
    b.refuses(
        empty,
        &[x, x, index, pages, cache, cache],
        "kv_write: the page size must be at least 1 position",
    );
    let other = b.x(shape!["m", 8u64]);
    b.refuses(
        write,
        &[x, other, index, pages, cache, cache],
        "kv_write: $0 [n, 8] and $1 [m, 8] must have the same outer dimensions",
    );
    b.refuses(
        write,
        &[x, x, index, index, x, cache],
        "kv_write: the key cache must be a buffer, but $4 is an input",
    );
    b.refuses(
        write,
        &[x, x, index, pages, cache, bad],
        "kv_write: the value cache must be [.., 4], but $5 is [pages, 16, 2, 3]",
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
        "attention: q must be [.., 8], but $0 is [n, 6]",
    );
    b.refuses(
        attention,
        &[x, bad, cache, index, pages],
        "attention: the key cache must be [.., 4], but $1 is [pages, 16, 2, 3]",
    );
    let shared = Op::Attention(AttentionSpec {
        kv_heads: 3,
        ..spec
    });
    b.refuses(
        shared,
        &[x, cache, cache, index, pages],
        "attention: the number of heads (2) must be a multiple of the number of KV heads (3)",
    );
    let empty = Op::Attention(AttentionSpec {
        page_size: 0,
        ..spec
    });
    b.refuses(
        empty,
        &[x, cache, cache, index, pages],
        "attention: the page size must be at least 1 position",
    );
    let both = Op::Attention(AttentionSpec {
        causal: false,
        ..spec
    });
    b.refuses(
        both,
        &[x, cache, cache, index, pages, x],
        "full_attention: the lengths must be u32 with 1 dimension, but $5 is f32[n, 8]",
    );
    b.refuses(
        both,
        &[x, cache, cache, index, pages],
        "full_attention: expected q, k_cache, v_cache, index, page_table and lengths, got 5 operands",
    );
    let adapters = b.u(shape!["b"]);
    let [a, low] = [8u64, 3].map(|cols| b.buffer(DType::F32, shape![4u64, 2u64, cols]));
    b.refuses(
        Lora,
        &[x, index, adapters, a, x, x],
        "lora: b must be f32 with 3 dimensions, but $4 is f32[n, 8]",
    );
    b.refuses(
        Lora,
        &[x, index, adapters, a, low, x],
        "lora: a [4, 2, 8] must be [slots, layers * rank, columns of x] and b [4, 2, 3] [slots, rank, columns of all layers' results]",
    );
    let sample = [x, index, pages, index, index, index, index, index];
    b.refuses(
        Sample,
        &sample,
        "sample: settings must be a buffer, but $7 is an input",
    );
}
