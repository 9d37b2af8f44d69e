//! The one decoder: a [`DecoderSpec`] says how an architecture differs, and from it and a
//! checkpoint's tensors comes the graph.

use crate::{
    graph::{
        Activation, AttentionSpec, DType, Graph, GraphError, HeadSpec, Op, RopeSpec, ValueId,
        padded_head_dim,
    },
    shape,
    weights::{WeightError, WeightSource},
};

use super::rope::RopeScaling;

/// How a decoder-only transformer differs from the common one.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderSpec {
    /// Words of the vocabulary.
    pub vocab_size: u64,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Width of the gated feed-forward.
    pub intermediate_size: u64,
    /// Blocks.
    pub layers: u32,
    /// Query heads.
    pub heads: u32,
    /// KV heads, of which each serves `heads / kv_heads` query heads.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Added under the root of every norm.
    pub norm_eps: f32,
    /// The feed-forward's activation.
    pub activation: Activation,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// How many elements of a head rotate.
    pub rotary_dim: u32,
    /// How positions beyond the trained ones are reached.
    pub rope_scaling: RopeScaling,
    /// Pairs `(2i, 2i + 1)` rotate rather than halves.
    pub rope_interleaved: bool,
    /// Positions that the model was made for.
    pub max_positions: u64,
    /// Positions that each layer's attention sees; `None` is all.
    pub windows: Vec<Option<u32>>,
    /// The output layer is the embedding.
    pub tied: bool,
}

impl DecoderSpec {
    /// The sizes that must be consistent for a graph to exist.
    ///
    /// # Errors
    ///
    /// What is not, in words.
    pub fn check(&self) -> Result<(), String> {
        let positive = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("the number of layers", self.layers.into()),
            ("the number of heads", self.heads.into()),
            ("the number of KV heads", self.kv_heads.into()),
            ("head_dim", self.head_dim.into()),
            ("the context length", self.max_positions),
        ];
        for (what, size) in positive {
            if size == 0 || size > 1 << 28 {
                return Err(format!("{what} is {size}"));
            }
        }
        if self.layers > 4096 || self.head_dim > 256 || !self.head_dim.is_multiple_of(2) {
            return Err(format!(
                "{} layers with heads {} wide: up to 4096 layers and even widths up to 256 are supported",
                self.layers, self.head_dim
            ));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(format!(
                "{} heads cannot share {} KV heads",
                self.heads, self.kv_heads
            ));
        }
        if self.rotary_dim == 0
            || !self.rotary_dim.is_multiple_of(2)
            || self.rotary_dim > self.head_dim
        {
            return Err(format!(
                "{} of {} elements of a head cannot rotate",
                self.rotary_dim, self.head_dim
            ));
        }
        if self.windows.len() != self.layers as usize {
            return Err(format!(
                "{} layers, but {} attention windows",
                self.layers,
                self.windows.len()
            ));
        }
        Ok(())
    }

    /// Bytes of KV cache that one position takes over all layers.
    pub fn kv_bytes_per_position(&self) -> u64 {
        u64::from(self.layers) * 2 * self.kv_row_bytes()
    }

    /// Bytes of one layer's keys (or values) for one position.
    pub fn kv_row_bytes(&self) -> u64 {
        u64::from(self.kv_heads) * padded_head_dim(self.head_dim) * 4
    }
}

/// What a checkpoint calls the decoder's tensors; `{}` stands for the layer.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TensorNames {
    pub embedding: &'static str,
    pub attention_norm: &'static str,
    pub q: &'static str,
    pub k: &'static str,
    pub v: &'static str,
    pub o: &'static str,
    pub mlp_norm: &'static str,
    pub gate: &'static str,
    pub up: &'static str,
    pub down: &'static str,
    pub final_norm: &'static str,
    /// Absent when the output layer is the embedding.
    pub output: &'static str,
}

/// Hugging Face's names.
pub const HUGGING_FACE: TensorNames = TensorNames {
    embedding: "model.embed_tokens",
    attention_norm: "model.layers.{}.input_layernorm",
    q: "model.layers.{}.self_attn.q_proj",
    k: "model.layers.{}.self_attn.k_proj",
    v: "model.layers.{}.self_attn.v_proj",
    o: "model.layers.{}.self_attn.o_proj",
    mlp_norm: "model.layers.{}.post_attention_layernorm",
    gate: "model.layers.{}.mlp.gate_proj",
    up: "model.layers.{}.mlp.up_proj",
    down: "model.layers.{}.mlp.down_proj",
    final_norm: "model.norm",
    output: "lm_head",
};

