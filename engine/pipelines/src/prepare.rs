//! Compiles a model ahead of time: for this device, for other targets, to a file.

use std::collections::BTreeMap;

use super::{
    KvCacheFormat, ModelLimits, PipelineError, decoder_graph::table_rows, decoder_model,
    model_files::ModelFiles, text_encoder, window_rings::WindowRings,
};
use wisp_graph::Graph;
use wisp_session::Precision;
use wisp_types::Capabilities;

/// Returns the graphs of a model as they are compiled for a target: a decoder and its sampler, or an
/// encoder. If its embeddings by layer may be on the device or on the host, as memory permits, there is a graph for
/// each. The weights are not read.
///
/// # Errors
///
/// If the checkpoint does not match its configuration, or the limits do not suit the target.
pub fn graphs(
    files: &ModelFiles,
    target: &Capabilities,
    limits: ModelLimits,
) -> Result<Vec<Graph>, PipelineError> {
    match files.model_spec.spec.encoder {
        Some(_) => text_encoder::graphs(target, files, limits),
        None => decoder_model::graphs(target, files, limits),
    }
}

/// Returns the facts about a model, its limits and its precision that a compiled model records.
pub fn facts(
    files: &ModelFiles,
    limits: &ModelLimits,
    precision: Precision,
) -> BTreeMap<String, String> {
    let spec = &files.model_spec.spec;
    let limits = &limits.with_length(spec.max_positions);
    let positions = table_rows(limits.max_length.min(spec.longest_context()));
    // 0 means that there are no rings. Their length is known only when the model runs.
    let ring = WindowRings::of(spec, limits).map_or(0, |rings| rings.page_size);
    let ring = ring.to_string();
    let cache_format = KvCacheFormat::from(limits.cache_format);
    let rank = limits.lora().map_or(0, |_| limits.max_lora_rank);
    let facts: [(&str, String); 13] = [
        ("architecture", files.model_spec.architecture.name().into()),
        ("hidden_size", spec.hidden_size.to_string()),
        ("layers", spec.layers.len().to_string()),
        ("vocab_size", spec.vocab_size.to_string()),
        ("max_length rounded up", positions.to_string()),
        ("kv_cache_page_size", limits.page_size.to_string()),
        ("kv_cache_format", cache_format.to_string()),
        ("page size of a window's ring", ring),
        ("max_num_loras", limits.max_num_loras.to_string()),
        ("max_lora_rank", rank.to_string()),
        ("return_logits", format!("{:?}", limits.return_logits)),
        (
            "return_hidden_states",
            format!("{:?}", limits.return_hidden_states),
        ),
        ("precision", precision.to_string()),
    ];
    let placement = ("layer_embeddings", limits.layer_embeddings.to_string());
    let placement = spec.layer_embeddings.map(|_| placement);
    let facts = facts.into_iter().chain(placement);
    facts
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}
