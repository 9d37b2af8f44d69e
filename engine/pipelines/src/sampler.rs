//! The program that draws tokens on the device.

use wisp_shaders::params::{Bias, IN_PROMPT, SampleSettings};

use super::{
    PipelineError, SamplingParams,
    log_probabilities::{MAX_TOP, SCORE_WORDS, TokenScore},
};
use wisp_graph::{Graph, GraphError, ops::Sample};
use wisp_session::{Model, SessionError};
use wisp_types::{DType, shape};

/// Words of one row of sampling settings.
const SETTINGS_WORDS: u64 = (size_of::<SampleSettings>() / 4) as u64;

/// Words of one bias.
const BIAS_WORDS: u64 = (size_of::<Bias>() / 4) as u64;

/// Most biased tokens of a sequence.
pub(super) const MAX_BIASES: u64 = 1024;

/// What the sampling kernel writes when no logit is a finite number.
pub(super) const NO_TOKEN: u32 = u32::MAX;

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
        Sample,
        &[logits, settings, counts, tokens, index, out, biases, scores],
    )?;
    Ok(graph)
}

/// Sets up the sampler's state of a sequence that begins to run, as far as its sampling needs any:
/// its tokens, of which the first `prompt_tokens` are the prompt's.
pub(super) fn begin(
    sampler: &Model,
    vocab: u64,
    slot: u32,
    (tokens, prompt_tokens): (&[u32], usize),
    sampling: &SamplingParams,
) -> Result<(), SessionError> {
    let slot = u64::from(slot);
    if sampling.penalises() {
        let mut counts = vec![0u32; vocab as usize];
        for (at, token) in tokens.iter().enumerate() {
            match counts.get_mut(*token as usize) {
                Some(count) if at < prompt_tokens => *count |= IN_PROMPT,
                Some(count) => *count += 1,
                None => {}
            }
        }
        sampler.write_at("counts", slot * vocab, &counts)?;
    }
    sampler.write_at("biases", slot * MAX_BIASES, &sampling.biases())
}

/// The scores of every row of every step; none where they are not wanted. Nothing is read if
/// none are.
pub(super) async fn read_scores(
    sampler: &Model,
    settings: &[SampleSettings],
    steps: usize,
) -> Result<Vec<Option<TokenScore>>, PipelineError> {
    let places = steps * settings.len();
    if settings.iter().all(|row| row.scored == 0) {
        return Ok(vec![None; places]);
    }
    let words: Vec<u32> = sampler.read("scores", places as u64 * SCORE_WORDS).await?;
    let rows = settings.iter().cycle();
    let places = words.chunks(SCORE_WORDS as usize).zip(rows);
    Ok(places
        .map(|(words, row)| {
            let top = row.scored.checked_sub(1)?;
            Some(TokenScore::from_words(words, top))
        })
        .collect())
}
