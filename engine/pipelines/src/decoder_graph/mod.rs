//! The one decoder: a [`DecoderSpec`] says how an architecture differs, and from it and a
//! checkpoint's tensors comes the graph. An encoder is made of the same parts.

mod error;
mod lora;
mod weights;

use std::ops::Range;

use wisp_graph::{
    AttentionSpec, Binary, CacheFormat, Graph, HeadSpec, Map, Op, RopeSpec, ValueId,
    ops::{CombineExperts, Embed, Gated, Gather, KvWrite, Linear, LinearExperts, Route},
};
use wisp_types::{DType, Encoding, shape};
use wisp_weights::{Views, WeightSource};

use crate::{
    limits::ReturnHiddenStates,
    rope::Rotations,
    spec::{DecoderSpec, LoraGroup, LoraLayout, NormPlacement, QkNorm, TensorNames},
    window_rings::WindowRings,
};
pub use error::DecoderError;
use lora::Loras;
pub use lora::check_lora_buffers;
use weights::Builder;

/// How a decoder's graph is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderLayout {
    /// Positions in a page of the KV cache.
    pub page_size: u32,
    /// Positions that the tables of rotations cover.
    pub max_length: u64,
    /// Room for adapters; an encoder has none.
    pub lora: Option<LoraLayout>,
    /// How the KV cache stores its elements; an encoder's stores them as they are.
    pub cache_format: CacheFormat,
    /// The rings of the layers with a window; `None`: they keep whole texts, as the others.
    pub rings: Option<WindowRings>,
    /// Hidden states that a decoder returns beside its logits.
    pub hidden_states: ReturnHiddenStates,
}

/// Where the pages of a layer's cache are found.
#[derive(Clone, Copy)]
struct Paging {
    table: ValueId,
    page_size: u32,
    /// The dimension that counts the pages of a cache.
    pages: &'static str,
}

/// What every block reads besides the stream.
struct Inputs {
    index: ValueId,
    paging: Paging,
    /// Of the layers with a window, where these have rings.
    rings: Option<Paging>,
    /// Of an encoder: the texts' lengths, and the cache of keys and values that its blocks share.
    encoder: Option<(ValueId, [ValueId; 2])>,
    /// The tables of rotations, as [`DecoderSpec::ropes`] counts them, and one that is not read.
    tables: Vec<ValueId>,
    format: CacheFormat,
}

