//! The program that draws tokens on the device.

use wisp_shaders::params::SampleSettings;

use crate::{
    graph::{DType, Graph, GraphError, Op},
    shape,
};

/// Words of one row of sampling settings.
pub(super) const SETTINGS_WORDS: u64 = (size_of::<SampleSettings>() / 4) as u64;

/// Words of one row of the bit set of seen tokens.
pub(super) fn seen_words(vocab: u64) -> u64 {
    vocab.div_ceil(32)
}

/// Builds the sampler's graph: input `logits: f32 [logit_rows, vocab]`; buffers `settings`,
/// `seen`, `tokens`, `index` and `out: u32 [max_steps, batch]`. See
/// [`wisp_shaders::params::SampleParams`].
pub(super) fn build(vocab: u64, max_steps: u64) -> Result<Graph, GraphError> {
    let mut graph = Graph::new("sampler");
    let logits = graph.input("logits", DType::F32, shape!["logit_rows", vocab]);
    let settings = graph.buffer("settings", DType::U32, shape!["batch", SETTINGS_WORDS]);
    let seen = graph.buffer("seen", DType::U32, shape!["batch", seen_words(vocab)]);
    let tokens = graph.buffer("tokens", DType::U32, shape!["batch"]);
    let index = graph.buffer("index", DType::U32, shape!["batch", 2u64]);
    let out = graph.buffer("out", DType::U32, shape![max_steps, "batch"]);
    graph.add(Op::Sample, &[logits, settings, seen, tokens, index, out])?;
    Ok(graph)
}
