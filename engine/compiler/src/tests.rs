//! Tests of fusion, splitting and lowering on small graphs.

mod attention;
mod fusion;
mod hazards;
mod int8;
mod lora;
mod recurrence;

use super::*;
use wisp_graph::{
    Activation, AttentionSpec, Binary, CacheFormat, HeadSpec, NormKind, NormSpec, Op, RopeSpec,
    ValueId, ValueKind,
    ops::{Custom, Embed, Gated, KvWrite, Linear, Lora, Softmax},
};
use wisp_types::{DType, Encoding, shape};

/// An RMS norm as most models have it.
const RMS: NormSpec = NormSpec {
    kind: NormKind::Rms,
    eps: 1e-5,
    weight_offset: 0.0,
};

/// `heads` heads of 32 elements.
fn head_spec(heads: u32) -> HeadSpec {
    HeadSpec {
        heads,
        head_dim: 32,
    }
}

/// A rotary embedding of all elements of `heads` heads.
fn rope(heads: u32) -> Op {
    Op::Rope(RopeSpec {
        heads: head_spec(heads),
        rotary_dim: 32,
        interleaved: false,
    })
}

/// Causal attention of two heads over a paged cache.
fn attention(kv_heads: u32) -> AttentionSpec {
    AttentionSpec {
        heads: 2,
        kv_heads,
        head_dim: 32,
        value_dim: 32,
        page_size: 16,
        format: CacheFormat::F32,
        window: 0,
        chunked: false,
        scale: 0.2,
        softcap: 0.0,
        causal: true,
    }
}

fn kv_write(kv_heads: u32) -> KvWrite {
    KvWrite {
        heads: head_spec(kv_heads),
        page_size: 16,
        format: CacheFormat::F32,
    }
}

/// The inputs of an attention layer.
struct AttentionInputs {
    x: ValueId,
    index: ValueId,
    page_table: ValueId,
    k_cache: ValueId,
    v_cache: ValueId,
    rope_table: ValueId,
}

impl AttentionInputs {
    fn add(g: &mut Graph, kv_heads: u64) -> AttentionInputs {
        let cache = shape!["pages", 16u64, kv_heads, 32u64];
        AttentionInputs {
            x: g.input("x", DType::F32, shape!["tokens", 64u64]),
            index: g.input("index", DType::U32, shape!["tokens", 2u64]),
            page_table: g.input("page_table", DType::U32, shape!["batch", "max_pages"]),
            k_cache: g.buffer("k", DType::F32, cache.clone()),
            v_cache: g.buffer("v", DType::F32, cache),
            rope_table: g.weight("table", Encoding::F32, shape![128u64, 32u64]),
        }
    }

    /// Writes keys and values to the cache and adds the attention of `q` to it.
    fn attend(&self, g: &mut Graph, kv_heads: u32, [q, k, v]: [ValueId; 3]) -> ValueId {
        let (index, pages) = (self.index, self.page_table);
        let (k_cache, v_cache) = (self.k_cache, self.v_cache);
        let operands = [k, v, index, pages, k_cache, v_cache];
        g.add(kv_write(kv_heads), &operands).unwrap();
        let operands = [q, k_cache, v_cache, index, pages];
        g.add(attention(kv_heads), &operands).unwrap()
    }
}

/// A transformer block over `[tokens, 64]`, whose key projection has the encoding `k_encoding`.
fn block(k_encoding: Encoding) -> Graph {
    let mut g = Graph::new("block");
    let inputs = AttentionInputs::add(&mut g, 1);
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
    let x = g.add(Op::Norm(RMS), &[inputs.x, norm]).unwrap();
    let [q, k, v] = [wq, wk, wv].map(|weight| g.add(Linear, &[x, weight]).unwrap());
    let (index, table) = (inputs.index, inputs.rope_table);
    let q = g.add(rope(2), &[q, index, table]).unwrap();
    let k = g.add(rope(1), &[k, index, table]).unwrap();
    let a = inputs.attend(&mut g, 1, [q, k, v]);
    let o = g.add(Linear, &[a, wo]).unwrap();
    let sum = g.add(Binary::Add, &[x, o]).unwrap();
    let n = g.add(Op::Norm(RMS), &[sum, norm]).unwrap();
    let [gate, up] = [gate, up].map(|weight| g.add(Linear, &[n, weight]).unwrap());
    let gated = Gated {
        activation: Activation::Silu,
    };
    let product = g.add(gated, &[gate, up]).unwrap();
    g.output("product", product);
    g.output("sum", sum);
    g
}

/// The op of each call's kernel in a run in which every dimension is 1.
fn ops(program: &Program) -> Vec<&str> {
    ops_of(program, &vec![1; program.dims.len()])
}

/// The op of each call's kernel in a run of these sizes.
fn ops_of<'a>(program: &'a Program, dims: &[u64]) -> Vec<&'a str> {
    let made = |call: &&Call| call.is_made(dims).unwrap();
    let op = |call: &Call| wisp_shaders::kernel(&call.kernels[0].name).unwrap().op;
    program.calls.iter().filter(made).map(op).collect()
}

/// The ops of the calls that a run makes: one token of each sequence, which see up to `positions` positions.
fn decode_ops(program: &Program, positions: u64) -> Vec<&str> {
    let dims = program.sizes(|name| match name {
        "max_pages" => Some(positions / 16),
        "pages" => Some(1024),
        _ => Some(1),
    });
    ops_of(program, &dims.unwrap())
}