/// GGUF's names.
pub const GGUF: TensorNames = TensorNames {
    embedding: "token_embd",
    attention_norm: "blk.{}.attn_norm",
    q: "blk.{}.attn_q",
    k: "blk.{}.attn_k",
    v: "blk.{}.attn_v",
    o: "blk.{}.attn_output",
    mlp_norm: "blk.{}.ffn_norm",
    gate: "blk.{}.ffn_gate",
    up: "blk.{}.ffn_up",
    down: "blk.{}.ffn_down",
    final_norm: "output_norm",
    output: "output",
};

/// The name under which the decoder's graph finds the table of rotations.
pub const ROPE_TABLE: &str = "rope.table";

/// How a decoder's graph is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderLayout {
    /// Positions in a page of the KV cache.
    pub page_size: u32,
    /// Positions that the table of rotations covers.
    pub max_length: u64,
}

/// What can go wrong when a decoder's graph is built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecoderError {
    /// Occurs when sizes in the configuration contradict each other.
    #[error("the model's configuration is unusable: {0}")]
    Spec(String),
    /// Occurs when a tensor is not in the checkpoint.
    #[error("the checkpoint has no tensor {0}")]
    MissingTensor(String),
    /// Occurs when a tensor cannot be used.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// Occurs when a tensor's shape does not fit.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

struct Builder<'a> {
    graph: Graph,
    names: &'a TensorNames,
    weights: &'a dyn WeightSource,
    spec: &'a DecoderSpec,
}

impl Builder<'_> {
    /// A tensor that must have this shape.
    fn weight(&mut self, name: String, shape: &[u64]) -> Result<ValueId, DecoderError> {
        let info = self
            .weights
            .find(&name)
            .ok_or_else(|| DecoderError::MissingTensor(name.clone()))?;
        let fits = info
            .shape
            .iter()
            .filter(|dim| **dim != 1)
            .eq(shape.iter().filter(|dim| **dim != 1));
        if !fits {
            return Err(DecoderError::Spec(format!(
                "{name} has shape {:?}, the configuration says {shape:?}",
                info.shape
            )));
        }
        let encoding = info.encoding()?;
        Ok(self.graph.weight(
            &name,
            encoding,
            crate::graph::Shape(shape.iter().map(|dim| (*dim).into()).collect()),
        ))
    }

    fn norm(&mut self, x: ValueId, name: &str) -> Result<ValueId, DecoderError> {
        let weight = self.weight(format!("{name}.weight"), &[self.spec.hidden_size])?;
        Ok(self.graph.add(
            Op::RmsNorm {
                eps: self.spec.norm_eps,
                weight_offset: 0.0,
            },
            &[x, weight],
        )?)
    }

    /// `[tokens, cols] -> [tokens, rows]`, with a bias if the checkpoint has one.
    fn linear(
        &mut self,
        x: ValueId,
        name: &str,
        rows: u64,
        cols: u64,
    ) -> Result<ValueId, DecoderError> {
        let mut operands = vec![x, self.weight(format!("{name}.weight"), &[rows, cols])?];
        let bias = format!("{name}.bias");
        if self.weights.find(&bias).is_some() {
            operands.push(self.weight(bias, &[rows])?);
        }
        Ok(self.graph.add(Op::Linear, &operands)?)
    }
}

