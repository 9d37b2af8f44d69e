//! The parts of a decoder, which the pipelines build.

use wisp_engine::{
    graph::{
        AttentionSpec, CacheFormat, DType, HeadSpec, Op, RopeSpec, ValueId,
        ops::{CausalConv, GatedDeltaRule, KvWrite, Lora, Mamba2Scan, Sample},
    },
    shape,
};

use super::TestGraph;

const HEADS: HeadSpec = HeadSpec {
    heads: 2,
    head_dim: 4,
};

const ATTENTION: AttentionSpec = AttentionSpec {
    heads: 2,
    kv_heads: 2,
    head_dim: 4,
    value_dim: 4,
    page_size: 16,
    format: CacheFormat::F32,
    window: 0,
    chunked: false,
    scale: 0.5,
    softcap: 0.0,
    causal: true,
};

/// A cache whose rows fit [`HEADS`], and one whose rows are too narrow.
fn caches(b: &mut TestGraph) -> [ValueId; 2] {
    [4u64, 3].map(|words| b.buffer(DType::U32, shape!["pages", 16u64, 2u64, words]))
}

#[test]
fn rope_needs_matching_heads_index_and_table() {
    let mut b = TestGraph::new();
    let rope = RopeSpec {
        heads: HEADS,
        rotary_dim: 4,
        interleaved: false,
    };
    let x = b.f32(shape!["n", 8u64]);
    let short = b.f32(shape!["n", 6u64]);
    let index = b.u32(shape!["n", 2u64]);
    let [table, small, wide] = [4u64, 2, 6].map(|cols| b.weight(shape![9u64, cols]));
    b.assert_refused(
        Op::Rope(rope),
        &[short, index, table],
        "rope: x must be [.., 8], but $0 is [n, 6]",
    );
    b.assert_refused(
        Op::Rope(rope),
        &[x, x, table],
        "rope: the index must be u32 with 2 dimensions, but $1 is f32[n, 8]",
    );
    b.assert_refused(
        Op::Rope(rope),
        &[x, index, small],
        "rope: the table must be [.., 4], but $2 is [9, 2]",
    );
    let odd = RopeSpec {
        rotary_dim: 6,
        ..rope
    };
    b.assert_refused(
        Op::Rope(odd),
        &[x, index, wide],
        "rope: rotary_dim (6) must be even and at most head_dim (4)",
    );
}

#[test]
fn kv_write_needs_matching_rows_and_cache_buffers() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 8u64]);
    let short = b.f32(shape!["n", 6u64]);
    let index = b.u32(shape!["n", 2u64]);
    let page_table = b.u32(shape!["b", "p"]);
    let [cache, narrow] = caches(&mut b);
    let write = KvWrite {
        heads: HEADS,
        page_size: 16,
        format: CacheFormat::F32,
    };
    b.assert_refused(
        write,
        &[short, x, index, page_table, cache, cache],
        "kv_write: k must be [.., 8], but $0 is [n, 6]",
    );
    let empty = KvWrite {
        heads: HEADS,
        page_size: 0,
        format: CacheFormat::F32,
    };
    b.assert_refused(
        empty,
        &[x, x, index, page_table, cache, cache],
        "kv_write: the page size must be at least 1 position",
    );
    let other = b.f32(shape!["m", 8u64]);
    b.assert_refused(
        write,
        &[x, other, index, page_table, cache, cache],
        "kv_write: $0 [n, 8] and $1 [m, 8] must have the same outer dimensions",
    );
    b.assert_refused(
        write,
        &[x, x, index, index, x, cache],
        "kv_write: the key cache must be a buffer, but $4 is an input",
    );
    b.assert_refused(
        write,
        &[x, x, index, page_table, cache, narrow],
        "kv_write: the value cache must be [.., 4], but $5 is [pages, 16, 2, 3]",
    );
}

