//! The sampler: a program that samples tokens on the device.

use std::collections::HashMap;

use wisp_compiler::Footprint;
use wisp_device::Buffer;
use wisp_graph::{Graph, GraphError, ops::Sample};
use wisp_session::{Dims, InferenceSession, InitOptions, Model, SessionError, Tensor};
use wisp_shaders::params::{IN_PROMPT, LogitBias, SampleSettings};
use wisp_types::{BoxFuture, Capabilities, DType, shape};
use wisp_weights::MemoryWeights;

use super::{
    ModelLimits, NextTokens, PipelineError, RequestId, SamplingBuffers, SamplingParams,
    batch::{Batch, BatchSequence},
    log_probabilities::{MAX_TOP, SCORE_WORDS, TokenScore},
    sampling::MAX_BIASES,
};

/// 32-bit words of one row of sampling settings.
const SETTINGS_WORDS: u64 = (size_of::<SampleSettings>() / 4) as u64;

/// 32-bit words of one bias.
const BIAS_WORDS: u64 = (size_of::<LogitBias>() / 4) as u64;

/// The token that the sampling kernel writes when no logit is finite.
pub(crate) const NO_TOKEN: u32 = u32::MAX;

const _: () = assert!(SCORE_WORDS == 1 + 2 * MAX_TOP as u64);

/// Builds the sampler's graph: input `logits: f32 [logit_rows, vocab]`; buffers `settings`, `counts`,
/// `tokens`, `index`, `out: u32 [draws]`, `biases`, `scores: u32 [draws, SCORE_WORDS]` and `masks`, where
/// `draws` are the rows of all steps of a submission. See [`wisp_shaders::params::SampleParams`].
pub(crate) fn build(vocab: u64) -> Result<Graph, GraphError> {
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
    let masks = graph.buffer("masks", u32s, shape!["batch", mask_words(vocab)]);
    graph.add(
        Sample,
        &[
            logits, settings, counts, tokens, index, out, biases, scores, masks,
        ],
    )?;
    Ok(graph)
}

/// Returns the words of a mask of the tokens of a vocabulary.
fn mask_words(vocab: u64) -> u64 {
    vocab.div_ceil(32)
}

/// Returns the largest sizes of the sampler's symbolic dimensions.
fn max_dims(limits: ModelLimits) -> HashMap<String, u64> {
    HashMap::from([
        ("logit_rows".to_string(), limits.max_logit_rows),
        ("batch".to_string(), limits.max_batch),
        ("draws".to_string(), limits.draws()),
    ])
}

/// Returns the memory of the sampler in addition to a model with which it shares logits, tokens and
/// positions.
///
/// # Errors
///
/// If the target has no kernel that samples.
pub(crate) fn footprint(
    target: &Capabilities,
    vocab: u64,
    limits: ModelLimits,
) -> Result<Footprint, PipelineError> {
    let compiled = InferenceSession::compile_for(&build(vocab)?, target)?;
    let shared = ["logits", "tokens", "index"];
    Ok(compiled.program().footprint(&max_dims(limits), &shared))
}

/// The tokens `[steps, rows]` that a batch sampled and the scores of each (`None` if not requested), on their
/// way from the device.
pub(crate) type SampledTokens =
    BoxFuture<'static, Result<(Vec<u32>, Vec<Option<TokenScore>>), PipelineError>>;

/// Samples the tokens of a batch from its logits, and stores each sequence's state for penalties.
#[derive(Debug)]
pub(crate) struct Sampler {
    model: Model,
    vocab: u64,
    limits: ModelLimits,
}

impl Sampler {
    /// Loads the sampler for a model with this vocabulary size and these limits.
    ///
    /// # Errors
    ///
    /// If the device has no memory left, or its compiler fails.
    pub(crate) async fn load(
        session: &InferenceSession,
        vocab: u64,
        limits: ModelLimits,
        buffers: SamplingBuffers,
    ) -> Result<Sampler, PipelineError> {
        let shared = [
            ("logits", buffers.logits),
            ("tokens", buffers.tokens),
            ("index", buffers.index),
        ];
        let shared = shared.into_iter();
        let options = InitOptions {
            max_dims: max_dims(limits),
            shared: shared
                .filter_map(|(name, buffer)| Some((name.to_string(), buffer?)))
                .collect(),
            ..Default::default()
        };
        let compiled = session.compile(&build(vocab)?)?;
        let model = session
            .init(&compiled, &MemoryWeights::default(), options)
            .await?;
        Ok(Sampler {
            model,
            vocab,
            limits,
        })
    }

    /// Returns the sampler's program on its device.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Writes the state of new sequences and the settings of every row of logits. Returns the
    /// settings.
    pub(crate) fn begin(&self, batch: &Batch) -> Result<Vec<SampleSettings>, PipelineError> {
        for part in &batch.sequences {
            if let Some(history) = &part.history {
                let (tokens, prompt_tokens) = (&history.tokens, history.prompt_tokens);
                self.begin_sequence(part.slot, (tokens, prompt_tokens), &part.sampling)?;
            }
        }
        let rows = |part: &BatchSequence| {
            let rows = part.logit_positions();
            let settings = rows.map(|(position, following)| {
                let masked = part.constrained && following.is_none();
                let sampling = &part.sampling;
                sampling.settings(part.slot, position + 1, following, masked)
            });
            settings.collect::<Vec<_>>()
        };
        let settings: Vec<SampleSettings> = batch.sequences.iter().flat_map(rows).collect();
        self.model.write("settings", &settings)?;
        Ok(settings)
    }

