//! The whole graph.

use std::collections::HashMap;

use wisp_graph::{Graph, ValueId, ops::Gather};
use wisp_types::{DType, shape};
use wisp_weights::{Views, WeightSource};

use super::{
    builder::{GraphBuilder, LoraInputs},
    error::DecoderError,
    inputs::{BlockInputs, EncoderInputs, Paging},
    layout::DecoderLayout,
};
use crate::{
    config::LayerEmbeddingsPlacement,
    limits::ReturnHiddenStates,
    spec::{DecoderSpec, NormPlacement, TensorNames},
};

/// Builds the graph of a decoder or encoder, and the views of the checkpoint's tensors that it needs.
///
/// A decoder has the inputs
/// - `tokens: u32 [tokens]`,
/// - `index: u32 [tokens, 2]`, the sequence and position of each token,
/// - `page_table: u32 [batch, max_pages]`,
/// - `spans: u32 [batch, 4]`, if layers have a recurrent state: the part of each sequence in the batch and
///   the rows of its state, as [`CausalConv`](wisp_graph::ops::CausalConv) takes them,
/// - `window_table: u32 [batch, max_window_pages]`, if layers have rings,
/// - `adapters: u32 [batch]`, if there are buffers for low-rank adapters: each sequence's adapter,
///   counted from 1, or 0 for none,
/// - `layer_embeddings: f32 [tokens, layers * width]`, the rows of the tokens in the table of embeddings by layer,
///   scaled, if the layout keeps that on the host,
/// - `logit_rows: u32 [logit_rows]`, the tokens whose logits are computed,
///
/// the buffers `k.N` and `v.N: [pages or window_pages, page_size, kv_heads, words of a head]` of layers
/// with attention, `state.NAME.N: [state_rows, ..]` of others, and those that
/// [`LoraGroup::buffers`](crate::spec::LoraGroup::buffers) names, and the outputs `logits: f32
/// [logit_rows, vocab]` and, if the layout asks for them, `hidden_states: f32 [logit_rows or tokens,
/// hidden]`.
///
/// An encoder has `lengths: u32 [batch]` (tokens of each text, unless it is causal) instead of `logit_rows`, and
/// `positions` and `token_types: u32 [tokens]` if it has embeddings for them. Its blocks share the
/// buffers `k` and `v`, and its output is `hidden: f32 [tokens, hidden]`. With a head that scores texts
/// it has the input `score_rows: u32 [batch]`, each text's first or last token, and the output `scores: f32
/// [batch, labels]`.
///
/// # Errors
///
/// If the spec is inconsistent, or a tensor is missing or has another shape than the spec implies.
pub(crate) fn build(
    spec: &DecoderSpec,
    names: &TensorNames,
    weights: &mut Views<'_>,
    layout: DecoderLayout,
) -> Result<Graph, DecoderError> {
    spec.check()?;
    let prefix = names.prefix(|name| weights.find(name).is_some());
    let mut b = GraphBuilder {
        graph: Graph::new(graph_name(spec, layout.layer_embeddings)),
        names,
        weights,
        spec,
        prefix,
        loras: None,
        ordered: Default::default(),
        caches: HashMap::new(),
    };
    let tokens = b.graph.input("tokens", DType::U32, shape!["tokens"]);
    let mut inputs = block_inputs(&mut b, layout);
    let lora = layout.lora.filter(|_| spec.encoder.is_none());
    b.loras = lora.map(|layout| LoraInputs {
        layout,
        index: inputs.index,
        adapters: b.graph.input("adapters", DType::U32, shape!["batch"]),
    });
    let embedding = format!("{}.weight", b.name(&names.embedding));
    let embedding = b.weight(embedding, &[spec.vocab_size, spec.hidden_size])?;
    b.require_order(embedding)?;
    let mut x = b.embed(tokens, embedding, inputs.index)?;
    if let Some(embeddings) = spec.layer_embeddings {
        inputs.layer_embeddings =
            Some(b.layer_embeddings(embeddings, layout.layer_embeddings, tokens, x)?);
    }
    if let Some(alt_up) = spec.alt_up {
        x = b.alt_up_versions(alt_up, x)?;
    }
    for layer in 0..spec.layers.len() {
        x = b.block(layer, x, &inputs)?;
    }
    if let Some(alt_up) = spec.alt_up {
        x = b.alt_up_mean(alt_up, x)?;
    }
    let before_norm = x;
    if spec.norm_placement != NormPlacement::PostResidual {
        let name = b.name(&names.final_norm);
        x = b.norm(spec.norm, x, name, spec.hidden_size)?;
    }
    match spec.encoder {
        Some(encoder) => {
            b.graph.output("hidden", x);
            if let Some(head) = encoder.score {
                let scores = b.scores(x, head)?;
                b.graph.output("scores", scores);
            }
        }
        None => decoder_outputs(&mut b, [before_norm, x], embedding, layout)?,
    }
    Ok(b.graph)
}

/// Returns the name of the graph, by which files of compiled models tell apart where embeddings by layer are.
fn graph_name(spec: &DecoderSpec, placement: LayerEmbeddingsPlacement) -> &'static str {
    match (spec.layer_embeddings, placement) {
        (Some(_), LayerEmbeddingsPlacement::Host) => "decoder with layer embeddings on the host",
        _ => "decoder",
    }
}

/// Adds the inputs that every block reads.
fn block_inputs(b: &mut GraphBuilder<'_, '_>, layout: DecoderLayout) -> BlockInputs {
    let spec = b.spec;
    let index = b.graph.input("index", DType::U32, shape!["tokens", 2u64]);
    let spans = spec.has_state().then(|| {
        let shape = shape!["batch", 4u64];
        b.graph.input("spans", DType::U32, shape)
    });
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
    let encoder = spec.encoder.map(|encoder| EncoderInputs {
        lengths: (!encoder.causal).then(|| b.graph.input("lengths", DType::U32, shape!["batch"])),
        caches: b.kv_caches(0, paging, format, ""),
    });
    let rope_tables = b.rope_tables(layout.max_length, None);
    let query_tables = match spec.query_scaling {
        Some(scaling) => b.rope_tables(layout.max_length, Some(scaling)),
        None => rope_tables.clone(),
    };
    BlockInputs {
        index,
        spans,
        paging,
        rings,
        encoder,
        rope_tables,
        query_tables,
        layer_embeddings: None,
        format,
        max_length: layout.max_length,
    }
}

/// Adds the logits of the rows that a batch asks for, and the hidden states that the layout asks for.
fn decoder_outputs(
    b: &mut GraphBuilder<'_, '_>,
    [before_norm, normed]: [ValueId; 2],
    embedding: ValueId,
    layout: DecoderLayout,
) -> Result<(), DecoderError> {
    let rows = b
        .graph
        .input("logit_rows", DType::U32, shape!["logit_rows"]);
    let wanted = b.graph.add(Gather { axis: 0 }, &[normed, rows])?;
    let logits = b.logits(wanted, embedding)?;
    b.graph.output("logits", logits);
    let hidden = match layout.hidden_states {
        ReturnHiddenStates::None => return Ok(()),
        ReturnHiddenStates::Last => b.graph.add(Gather { axis: 0 }, &[before_norm, rows])?,
        ReturnHiddenStates::All => before_norm,
        ReturnHiddenStates::AllNormalized => normed,
    };
    b.graph.output("hidden_states", hidden);
    Ok(())
}