#[test]
fn attention_needs_matching_heads_and_caches() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 8u64]);
    let short = b.f32(shape!["n", 6u64]);
    let index = b.u32(shape!["n", 2u64]);
    let page_table = b.u32(shape!["b", "p"]);
    let [cache, narrow] = caches(&mut b);
    let attention = Op::Attention(ATTENTION);
    b.assert_refused(
        attention,
        &[short, cache, cache, index, page_table],
        "attention: q must be [.., 8], but $0 is [n, 6]",
    );
    b.assert_refused(
        attention,
        &[x, narrow, cache, index, page_table],
        "attention: the key cache must be [.., 4], but $1 is [pages, 16, 2, 3]",
    );
    b.assert_refused(
        attention,
        &[x, cache, cache, index, page_table, x],
        "attention: the sinks must be f32 with 1 dimension, but $0 is f32[n, 8]",
    );
    let three = b.weight(shape![3u64]);
    b.assert_refused(
        attention,
        &[x, cache, cache, index, page_table, three],
        "attention: the sinks must be [.., 2], but $5 is [3]",
    );
    let shared = Op::Attention(AttentionSpec {
        kv_heads: 3,
        ..ATTENTION
    });
    b.assert_refused(
        shared,
        &[x, cache, cache, index, page_table],
        "attention: the number of heads (2) must be a multiple of the number of KV heads (3)",
    );
    let empty = Op::Attention(AttentionSpec {
        page_size: 0,
        ..ATTENTION
    });
    b.assert_refused(
        empty,
        &[x, cache, cache, index, page_table],
        "attention: the page size must be at least 1 position",
    );
    for value_dim in [0, 5] {
        let long = Op::Attention(AttentionSpec {
            value_dim,
            ..ATTENTION
        });
        b.assert_refused(
            long,
            &[x, cache, cache, index, page_table],
            &format!(
                "attention: heads of 4 elements with values of {value_dim}; the most are 576 and 512, and a value is a part \
                 of a head"
            ),
        );
    }
}

#[test]
fn full_attention_needs_the_lengths() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 8u64]);
    let index = b.u32(shape!["n", 2u64]);
    let page_table = b.u32(shape!["b", "p"]);
    let [cache, _] = caches(&mut b);
    let full = Op::Attention(AttentionSpec {
        causal: false,
        ..ATTENTION
    });
    b.assert_refused(
        full,
        &[x, cache, cache, index, page_table, x],
        "full_attention: the lengths must be u32 with 1 dimension, but $5 is f32[n, 8]",
    );
    b.assert_refused(
        full,
        &[x, cache, cache, index, page_table],
        "full_attention: expected q, k_cache, v_cache, index, page_table, lengths and optionally sinks, got 5 operands",
    );
}

#[test]
fn lora_needs_matching_ranks() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 8u64]);
    let index = b.u32(shape!["n", 2u64]);
    let adapters = b.u32(shape!["b"]);
    let [a, low] = [8u64, 3].map(|cols| b.buffer(DType::F32, shape![4u64, 2u64, cols]));
    b.assert_refused(
        Lora,
        &[x, index, adapters, a, x, x],
        "lora: b must be f32 with 3 dimensions, but $4 is f32[n, 8]",
    );
    b.assert_refused(
        Lora,
        &[x, index, adapters, a, low, x],
        "lora: a [4, 2, 8] must be [slots, layers * rank, columns of x] and b [4, 2, 3] [slots, rank, columns of all layers' results]",
    );
}

#[test]
fn sample_needs_its_settings_in_a_buffer() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 8u64]);
    let index = b.u32(shape!["n", 2u64]);
    let page_table = b.u32(shape!["b", "p"]);
    let sample = [
        x, index, page_table, index, index, index, index, index, index,
    ];
    b.assert_refused(
        Sample,
        &sample,
        "sample: settings must be a buffer, but $7 is an input",
    );
}

/// Kernels write a token and its place, and read settings, for each row of logits.
#[test]
fn sample_needs_buffers_with_a_row_for_each_of_the_logits() {
    let mut b = TestGraph::new();
    let logits = b.f32(shape![64u64, 100u64]);
    let mut buffer = |shape| b.buffer(DType::U32, shape);
    let [settings, short] = [64u64, 1].map(|rows| buffer(shape![rows, 15u64]));
    let [tokens, token] = [64u64, 1].map(|rows| buffer(shape![rows]));
    let [index, place, narrow] =
        [[64u64, 2], [1, 2], [64, 1]].map(|[rows, cols]| buffer(shape![rows, cols]));
    let [counts, few] = [100u64, 99].map(|cols| buffer(shape!["b", cols]));
    let out = buffer(shape!["draws"]);
    let biases = buffer(shape!["b", 8u64, 4u64]);
    let scores = buffer(shape!["draws", 3u64]);
    let masks = buffer(shape!["b", 4u64]);
    let fitting = [
        logits, settings, counts, tokens, index, out, biases, scores, masks,
    ];
    let rows = "must have a row for each of the logits [64, 100]";
    for (at, wrong, message) in [
        (1, short, format!("$1 [1, 15] {rows}")),
        (2, few, "counts must be [.., 100], but $2 is [b, 99]".into()),
        (3, token, format!("$3 [1] {rows}")),
        (4, place, format!("$4 [1, 2] {rows}")),
        (4, narrow, "index must be [.., 2], but $4 is [64, 1]".into()),
    ] {
        let mut operands = fitting;
        operands[at] = wrong;
        b.assert_refused(Sample, &operands, &format!("sample: {message}"));
    }
    b.0.add(Sample, &fitting).unwrap();
}