/// Builds the graph of a decoder or encoder, and the views of the checkpoint's tensors that it needs.
///
/// Inputs: `tokens: u32 [tokens]`, `index: u32 [tokens, 2]` (sequence, position), `page_table:
/// u32 [batch, max_pages]`, `logit_rows: u32 [logit_rows]` (which tokens' logits are wanted), and
/// `window_table: u32 [batch, max_window_pages]` where layers have rings. Buffers: `k.N`, `v.N:
/// [pages or window_pages, page_size, kv_heads, the format's words of a head]`. Output: `logits: f32
/// [logit_rows, vocab]`, and `hidden_states: f32 [logit_rows or tokens, hidden]` where the layout
/// asks for them.
///
/// With room for adapters there are the input `adapters: u32 [batch]`, which adapter each sequence has,
/// counted from 1, or 0, and the buffers that [`LoraGroup::buffers`] names.
///
/// An encoder takes `lengths: u32 [batch]` (tokens of each text) in place of `logit_rows`, and
/// `positions: u32 [tokens]` and `token_types: u32 [tokens]` where it has embeddings for them. Its
/// buffers are `k` and `v`, its output is `hidden: f32 [tokens, hidden]`.
///
/// # Errors
///
/// If a tensor is missing or does not fit the spec.
pub fn build(
    spec: &DecoderSpec,
    names: &TensorNames,
    weights: &mut Views<'_>,
    layout: DecoderLayout,
) -> Result<Graph, DecoderError> {
    spec.check().map_err(DecoderError::Spec)?;
    let embedding = |root: &&&str| {
        let name = format!("{root}{}.weight", names.embedding);
        weights.find(&name).is_some()
    };
    let roots = names.roots;
    let root = roots.iter().find(embedding).or(roots.first());
    let mut b = Builder {
        graph: Graph::new("decoder"),
        names,
        weights,
        spec,
        root: root.copied().unwrap_or(""),
        loras: None,
    };
    let tokens = b.graph.input("tokens", DType::U32, shape!["tokens"]);
    let index = b.graph.input("index", DType::U32, shape!["tokens", 2u64]);
    let mut table = |name, entries| b.graph.input(name, DType::U32, shape!["batch", entries]);
    let paging = Paging {
        table: table("page_table", "max_pages"),
        page_size: layout.page_size,
        pages: "pages",
    };
    let rings = layout.rings.map(|rings| Paging {
        table: table("window_table", "max_window_pages"),
        page_size: rings.page_size,
        pages: "window_pages",
    });
    let format = spec.cache_format(layout.cache_format);
    let encoder = spec.encoder.map(|_| {
        let lengths = b.graph.input("lengths", DType::U32, shape!["batch"]);
        (lengths, caches(&mut b, paging, format, ""))
    });
    let inputs = Inputs {
        index,
        paging,
        rings,
        encoder,
        tables: tables(&mut b, layout.max_length),
        format,
    };
    let lora = layout.lora.filter(|_| spec.encoder.is_none());
    b.loras = lora.map(|layout| Loras {
        layout,
        index,
        adapters: b.graph.input("adapters", DType::U32, shape!["batch"]),
    });
    let embedding = b.weight(
        format!("{}{}.weight", b.root, names.embedding),
        &[spec.vocab_size, spec.hidden_size],
    )?;
    let mut x = embed(&mut b, tokens, embedding, index)?;
    for layer in 0..spec.layers.len() {
        x = block(&mut b, layer, x, &inputs)?;
    }
    let before_norm = x;
    if spec.norm_placement != NormPlacement::AfterSum {
        let name = format!("{}{}", b.root, names.final_norm);
        x = b.norm(spec.norm, x, name, spec.hidden_size)?;
    }
    match spec.encoder {
        Some(_) => b.graph.output("hidden", x),
        None => {
            let wanted = b
                .graph
                .input("logit_rows", DType::U32, shape!["logit_rows"]);
            let last = b.graph.add(Gather { axis: 0 }, &[x, wanted])?;
            let logits = logits(&mut b, last, embedding)?;
            b.graph.output("logits", logits);
            let hidden = match layout.hidden_states {
                ReturnHiddenStates::None => None,
                ReturnHiddenStates::Last => {
                    Some(b.graph.add(Gather { axis: 0 }, &[before_norm, wanted])?)
                }
                ReturnHiddenStates::All => Some(before_norm),
                ReturnHiddenStates::AllNormalized => Some(x),
            };
            if let Some(hidden) = hidden {
                b.graph.output("hidden_states", hidden);
            }
        }
    }
    Ok(b.graph)
}

/// What goes into the first block.
fn embed(
    b: &mut Builder<'_, '_>,
    tokens: ValueId,
    table: ValueId,
    index: ValueId,
) -> Result<ValueId, DecoderError> {
    let (spec, names) = (b.spec, b.names);
    let scale = spec.embedding_multiplier;
    let mut x = b.graph.add(Embed { scale }, &[tokens, table])?;
    let mut add = |b: &mut Builder<'_, '_>, ids, name: &str, rows| {
        let table = b.weight(
            format!("{}{name}.weight", b.root),
            &[rows, spec.hidden_size],
        )?;
        let embedded = b.graph.add(Embed { scale: 1.0 }, &[ids, table])?;
        x = b.graph.add(Binary::Add, &[x, embedded])?;
        Ok::<(), DecoderError>(())
    };
    if spec.learned_positions {
        let positions = match spec.encoder {
            Some(_) => b.graph.input("positions", DType::U32, shape!["tokens"]),
            None => index,
        };
        add(b, positions, names.positions, spec.position_rows())?;
    }
    let Some(encoder) = spec.encoder else {
        return Ok(x);
    };
    if encoder.token_types > 0 {
        let types = b.graph.input("token_types", DType::U32, shape!["tokens"]);
        add(b, types, names.token_types, encoder.token_types)?;
    }
    let name = format!("{}{}", b.root, names.embedding_norm);
    b.norm(spec.norm, x, name, spec.hidden_size)
}