/// Builds the graph of a decoder.
///
/// Inputs: `tokens: u32 [tokens]`, `index: u32 [tokens, 2]` (sequence, position), `page_table:
/// u32 [batch, max_pages]`, `logit_rows: u32 [logit_rows]` (which tokens' logits are wanted).
/// Buffers: `k.N`, `v.N: f32 [pages, page_size, kv_heads, padded head_dim]`. Output: `logits: f32
/// [logit_rows, vocab]`.
///
/// # Errors
///
/// If a tensor is missing or does not fit the spec.
pub fn build(
    spec: &DecoderSpec,
    names: &TensorNames,
    weights: &dyn WeightSource,
    layout: DecoderLayout,
) -> Result<Graph, DecoderError> {
    spec.check().map_err(DecoderError::Spec)?;
    let mut b = Builder {
        graph: Graph::new("decoder"),
        names,
        weights,
        spec,
    };
    let tokens = b.graph.input("tokens", DType::U32, shape!["tokens"]);
    let index = b.graph.input("index", DType::U32, shape!["tokens", 2u64]);
    let page_table = b
        .graph
        .input("page_table", DType::U32, shape!["batch", "max_pages"]);
    let logit_rows = b
        .graph
        .input("logit_rows", DType::U32, shape!["logit_rows"]);
    let table = b.graph.weight(
        ROPE_TABLE,
        crate::weights::Encoding::F32,
        shape![layout.max_length, u64::from(spec.rotary_dim)],
    );

    let embedding = b.weight(
        format!("{}.weight", names.embedding),
        &[spec.vocab_size, spec.hidden_size],
    )?;
    let mut x = b
        .graph
        .add(Op::Embed { scale: 1.0 }, &[tokens, embedding])?;
    for layer in 0..spec.layers {
        x = block(&mut b, layer, x, [index, page_table, table], layout)?;
    }
    let x = b.norm(x, names.final_norm)?;
    let last = b.graph.add(Op::GatherRows, &[x, logit_rows])?;
    let logits = if spec.tied {
        b.graph.add(Op::Linear, &[last, embedding])?
    } else {
        b.linear(last, names.output, spec.vocab_size, spec.hidden_size)?
    };
    b.graph.output("logits", logits);
    Ok(b.graph)
}

/// One transformer block: attention and feed-forward, each behind a norm and added to the stream.
fn block(
    b: &mut Builder<'_>,
    layer: u32,
    x: ValueId,
    [index, page_table, table]: [ValueId; 3],
    layout: DecoderLayout,
) -> Result<ValueId, DecoderError> {
    let (spec, names) = (b.spec, b.names);
    let name = |template: &str| template.replace("{}", &layer.to_string());
    let (hidden, ffn) = (spec.hidden_size, spec.intermediate_size);
    let heads = HeadSpec {
        heads: spec.heads,
        head_dim: spec.head_dim,
    };
    let kv = HeadSpec {
        heads: spec.kv_heads,
        head_dim: spec.head_dim,
    };
    let cache_shape = shape![
        "pages",
        u64::from(layout.page_size),
        u64::from(spec.kv_heads),
        padded_head_dim(spec.head_dim)
    ];
    let k_cache = b
        .graph
        .buffer(&format!("k.{layer}"), DType::F32, cache_shape.clone());
    let v_cache = b
        .graph
        .buffer(&format!("v.{layer}"), DType::F32, cache_shape);

    let normed = b.norm(x, &name(names.attention_norm))?;
    let q = b.linear(normed, &name(names.q), heads.width(), hidden)?;
    let k = b.linear(normed, &name(names.k), kv.width(), hidden)?;
    let v = b.linear(normed, &name(names.v), kv.width(), hidden)?;
    let rope = |heads| {
        Op::Rope(RopeSpec {
            heads,
            rotary_dim: spec.rotary_dim,
            interleaved: spec.rope_interleaved,
        })
    };
    let q = b.graph.add(rope(heads), &[q, index, table])?;
    let k = b.graph.add(rope(kv), &[k, index, table])?;
    b.graph.add(
        Op::KvWrite {
            heads: kv,
            page_size: layout.page_size,
        },
        &[k, v, index, page_table, k_cache, v_cache],
    )?;
    let attention = Op::Attention(AttentionSpec {
        heads: spec.heads,
        kv_heads: spec.kv_heads,
        head_dim: spec.head_dim,
        page_size: layout.page_size,
        window: spec.windows[layer as usize].unwrap_or(0),
        scale: 1.0 / (spec.head_dim as f32).sqrt(),
        softcap: 0.0,
    });
    let attended = b
        .graph
        .add(attention, &[q, k_cache, v_cache, index, page_table])?;
    let projected = b.linear(attended, &name(names.o), hidden, heads.width())?;
    let x = b.graph.add(Op::Add, &[x, projected])?;

    let normed = b.norm(x, &name(names.mlp_norm))?;
    let gate = b.linear(normed, &name(names.gate), ffn, hidden)?;
    let up = b.linear(normed, &name(names.up), ffn, hidden)?;
    let product = b.graph.add(
        Op::Gated {
            activation: spec.activation,
        },
        &[gate, up],
    )?;
    let down = b.linear(product, &name(names.down), hidden, ffn)?;
    Ok(b.graph.add(Op::Add, &[x, down])?)
}
