//! The program that draws tokens on the device.

use wisp_shaders::params::{Bias, SampleSettings};

use super::log_probabilities::{MAX_TOP, SCORE_WORDS};
use crate::{
    graph::{DType, Graph, GraphError, Op},
    shape,
};

/// Words of one row of sampling settings.
const SETTINGS_WORDS: u64 = (size_of::<SampleSettings>() / 4) as u64;

/// Words of one bias.
const BIAS_WORDS: u64 = (size_of::<Bias>() / 4) as u64;

/// Most biased tokens of a sequence.
pub(super) const MAX_BIASES: u64 = 1024;

const _: () = assert!(SCORE_WORDS == 1 + 2 * MAX_TOP as u64);

/// Builds the sampler's graph: input `logits: f32 [logit_rows, vocab]`; buffers `settings`, `counts`,
/// `tokens`, `index`, `out: u32 [draws]`, `biases` and `scores: u32 [draws, SCORE_WORDS]`, where
/// `draws` are the rows of all steps of a submission. See [`wisp_shaders::params::SampleParams`].
pub(super) fn build(vocab: u64) -> Result<Graph, GraphError> {
    let mut graph = Graph::new("sampler");
    let u32s = DType::U32;
    let logits = graph.input("logits", DType::F32, shape!["logit_rows", vocab]);
    let settings = graph.buffer("settings", u32s, shape!["logit_rows", SETTINGS_WORDS]);
    let counts = graph.buffer("counts", u32s, shape!["batch", vocab]);
    let tokens = graph.buffer("tokens", u32s, shape!["logit_rows"]);
    let index = graph.buffer("index", u32s, shape!["logit_rows", 2u64]);
    let out = graph.buffer("out", u32s, shape!["draws"]);
    let biases = graph.buffer("biases", u32s, shape!["batch", MAX_BIASES, BIAS_WORDS]);
    let scores = graph.buffer("scores", u32s, shape!["draws", SCORE_WORDS]);
    graph.add(
        Op::Sample,
        &[logits, settings, counts, tokens, index, out, biases, scores],
    )?;
    Ok(graph)
}