/// The logits of the wanted tokens' hidden states.
fn logits(
    b: &mut Builder<'_, '_>,
    last: ValueId,
    embedding: ValueId,
) -> Result<ValueId, DecoderError> {
    let (spec, names) = (b.spec, b.names);
    let mut logits = if spec.tied {
        b.graph.add(Linear, &[last, embedding])?
    } else {
        // The output layer is a plain one, even where the blocks' are transposed.
        let weight = format!("{}.weight", names.output);
        let weight = b.weight(weight, &[spec.vocab_size, spec.hidden_size])?;
        let mut operands = vec![last, weight];
        let bias = format!("{}.bias", names.output);
        if b.weights.find(&bias).is_some() {
            operands.push(b.weight(bias, &[spec.vocab_size])?);
        }
        b.graph.add(Linear, &operands)?
    };
    if spec.logit_multiplier != 1.0 {
        logits = b.map(logits, Map::Scale(spec.logit_multiplier))?;
    }
    if spec.logit_softcap != 0.0 {
        logits = b.map(logits, Map::Softcap(spec.logit_softcap))?;
    }
    Ok(logits)
}

/// Caches of keys and values.
fn caches(
    b: &mut Builder<'_, '_>,
    paging: Paging,
    format: CacheFormat,
    suffix: &str,
) -> [ValueId; 2] {
    let shape = shape![
        paging.pages,
        u64::from(paging.page_size),
        u64::from(b.spec.kv_heads),
        format.head_words(b.spec.head_dim)
    ];
    let dtype = match format {
        CacheFormat::F32 => DType::F32,
        _ => DType::U32,
    };
    ["k", "v"].map(|name| {
        let name = format!("{name}{suffix}");
        b.graph.buffer(&name, dtype, shape.clone())
    })
}

/// The tables of rotations that layers use, and a small one for those that do not rotate.
fn tables(b: &mut Builder<'_, '_>, length: u64) -> Vec<ValueId> {
    let mut tables = Vec::new();
    for (i, settings) in b.spec.ropes.iter().enumerate() {
        let used = b.spec.layers.iter().any(|layer| layer.rope == Some(i));
        let length = if used { length } else { 1 };
        let rotations =
            Rotations::new(settings.theta, b.spec.rotary_dim, &settings.scaling, length);
        let shape = [table_rows(length), b.spec.rotated().into()];
        let compute = move |range| rotations.elements(range);
        tables.push(table(b, &format!("rope.table.{i}"), shape, compute));
    }
    tables.push(table(b, "rope.none", [1, 2], |range| {
        range.map(|i| (1 - i % 2) as f32).collect()
    }));
    tables
}

/// Rows of a table for sequences of a length: few sizes, so that few programs differ only in that.
pub(super) fn table_rows(length: u64) -> u64 {
    match length {
        0..=1 => 1,
        _ => length
            .checked_next_power_of_two()
            .unwrap_or(length)
            .max(256),
    }
}

fn table(
    b: &mut Builder<'_, '_>,
    name: &str,
    shape: [u64; 2],
    compute: impl Fn(Range<u64>) -> Vec<f32> + Send + Sync + 'static,
) -> ValueId {
    b.weights.add_computed(name, &shape, compute);
    b.graph
        .weight(name, Encoding::F32, shape![shape[0], shape[1]])
}

