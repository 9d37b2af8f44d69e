//! What fusion, splitting and lowering make of small graphs.

mod lora;

use super::*;
use wisp_graph::{
    Activation, AttentionSpec, Binary, CacheFormat, HeadSpec, NormKind, NormSpec, Op, RopeSpec,
    ValueId, ValueKind,
    ops::{Custom, Embed, Gated, KvWrite, Linear, Lora, Softmax},
};
use wisp_types::{DType, Encoding, shape};

/// The usual norm.
const RMS: NormSpec = NormSpec {
    kind: NormKind::Rms,
    eps: 1e-5,
    weight_offset: 0.0,
};

/// A block of a transformer over `[tokens, 64]`, with its keys in an encoding of their own.
fn block(k_encoding: Encoding) -> Graph {
    let mut g = Graph::new("block");
    let x = g.input("x", DType::F32, shape!["tokens", 64u64]);
    let index = g.input("index", DType::U32, shape!["tokens", 2u64]);
    let pages = g.input("page_table", DType::U32, shape!["batch", "max_pages"]);
    let cache = shape!["pages", 16u64, 1u64, 32u64];
    let k_cache = g.buffer("k", DType::F32, cache.clone());
    let v_cache = g.buffer("v", DType::F32, cache);
    let table = g.weight("table", Encoding::F32, shape![128u64, 32u64]);
    let mut weight =
        |name: &str, encoding, rows: u64| g.weight(name, encoding, shape![rows, 64u64]);
    let [wq, wk, wv, wo] = [
        weight("q", Encoding::Q8_0, 64),
        weight("k_proj", k_encoding, 32),
        weight("v_proj", Encoding::Q8_0, 32),
        weight("o", Encoding::Q8_0, 64),
    ];
    let [gate, up] = [
        weight("gate", Encoding::Q8_0, 96),
        weight("up", Encoding::Q8_0, 96),
    ];
    let norm = g.weight("norm", Encoding::F32, shape![64u64]);
    let copy = g.add(Op::Norm(RMS), &[x, norm]).unwrap();
    let (heads, kv) = (
        HeadSpec {
            heads: 2,
            head_dim: 32,
        },
        HeadSpec {
            heads: 1,
            head_dim: 32,
        },
    );
    let rope = |heads| {
        Op::Rope(RopeSpec {
            heads,
            rotary_dim: 32,
            interleaved: false,
        })
    };
    let q = g.add(Linear, &[copy, wq]).unwrap();
    let k = g.add(Linear, &[copy, wk]).unwrap();
    let v = g.add(Linear, &[copy, wv]).unwrap();
    let q = g.add(rope(heads), &[q, index, table]).unwrap();
    let k = g.add(rope(kv), &[k, index, table]).unwrap();
    g.add(
        KvWrite {
            heads: kv,
            page_size: 16,
            format: CacheFormat::F32,
        },
        &[k, v, index, pages, k_cache, v_cache],
    )
    .unwrap();
    let attention = AttentionSpec {
        heads: 2,
        kv_heads: 1,
        head_dim: 32,
        page_size: 16,
        format: CacheFormat::F32,
        window: 0,
        scale: 0.2,
        softcap: 0.0,
        causal: true,
    };
    let a = g
        .add(
            Op::Attention(attention),
            &[q, k_cache, v_cache, index, pages],
        )
        .unwrap();
    let o = g.add(Linear, &[a, wo]).unwrap();
    let sum = g.add(Binary::Add, &[copy, o]).unwrap();
    let n = g.add(Op::Norm(RMS), &[sum, norm]).unwrap();
    let (gate, up) = (
        g.add(Linear, &[n, gate]).unwrap(),
        g.add(Linear, &[n, up]).unwrap(),
    );
    let product = g
        .add(
            Gated {
                activation: Activation::Silu,
            },
            &[gate, up],
        )
        .unwrap();
    g.output("product", product);
    g.output("sum", sum);
    g
}

