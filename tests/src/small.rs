//! A small transformer built with the public graph interface, with inputs and weights.

use std::sync::OnceLock;

use wisp_engine::{
    device::{Device, DeviceSpec},
    graph::{
        Activation, AttentionSpec, Binary, CacheFormat, DType, Dim, Graph, HeadSpec, NormKind,
        NormSpec, Op, RopeSpec, Shape, ValueId, ValueKind,
        ops::{Argmax, Embed, Gated, KvWrite, Linear},
    },
    session::{InferenceSession, InitOptions, Tensor},
    shape,
    weights::{Encoding, MemoryWeights},
};

use crate::{
    kernels::noise,
    program::{TestDevice, adapter_under_test},
};

const WIDTH: u64 = 32;
const HEADS: HeadSpec = HeadSpec {
    heads: 4,
    head_dim: 8,
};
const PAGE: u32 = 4;

/// The maximum of each symbolic dimension of the small transformer, and of a dimension `n`.
pub const MOST: [(&str, u64); 4] = [("tokens", 8), ("batch", 1), ("max_pages", 4), ("n", 8)];

/// Options for these sizes.
pub fn options() -> InitOptions<'static> {
    InitOptions {
        max_dims: MOST.map(|(name, most)| (name.to_string(), most)).into(),
        ..Default::default()
    }
}

/// Inputs of the small transformer: `tokens` tokens from position `first` on.
pub fn tokens(first: u32, tokens: u32) -> [Tensor; 3] {
    let ids: Vec<u32> = (first..first + tokens).map(|at| at * 7 % 50).collect();
    let index: Vec<u32> = (first..first + tokens).flat_map(|at| [0, at]).collect();
    let count = u64::from(tokens);
    [
        Tensor::u32(&[count], &ids).unwrap(),
        Tensor::u32(&[count, 2], &index).unwrap(),
        Tensor::u32(&[1, 4], &[2, 0, 3, 1]).unwrap(),
    ]
}

/// A session of three devices. Devices 0 and 1 are two devices of one adapter, or of the host if there is no
/// adapter. Device 2 is the host.
pub fn three_devices() -> &'static InferenceSession {
    static SESSION: OnceLock<InferenceSession> = OnceLock::new();
    SESSION.get_or_init(|| {
        let name = match TestDevice::Vulkan.is_available() {
            true => adapter_under_test(),
            false => "host",
        };
        let spec: DeviceSpec = name.parse().unwrap();
        let builder = InferenceSession::builder().devices([spec, spec]);
        let builder = builder.device(Device::host(1).unwrap());
        builder.build_blocking().unwrap()
    })
}

fn linear(graph: &mut Graph, name: &str, x: ValueId, [rows, cols]: [u64; 2]) -> ValueId {
    let w = graph.weight(name, Encoding::F32, shape![rows, cols]);
    graph.add(Linear, &[x, w]).unwrap()
}

fn norm(graph: &mut Graph, name: &str, x: ValueId) -> ValueId {
    let spec = NormSpec {
        kind: NormKind::Rms,
        eps: 1e-5,
        weight_offset: 1.0,
    };
    let weight = graph.weight(name, Encoding::F32, shape![WIDTH]);
    graph.add(Op::Norm(spec), &[x, weight]).unwrap()
}

/// The attention of one block over its own paged cache, plus `x`.
fn attention(graph: &mut Graph, layer: u32, x: ValueId, [index, pages]: [ValueId; 2]) -> ValueId {
    let square = [WIDTH, WIDTH];
    let format = CacheFormat::F32;
    let words = format.head_words(HEADS.head_dim);
    let cache = shape!["max_pages", u64::from(PAGE), u64::from(HEADS.heads), words];
    let [k_cache, v_cache] =
        ["k", "v"].map(|name| graph.buffer(&format!("{name}{layer}"), DType::F32, cache.clone()));
    let table = graph.weight("rotations", Encoding::F32, shape![16u64, 8u64]);
    let [q, k, v] =
        ["q", "k", "v"].map(|name| linear(graph, &format!("w{name}{layer}"), x, square));
    let rope = Op::Rope(RopeSpec {
        heads: HEADS,
        rotary_dim: 8,
        interleaved: false,
    });
    let q = graph.add(rope, &[q, index, table]).unwrap();
    let k = graph.add(rope, &[k, index, table]).unwrap();
    let write = KvWrite {
        heads: HEADS,
        page_size: PAGE,
        format,
    };
    graph
        .add(write, &[k, v, index, pages, k_cache, v_cache])
        .unwrap();
    let attention = Op::Attention(AttentionSpec {
        heads: HEADS.heads,
        kv_heads: HEADS.heads,
        head_dim: HEADS.head_dim,
        value_dim: HEADS.head_dim,
        page_size: PAGE,
        format,
        window: 0,
        chunked: false,
        scale: 0.35,
        softcap: 0.0,
        causal: true,
    });
    let seen = graph
        .add(attention, &[q, k_cache, v_cache, index, pages])
        .unwrap();
    linear(graph, &format!("wo{layer}"), seen, square)
}

/// Two blocks over an embedding of 50 tokens. The outputs are the logits of every token and their argmax.
pub fn transformer() -> Graph {
    let mut graph = Graph::new("small");
    let tokens = graph.input("tokens", DType::U32, shape!["tokens"]);
    let index = graph.input("index", DType::U32, shape!["tokens", 2u64]);
    let pages = graph.input("page_table", DType::U32, shape!["batch", "max_pages"]);
    let table = graph.weight("embedding", Encoding::F32, shape![50u64, WIDTH]);
    let mut x = graph.add(Embed { scale: 1.0 }, &[tokens, table]).unwrap();
    for layer in 0..2 {
        let normed = norm(&mut graph, &format!("n{layer}"), x);
        let seen = attention(&mut graph, layer, normed, [index, pages]);
        x = graph.add(Binary::Add, &[x, seen]).unwrap();
        let normed = norm(&mut graph, &format!("m{layer}"), x);
        let gate = linear(&mut graph, &format!("gate{layer}"), normed, [48, WIDTH]);
        let up = linear(&mut graph, &format!("up{layer}"), normed, [48, WIDTH]);
        let activation = Activation::Silu;
        let gated = graph.add(Gated { activation }, &[gate, up]).unwrap();
        let down = linear(&mut graph, &format!("down{layer}"), gated, [WIDTH, 48]);
        x = graph.add(Binary::Add, &[x, down]).unwrap();
    }
    let x = norm(&mut graph, "norm", x);
    let logits = linear(&mut graph, "embedding", x, [50, WIDTH]);
    let argmax = graph.add(Argmax, &[logits]).unwrap();
    graph.output("logits", logits);
    graph.output("argmax", argmax);
    graph
}

/// Pseudo-random values for each weight of a graph.
pub fn weights_of(graph: &Graph, seed: u32) -> MemoryWeights {
    let mut weights = MemoryWeights::default();
    for (i, value) in (0..).zip(graph.values()) {
        let (ValueKind::Weight(_), Shape(dims)) = (&value.kind, &value.shape) else {
            continue;
        };
        let size = |dim: &Dim| dim.fixed().expect("weights have a known size");
        let dims: Vec<u64> = dims.iter().map(size).collect();
        let count = dims.iter().product::<u64>() as usize;
        let values: Vec<f32> = noise(seed + i, count).iter().map(|x| 0.3 * x).collect();
        weights.insert(&value.name, &dims, &values).unwrap();
    }
    weights
}