/// One transformer block: attention and feed-forward, each between its norms and added to the stream.
fn block(
    b: &mut Builder<'_, '_>,
    layer: usize,
    x: ValueId,
    inputs: &Inputs,
) -> Result<ValueId, DecoderError> {
    let (spec, names) = (b.spec, b.names);
    let (pre, post, after_sum) = match spec.norm_placement {
        NormPlacement::Pre => (true, false, false),
        NormPlacement::Post => (false, true, false),
        NormPlacement::Both => (true, true, false),
        NormPlacement::AfterSum => (false, false, true),
    };
    let norm = |b: &mut Builder<'_, '_>, there: bool, x, template| match there {
        true => b.norm(spec.norm, x, b.name(template, layer), spec.hidden_size),
        false => Ok(x),
    };
    let before = pre && spec.layers[layer].attention_norm;
    let normed = norm(b, before, x, names.attention_norm)?;
    let attended = attention(b, layer, normed, inputs)?;
    let attended = norm(b, post, attended, names.attention_post_norm)?;
    let between = match spec.parallel_residual {
        true => x,
        false => residual(b, x, attended)?,
    };
    let between = norm(b, after_sum, between, names.attention_sum_norm)?;
    let normed = norm(b, pre, between, names.mlp_norm)?;
    let mut out = if spec.layers[layer].moe {
        mixture(b, layer, normed)?
    } else {
        feed_forward(b, layer, normed)?
    };
    out = norm(b, post, out, names.mlp_post_norm)?;
    if spec.parallel_residual {
        out = b.graph.add(Binary::Add, &[attended, out])?;
    }
    let sum = residual(b, between, out)?;
    norm(b, after_sum, sum, names.mlp_sum_norm)
}

/// Adds a block's contribution to the stream, times the model's factor.
fn residual(b: &mut Builder<'_, '_>, x: ValueId, y: ValueId) -> Result<ValueId, DecoderError> {
    Ok(match b.spec.residual_multiplier {
        1.0 => b.graph.binary(Binary::Add, x, y)?,
        scale => b.graph.scaled_add(x, y, scale)?,
    })
}

/// Attention with its projections, without its norms.
fn attention(
    b: &mut Builder<'_, '_>,
    layer: usize,
    x: ValueId,
    inputs: &Inputs,
) -> Result<ValueId, DecoderError> {
    let (spec, names) = (b.spec, b.names);
    let settings = spec.layers[layer];
    let [heads, kv] = [spec.heads, spec.kv_heads].map(|heads| HeadSpec {
        heads,
        head_dim: spec.head_dim,
    });
    let rings = inputs.rings.filter(|_| settings.window.is_some());
    let paging = rings.unwrap_or(inputs.paging);
    let [k_cache, v_cache] = match inputs.encoder {
        Some((_, shared)) => shared,
        None => caches(b, paging, inputs.format, &format!(".{layer}")),
    };
    let [q, k, v] = b.qkv(layer);
    let q = b.linear(x, &q, spec.hidden_size)?;
    let k = b.linear(x, &k, spec.hidden_size)?;
    let v = b.linear(x, &v, spec.hidden_size)?;
    let [mut q, mut k, v] = b.adapted(LoraGroup::Qkv, layer, x, [q, k, v])?;
    if spec.qk_norm != QkNorm::None {
        let cols = |heads: HeadSpec| match spec.qk_norm {
            QkNorm::Whole => heads.width(),
            _ => heads.head_dim.into(),
        };
        q = b.norm(spec.norm, q, b.name(names.q_norm, layer), cols(heads))?;
        k = b.norm(spec.norm, k, b.name(names.k_norm, layer), cols(kv))?;
    }
    let rotary_dim = settings.rope.map_or(0, |_| spec.rotated());
    let rope = |heads| {
        Op::Rope(RopeSpec {
            heads,
            rotary_dim,
            interleaved: spec.rope_interleaved,
        })
    };
    let table = inputs.tables[settings.rope.unwrap_or(spec.ropes.len())];
    let q = b.graph.add(rope(heads), &[q, inputs.index, table])?;
    let k = b.graph.add(rope(kv), &[k, inputs.index, table])?;
    b.graph.add(
        KvWrite {
            heads: kv,
            page_size: paging.page_size,
            format: inputs.format,
        },
        &[k, v, inputs.index, paging.table, k_cache, v_cache],
    )?;
    let attention = Op::Attention(AttentionSpec {
        heads: spec.heads,
        kv_heads: spec.kv_heads,
        head_dim: spec.head_dim,
        page_size: paging.page_size,
        format: inputs.format,
        window: settings.window.unwrap_or(0),
        scale: settings.attention_scale,
        softcap: spec.attention_softcap,
        causal: inputs.encoder.is_none(),
    });
    let mut operands = vec![q, k_cache, v_cache, inputs.index, paging.table];
    operands.extend(inputs.encoder.map(|(lengths, _)| lengths));
    let attended = b.graph.add(attention, &operands)?;
    let name = b.name(names.o, layer);
    let out = b.whole_linear(attended, name, [spec.hidden_size, heads.width()])?;
    let [out] = b.adapted(LoraGroup::O, layer, attended, [out])?;
    Ok(out)
}