/// With the norm before it and without the product after it, which the graph lacks, a layer has as many.
#[test]
fn a_transformer_block_is_fused_into_seven_calls_on_gpus() {
    let program = compile(&block(Encoding::Q8_0), &Capabilities::BASELINE).unwrap();
    let attention = ["attention_split.f32", "attention_combine"];
    for (positions, attention) in [(128, &attention[..1]), (4096, &attention[..])] {
        let expected = [
            &["rms_norm", "matmul.q8_0", "rope_kv_write.f32"],
            attention,
            &["matmul.q8_0", "add_rms_norm", "matmul_gated.q8_0"],
        ];
        assert_eq!(decode_ops(&program, positions), expected.concat());
    }
    let stacked = &program.matrices[0];
    assert_eq!((stacked.row_ranges.len(), stacked.rows()), (3, 128));
}

#[test]
fn a_transformer_block_is_fused_into_eight_calls_on_software_adapters() {
    let software = Capabilities {
        software_kernels: true,
        ..Capabilities::BASELINE
    };
    let program = compile(&block(Encoding::Q8_0), &software).unwrap();
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
}

#[test]
fn head_norms_are_fused_with_rotary_embeddings_and_cache_writes() {
    let mut g = Graph::new("normed");
    let inputs = AttentionInputs::add(&mut g, 2);
    let [q, k] = ["q", "k"].map(|name| {
        let weight = g.weight(name, Encoding::Q8_0, shape![64u64, 64u64]);
        let norm = g.weight(&format!("{name}_norm"), Encoding::F32, shape![32u64]);
        let projected = g.add(Linear, &[inputs.x, weight]).unwrap();
        let normed = g.add(Op::Norm(RMS), &[projected, norm]).unwrap();
        let operands = [normed, inputs.index, inputs.rope_table];
        g.add(rope(2), &operands).unwrap()
    });
    let v = g.weight("v", Encoding::Q8_0, shape![64u64, 64u64]);
    let v = g.add(Linear, &[inputs.x, v]).unwrap();
    let a = inputs.attend(&mut g, 2, [q, k, v]);
    g.output("a", a);
    let program = compile(&g, &Capabilities::BASELINE).unwrap();
    assert_eq!(
        ops(&program),
        [
            "matmul.q8_0",
            "norm_rope_kv_write.f32",
            "attention_split.f32"
        ]
    );
    assert_eq!(
        program.vectors.last().unwrap().tensors,
        ["q_norm", "k_norm"]
    );
}

#[test]
fn a_projection_with_another_encoding_is_a_separate_call() {
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
    // 400 MiB are split into chunks of at most 128 MiB, which both ops share.
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
    // The host binds the whole weight at once.
    assert_eq!(compile(&g, &Capabilities::HOST).unwrap().matrices.len(), 1);
}

#[test]
fn linear_needs_the_columns_of_its_weight() {
    let mut g = Graph::new("misfit");
    let x = g.input("x", DType::F32, shape!["tokens", 64u64]);
    let w = g.weight("w", Encoding::F32, shape![8u64, 60u64]);
    let error = g.add(Linear, &[x, w]).unwrap_err().to_string();
    assert_eq!(
        error,
        "linear: x [tokens, 64] and the weight [8, 60] must have the same number of columns (x: f32[tokens, 64], w: f32[8, 60])"
    );
}

/// Rope works in place, so nothing else may read its operand.
#[test]
fn rope_of_a_graph_input_is_refused() {
    let mut g = Graph::new("in place");
    let x = g.input("x", DType::F32, shape!["tokens", 64u64]);
    let index = g.input("index", DType::U32, shape!["tokens", 2u64]);
    let table = g.weight("table", Encoding::F32, shape![128u64, 32u64]);
    let rotated = g
        .add(
            Op::Rope(RopeSpec {
                heads: head_spec(2),
                rotary_dim: 32,
                interleaved: true,
            }),
            &[x, index, table],
        )
        .unwrap();
    g.output("turned", rotated);
    let error = compile(&g, &Capabilities::BASELINE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rope overwrites x, which must be a result that nothing reads afterwards"
    );
}

/// Graphs that the methods of [`Graph`] cannot build are refused when they are compiled, as when they are
/// read from a file.
#[test]
fn forged_graphs_are_refused_by_the_compiler() {
    let mut g = Graph::new("forged");
    let x = g.input("x", DType::F32, shape!["tokens", 64u64]);
    let w = g.weight("w", Encoding::F32, shape![8u64, 64u64]);
    let y = g.add(Linear, &[x, w]).unwrap();
    let y = g.add(Softmax, &[y]).unwrap();
    g.output("y", y);
    let error = |change: fn(&mut Graph)| {
        let mut forged = g.clone();
        change(&mut forged);
        let error = compile(&forged, &Capabilities::BASELINE).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        error(|g| g.nodes_mut().swap(0, 1)),
        "softmax: linear.0 must be made before it is read"
    );
    assert_eq!(
        error(|g| g.values_mut()[1].kind = ValueKind::Input),
        "linear: w must be a weight with two or three fixed dimensions"
    );
    assert_eq!(
        error(|g| g.nodes_mut()[1].op = Custom::forged(5).into()),
        "custom: the op must be one of the graph's extensions"
    );
}