    /// Writes the state that a sequence's penalties and biases need; the first `prompt_tokens` of its
    /// tokens are the prompt's.
    fn begin_sequence(
        &self,
        slot: u32,
        (tokens, prompt_tokens): (&[u32], usize),
        sampling: &SamplingParams,
    ) -> Result<(), PipelineError> {
        let slot = u64::from(slot);
        if sampling.penalises() {
            let mut counts = vec![0u32; self.vocab as usize];
            for (at, token) in tokens.iter().enumerate() {
                match counts.get_mut(*token as usize) {
                    Some(count) if at < prompt_tokens => *count |= IN_PROMPT,
                    Some(count) => *count += 1,
                    None => {}
                }
            }
            self.model.write_at("counts", slot * self.vocab, &counts)?;
        }
        Ok(self
            .model
            .write_at("biases", slot * MAX_BIASES, &sampling.biases())?)
    }

    /// Writes which tokens may be sampled in the constrained sequences of a batch. `masks` computes them for some requests,
    /// `[requests, words]` with a bit for each token; before it is asked, the work recorded so far is submitted, so that
    /// the device computes the logits meanwhile.
    pub(crate) fn write_masks(
        &self,
        batch: &Batch,
        mut masks: impl FnMut(&[RequestId], &mut [u32]),
    ) -> Result<(), PipelineError> {
        let parts = batch.sequences.iter();
        let masked: Vec<_> = parts
            .filter(|part| part.constrained && part.samples)
            .collect();
        if masked.is_empty() {
            return Ok(());
        }
        self.submit()?;
        let words = mask_words(self.vocab);
        let requests: Vec<RequestId> = masked.iter().map(|part| part.id).collect();
        let mut bits = vec![0; requests.len() * words as usize];
        masks(&requests, &mut bits);
        for (part, bits) in masked.iter().zip(bits.chunks(words as usize)) {
            let first = u64::from(part.slot) * words;
            self.model.write_at("masks", first, bits)?;
        }
        Ok(())
    }

    /// Returns the buffer with the tokens that the last step sampled, `u32 [logit_rows]`. All are in the vocabulary, also
    /// where no logit is finite.
    pub(crate) fn sampled(&self) -> Result<&Buffer, PipelineError> {
        Ok(self.model.buffer("tokens")?)
    }

    /// Samples from logits `f32 [rows, vocab]`. Each run advances the step counter among the
    /// settings that [`Self::begin`] wrote.
    pub(crate) async fn sample(&self, logits: &Tensor) -> Result<(), PipelineError> {
        let rows = logits.shape().first().copied().unwrap_or(0);
        self.model.write_tensor("logits", logits).await?;
        Ok(self.model.run(&self.dims(rows)?)?)
    }

    /// Submits the work recorded so far.
    pub(crate) fn submit(&self) -> Result<(), PipelineError> {
        Ok(self.model.device().submit().map_err(SessionError::from)?)
    }

    /// Returns the dimensions of a run that samples from `rows` rows of logits.
    pub(crate) fn dims(&self, rows: u64) -> Result<Dims, PipelineError> {
        let sizes = [
            ("logit_rows", rows),
            ("batch", self.limits.max_batch),
            ("draws", self.limits.draws()),
        ];
        Ok(self.model.dims(&sizes)?)
    }

    /// Returns the tokens that the last call sampled and their positions, on the device.
    pub(crate) fn next_tokens(&self, rows: u64) -> Result<NextTokens, PipelineError> {
        let dims = self.dims(rows)?;
        Ok(NextTokens {
            tokens: self.model.input_on_device("tokens", &dims)?,
            index: Some(self.model.input_on_device("index", &dims)?),
        })
    }

    /// Submits the work recorded so far. The future waits until the device has done it, and returns no tokens.
    pub(crate) fn finish(&self) -> SampledTokens {
        // A read is submitted at once, and its future does not wait for what is submitted behind it.
        let read = self.model.read::<u32>("out", 1);
        Box::pin(async move {
            read.await?;
            Ok((Vec::new(), Vec::new()))
        })
    }

    /// Starts to read the tokens and scores that `steps` steps sampled: what is submitted after this call does
    /// not change them. Nothing else is read back from the device.
    pub(crate) fn read(&self, settings: Vec<SampleSettings>, steps: usize) -> SampledTokens {
        let places = steps * settings.len();
        let tokens = self.model.read("out", places as u64);
        let scored = settings.iter().any(|row| row.logprobs > 0);
        let scores = scored.then(|| self.model.read("scores", places as u64 * SCORE_WORDS));
        Box::pin(async move {
            let tokens = tokens.await?;
            let Some(words) = scores else {
                return Ok((tokens, vec![None; places]));
            };
            let words: Vec<u32> = words.await?;
            let words = words.chunks(SCORE_WORDS as usize);
            let score = |(words, row): (&[u32], &SampleSettings)| {
                let top = row.logprobs.checked_sub(1)?;
                Some(TokenScore::from_words(words, top))
            };
            let scores = words.zip(settings.iter().cycle()).map(score).collect();
            Ok((tokens, scores))
        })
    }
}