/// The feed-forward without its norms.
fn feed_forward(
    b: &mut Builder<'_, '_>,
    layer: usize,
    x: ValueId,
) -> Result<ValueId, DecoderError> {
    let (spec, names) = (b.spec, b.names);
    let (hidden, ffn) = (spec.hidden_size, spec.intermediate_size);
    let activation = spec.activation;
    let inner = if spec.gated {
        let [gate, up] = b.gate_up(layer);
        let gate = b.linear(x, &gate, hidden)?;
        let up = b.linear(x, &up, hidden)?;
        let gate_up = b.adapted(LoraGroup::GateUp, layer, x, [gate, up])?;
        b.graph.add(Gated { activation }, &gate_up)?
    } else {
        let name = b.name(names.up, layer);
        let up = b.whole_linear(x, name, [ffn, hidden])?;
        let [up] = b.adapted(LoraGroup::GateUp, layer, x, [up])?;
        b.map(up, Map::Activation(activation))?
    };
    let name = b.name(names.down, layer);
    let out = b.whole_linear(inner, name, [hidden, ffn])?;
    let [out] = b.adapted(LoraGroup::Down, layer, inner, [out])?;
    Ok(out)
}

/// The mixture of experts in place of the feed-forward.
fn mixture(b: &mut Builder<'_, '_>, layer: usize, x: ValueId) -> Result<ValueId, DecoderError> {
    let (spec, names) = (b.spec, b.names);
    let Some(moe) = spec.moe else {
        return Err(DecoderError::Spec("there are no experts".into()));
    };
    let (experts, hidden, ffn) = (
        u64::from(moe.experts),
        spec.hidden_size,
        moe.intermediate_size,
    );
    let name = b.name(names.router, layer);
    let logits = b.whole_linear(x, name, [experts, hidden])?;
    let route = Route {
        experts_per_token: moe.experts_per_token,
        normalise: moe.normalise,
    };
    let routed = b.graph.add_all(route, &[logits])?;
    let [ids, weights] = routed[..] else {
        return Err(DecoderError::Spec("a router has two results".into()));
    };
    let up_shape = [experts, ffn, hidden];
    let gate = b.experts(names.expert_gate, layer, up_shape)?;
    let gate = b.graph.add(LinearExperts, &[x, gate, ids])?;
    let up = b.experts(names.expert_up, layer, up_shape)?;
    let up = b.graph.add(LinearExperts, &[x, up, ids])?;
    let activation = spec.activation;
    let inner = b.graph.add(Gated { activation }, &[gate, up])?;
    let down = b.experts(names.expert_down, layer, [experts, hidden, ffn])?;
    let down = b.graph.add(LinearExperts, &[inner, down, ids])?;
    Ok(b.graph.add(CombineExperts, &[down, weights])?)
}