/// Ops that read the sequence or the position of each token, with an index.
fn ops_with_index(b: &mut TestGraph, index: ValueId) -> [(Op, Vec<ValueId>); 5] {
    let x = b.f32(shape!["n", 8u64]);
    let [page_table, spans] = [b.u32(shape!["b", "p"]), b.u32(shape!["b", 4u64])];
    let [cache, _] = caches(b);
    let [table, filters] = [[9u64, 4], [8, 2]].map(|[rows, cols]| b.weight(shape![rows, cols]));
    let state = b.buffer(DType::F32, shape!["rows", 1u64, 8u64]);
    let adapters = b.u32(shape!["b"]);
    let matrices = b.buffer(DType::F32, shape![4u64, 2u64, 8u64]);
    let rope = RopeSpec {
        heads: HEADS,
        rotary_dim: 4,
        interleaved: false,
    };
    let write = KvWrite {
        heads: HEADS,
        page_size: 16,
        format: CacheFormat::F32,
    };
    let conv = CausalConv {
        gated: false,
        silu: false,
    };
    let [attention, lora] = [Op::Attention(ATTENTION), Lora.into()];
    [
        (rope.into(), vec![x, index, table]),
        (write.into(), vec![x, x, index, page_table, cache, cache]),
        (attention, vec![x, cache, cache, index, page_table]),
        (conv.into(), vec![x, filters, index, spans, state]),
        (lora, vec![x, index, adapters, matrices, matrices, x]),
    ]
}

#[test]
fn an_index_has_the_sequence_and_the_position_of_each_row() {
    let mut b = TestGraph::new();
    let narrow = b.u32(shape!["n", 1u64]);
    for (op, operands) in ops_with_index(&mut b, narrow) {
        let message = format!("{}: the index must be [.., 2], but u0 is [n, 1]", op.name());
        b.assert_refused(op, &operands, &message);
    }
    let mut b = TestGraph::new();
    let other = b.u32(shape!["m", 2u64]);
    for (op, operands) in ops_with_index(&mut b, other) {
        let message = format!(
            "{}: $0 [n, 8] and u0 [m, 2] must have the same outer dimensions",
            op.name()
        );
        b.assert_refused(op, &operands, &message);
    }
    let mut b = TestGraph::new();
    let index = b.u32(shape!["n", 2u64]);
    for (op, operands) in ops_with_index(&mut b, index) {
        b.0.add_all(op, &operands).unwrap();
    }
}

#[test]
fn rope_needs_a_table_of_floats() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 8u64]);
    let index = b.u32(shape!["n", 2u64]);
    let table = b.u32(shape![9u64, 4u64]);
    let rope = RopeSpec {
        heads: HEADS,
        rotary_dim: 4,
        interleaved: false,
    };
    b.assert_refused(
        rope,
        &[x, index, table],
        "rope: the table must be f32, but $2 is u32",
    );
}

#[test]
fn recurrences_need_gates_and_steps_of_each_token() {
    let mut b = TestGraph::new();
    let spans = b.u32(shape!["b", 4u64]);
    let two = b.weight(shape![2u64]);
    let state = b.buffer(DType::F32, shape!["rows", 8u64, 4u64]);
    let qkv = b.f32(shape!["n", 24u64]);
    let [gates, steps] = [4u64, 2].map(|cols| b.f32(shape!["m", cols]));
    let rule = GatedDeltaRule {
        k_heads: 2,
        v_heads: 2,
        k_dim: 4,
        v_dim: 4,
        eps: 1e-6,
    };
    b.assert_refused(
        rule,
        &[qkv, gates, two, two, spans, state],
        "gated_delta_rule: $0 [n, 24] and $1 [m, 4] must have the same outer dimensions",
    );
    let xbc = b.f32(shape!["n", 16u64]);
    let scan = Mamba2Scan {
        groups: 1,
        heads: 2,
        state_dim: 4,
        head_dim: 4,
    };
    b.assert_refused(
        scan,
        &[xbc, steps, two, two, two, spans, state],
        "mamba2_scan: $0 [n, 16] and $1 [m, 2] must have the same outer dimensions",
    );
}

/// Both results would be in the memory of the one operand, with the contributions of both.
#[test]
fn lora_overwrites_each_result_once() {
    let mut b = TestGraph::new();
    let [x, y] = [(); 2].map(|()| b.f32(shape!["n", 8u64]));
    let index = b.u32(shape!["n", 2u64]);
    let adapters = b.u32(shape!["b"]);
    let [low, high] =
        [[4u64, 8], [2, 16]].map(|[rows, cols]| b.buffer(DType::F32, shape![4u64, rows, cols]));
    b.assert_refused(
        Lora,
        &[x, index, adapters, low, high, y, y],
        "lora: $5 is overwritten and must be given only once",
    );
}