fn ops(program: &Program) -> Vec<&str> {
    let op = |call: &Call| wisp_shaders::kernel(&call.kernels[0].name).unwrap().op;
    program.calls.iter().map(op).collect()
}

#[test]
fn a_block_becomes_few_calls() {
    let program = compile(&block(Encoding::Q8_0), &Capabilities::BASELINE).unwrap();
    assert_eq!(
        ops(&program),
        [
            "rms_norm",
            "matmul.q8_0",
            "rope_kv_write.f32",
            "attention.f32",
            "matmul.q8_0",
            "add_rms_norm",
            "matmul.q8_0",
            "gated"
        ]
    );
    let stacked = &program.matrices[0];
    assert_eq!((stacked.row_ranges.len(), stacked.rows()), (3, 128));
}

#[test]
fn norms_of_heads_join_their_rotation() {
    let mut g = Graph::new("normed");
    let x = g.input("x", DType::F32, shape!["tokens", 64u64]);
    let index = g.input("index", DType::U32, shape!["tokens", 2u64]);
    let pages = g.input("page_table", DType::U32, shape!["batch", "max_pages"]);
    let cache = shape!["pages", 16u64, 2u64, 32u64];
    let k_cache = g.buffer("k", DType::F32, cache.clone());
    let v_cache = g.buffer("v", DType::F32, cache);
    let table = g.weight("table", Encoding::F32, shape![128u64, 32u64]);
    let heads = HeadSpec {
        heads: 2,
        head_dim: 32,
    };
    let rope = Op::Rope(RopeSpec {
        heads,
        rotary_dim: 32,
        interleaved: false,
    });
    let [q, k] = ["q", "k"].map(|name| {
        let weight = g.weight(name, Encoding::Q8_0, shape![64u64, 64u64]);
        let norm = g.weight(&format!("{name}_norm"), Encoding::F32, shape![32u64]);
        let made = g.add(Linear, &[x, weight]).unwrap();
        let normed = g.add(Op::Norm(RMS), &[made, norm]).unwrap();
        g.add(rope, &[normed, index, table]).unwrap()
    });
    let v = g.weight("v", Encoding::Q8_0, shape![64u64, 64u64]);
    let v = g.add(Linear, &[x, v]).unwrap();
    let write = KvWrite {
        heads,
        page_size: 16,
        format: CacheFormat::F32,
    };
    g.add(write, &[k, v, index, pages, k_cache, v_cache])
        .unwrap();
    let attention = Op::Attention(AttentionSpec {
        heads: 2,
        kv_heads: 2,
        head_dim: 32,
        page_size: 16,
        format: CacheFormat::F32,
        window: 0,
        scale: 0.2,
        softcap: 0.0,
        causal: true,
    });
    let a = g
        .add(attention, &[q, k_cache, v_cache, index, pages])
        .unwrap();
    g.output("a", a);
    let program = compile(&g, &Capabilities::BASELINE).unwrap();
    assert_eq!(
        ops(&program),
        ["matmul.q8_0", "norm_rope_kv_write.f32", "attention.f32"]
    );
    assert_eq!(
        program.vectors.last().unwrap().tensors,
        ["q_norm", "k_norm"]
    );
}

#[test]
fn an_encoding_of_its_own_is_a_call_of_its_own() {
    let program = compile(&block(Encoding::F16), &Capabilities::BASELINE).unwrap();
    assert_eq!(
        ops(&program)[1..5],
        [
            "matmul.q8_0",
            "matmul.f16",
            "matmul.q8_0",
            "rope_kv_write.f32"
        ]
    );
}

#[test]
fn a_program_survives_serialisation_and_compiles_the_same_twice() {
    let graph = block(Encoding::Q8_0);
    let program = compile(&graph, &Capabilities::BASELINE).unwrap();
    assert_eq!(program, compile(&graph, &Capabilities::BASELINE).unwrap());
    let bytes = postcard::to_stdvec(&program).unwrap();
    assert_eq!(
        Program::try_from(postcard::from_bytes::<ProgramParts>(&bytes).unwrap()).unwrap(),
        program
    );
}

#[test]
fn a_weight_over_the_binding_limit_is_split_by_rows() {
    let mut g = Graph::new("wide");
    let ids = g.input("ids", DType::U32, shape!["tokens"]);
    let table = g.weight("table", Encoding::F16, shape![200_000u64, 1024u64]);
    let x = g.add(Embed { scale: 1.0 }, &[ids, table]).unwrap();
    let y = g.add(Linear, &[x, table]).unwrap();
    g.output("y", y);
    let program = compile(&g, &Capabilities::BASELINE).unwrap();
    // 400 MiB in pieces of at most 128, which both ops share.
    assert_eq!(program.matrices.len(), 4);
    assert_eq!(program.calls.len(), 8);
    assert_eq!(
        program.matrices.iter().map(Matrix::rows).sum::<u64>(),
        200_000
    );
    for matrix in &program.matrices {
        let bytes = matrix.encoding.plane_row_bytes(matrix.cols)[0] * matrix.rows();
        assert!(bytes <= Capabilities::BASELINE.max_binding_bytes);
    }
    // The host binds it in one piece.
    assert_eq!(compile(&g, &Capabilities::HOST).unwrap().matrices.len(), 1);
}

#[test]
fn misfits_are_named() {
    let mut g = Graph::new("misfit");
    let x = g.input("x", DType::F32, shape!["tokens", 64u64]);
    let w = g.weight("w", Encoding::F32, shape![8u64, 60u64]);
    let error = g.add(Linear, &[x, w]).unwrap_err().to_string();
    assert_eq!(
        error,
        "linear: x [tokens, 64] and the weight [8, 60] must have the same number of columns (x: f32[tokens, 64], w: f32[8, 60])"
    );
    // Rope works in place: what it turns must not be needed afterwards.
    let mut g = Graph::new("in place");
    let x = g.input("x", DType::F32, shape!["tokens", 64u64]);
    let index = g.input("index", DType::U32, shape!["tokens", 2u64]);
    let table = g.weight("table", Encoding::F32, shape![128u64, 32u64]);
    let heads = HeadSpec {
        heads: 2,
        head_dim: 32,
    };
    let turned = g
        .add(
            Op::Rope(RopeSpec {
                heads,
                rotary_dim: 32,
                interleaved: true,
            }),
            &[x, index, table],
        )
        .unwrap();
    g.output("turned", turned);
    let error = compile(&g, &Capabilities::BASELINE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rope overwrites x, which must be a result that nothing reads afterwards"
    );
}

/// Reading a graph from a file refuses what no methods could have built; so does compiling it.
#[test]
fn operands_that_methods_do_not_take_are_named() {
    let mut g = Graph::new("forged");
    let x = g.input("x", DType::F32, shape!["tokens", 64u64]);
    let w = g.weight("w", Encoding::F32, shape![8u64, 64u64]);
    let y = g.add(Linear, &[x, w]).unwrap();
    let y = g.add(Softmax, &[y]).unwrap();
    g.output("y", y);
    let said = |change: fn(&mut Graph)| {
        let mut forged = g.clone();
        change(&mut forged);
        let error = compile(&forged, &Capabilities::BASELINE).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        said(|g| g.nodes_mut().swap(0, 1)),
        "softmax: linear.0 must be made before it is read"
    );
    assert_eq!(
        said(|g| g.values_mut()[1].kind = ValueKind::Input),
        "linear: w must be a weight with two or three fixed dimensions"
    );
    assert_eq!(
        said(|g| g.nodes_mut()[1].op = Custom::forged(5).into()),
        "custom: the op must be one of the graph's extensions"
    );
}
