//! The runner: runs batches on a model and its sampler.

use std::{collections::HashMap, fmt};

use web_time::Instant;
use wisp_session::{InferenceSession, Tensor};
use wisp_shaders::params::SampleSettings;

use super::{
    ModelInputs, ModelOutputs, PipelineError, PipelineModel, RequestId,
    batch::{Batch, SequenceOutput},
    future_tokens::FutureTokens,
    log_probabilities::TokenScore,
    sampler::{NO_TOKEN, SampledTokens, Sampler},
};

/// Runs the batches of a scheduler on any [`PipelineModel`], and samples their tokens on the device.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) model: Box<dyn PipelineModel>,
    pub(crate) sampler: Sampler,
    /// `None` for a model that needs the tokens in host memory.
    future_tokens: Option<FutureTokens>,
    /// The row of logits of each sequence from which the last batch's last step sampled.
    sampled: HashMap<RequestId, u32>,
}

/// A batch whose steps were submitted.
pub(crate) struct SubmittedBatch {
    pub(crate) batch: Batch,
    /// When the device began with it, if that is known.
    pub(crate) since: Option<Instant>,
    sampling: Sampling,
}

/// How far a submitted batch is sampled.
enum Sampling {
    /// The device computes the logits. Which tokens a constraint allows depends on tokens in flight.
    Awaits {
        settings: Vec<SampleSettings>,
        logits: Tensor,
    },
    /// The sampled tokens are on their way from the device.
    Submitted(SampledTokens),
}

impl fmt::Debug for SubmittedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SubmittedBatch").field(&self.batch).finish()
    }
}

impl SubmittedBatch {
    /// Returns whether [`Runner::sample`] must be called when the tokens of the batch before it are known.
    pub(crate) fn awaits_sampling(&self) -> bool {
        matches!(self.sampling, Sampling::Awaits { .. })
    }

    /// Waits for the sampled tokens. Returns an output for each of the batch's sequences. A caller may drop
    /// the future and call this again, but not after it has returned.
    ///
    /// # Errors
    ///
    /// If the batch has not been sampled, or the device fails.
    pub(crate) async fn outputs(&mut self) -> Result<Vec<SequenceOutput>, PipelineError> {
        let Sampling::Submitted(sampled) = &mut self.sampling else {
            return Err(PipelineError::Batch);
        };
        let (tokens, scores) = sampled.await?;
        Ok(outputs_of(&self.batch, &tokens, &scores))
    }
}

impl Runner {
    /// Creates a runner of a loaded model.
    ///
    /// # Errors
    ///
    /// If the device has no memory left for the sampler.
    pub(crate) async fn new(
        session: &InferenceSession,
        model: Box<dyn PipelineModel>,
    ) -> Result<Runner, PipelineError> {
        let (vocab, limits) = (model.vocab_size(), *model.limits());
        let sampler = Sampler::load(session, vocab, limits, model.sampling_buffers()).await?;
        let future_tokens = match model.executes_asynchronously() {
            true => Some(FutureTokens::load(session, limits, sampler.sampled()?.clone()).await?),
            false => None,
        };
        Ok(Runner {
            model,
            sampler,
            future_tokens,
            sampled: HashMap::new(),
        })
    }

    /// Returns whether batches can be submitted before the tokens of those before them are known.
    pub(crate) fn runs_ahead(&self) -> bool {
        self.future_tokens.is_some()
    }

    /// Returns the kernel calls per sampled token, in addition to the model's own.
    pub(crate) fn sampler_dispatches(&self) -> usize {
        self.sampler.model().dispatches_per_run()
    }

    /// Runs a batch without sampling.
    ///
    /// # Errors
    ///
    /// If the batch does not fit the model, or the device fails.
    pub(crate) async fn execute(&mut self, batch: &Batch) -> Result<ModelOutputs, PipelineError> {
        let inputs = self.model.prepare_initial_token_inputs(batch)?;
        self.model.execute(&inputs).await
    }

    /// Submits all steps of a batch, feeding sampled tokens to the next step on the device. `masks` computes which
    /// tokens constrained requests may continue with, while the device computes the logits. If that depends on tokens in
    /// flight, the batch is not sampled yet. `is_idle` says whether the device has nothing to do until then.
    ///
    /// # Errors
    ///
    /// If the batch does not fit the model, or the device fails.
    pub(crate) async fn submit(
        &mut self,
        batch: Batch,
        is_idle: bool,
        mut masks: impl FnMut(&[RequestId], &mut [u32]),
    ) -> Result<SubmittedBatch, PipelineError> {
        let settings = self.sampler.begin(&batch)?;
        let mut inputs = self.model.prepare_initial_token_inputs(&batch)?;
        // Gone until this batch has sampled its own.
        let sampled = std::mem::take(&mut self.sampled);
        let awaited = awaited_tokens(&batch, &inputs, &sampled)?;
        if are_in_place(&awaited, &inputs) {
            inputs.tokens = self.sampler.next_tokens(awaited.len() as u64)?.tokens;
        } else if !awaited.is_empty() {
            let program = self.future_tokens.as_ref().ok_or(PipelineError::Batch)?;
            inputs.tokens = program.fill_in(&inputs.tokens, &awaited).await?;
        }
        let mut parts = batch.sequences.iter();
        // Such a batch has one step.
        let awaits_tokens = parts.any(|part| part.constrained && part.awaits_token);
        let since = Instant::now();
        let steps = batch.steps.max(1);
        for step in 0..steps {
            if step > 0 {
                let next = self.sampler.next_tokens(settings.len() as u64)?;
                inputs = self.model.prepare_next_token_inputs(&next, inputs)?;
            }
            let outputs = self.model.execute(&inputs).await?;
            if !settings.is_empty() {
                self.check_logits(&outputs, settings.len() as u64)?;
            }
            if awaits_tokens {
                self.sampler.submit()?;
                let logits = outputs.logits;
                return Ok(SubmittedBatch {
                    batch,
                    since: Some(since),
                    sampling: Sampling::Awaits { settings, logits },
                });
            }
            if !settings.is_empty() {
                self.sampler.write_masks(&batch, &mut masks)?;
                self.sampler.sample(&outputs.logits).await?;
            }
            if step == 0 && steps > 1 && is_idle {
                // The device begins with the first step while the others are recorded.
                self.sampler.submit()?;
            }
        }
        let sampled = match settings.is_empty() {
            // A part of a prompt has no tokens to read, but the wait for it keeps the host from running further
            // ahead, so that cancelling takes effect soon.
            true => self.sampler.finish(),
            false => self.sampler.read(settings, steps),
        };
        self.sampled = sampled_rows(&batch);
        Ok(SubmittedBatch {
            batch,
            since: Some(since),
            sampling: Sampling::Submitted(sampled),
        })
    }

    /// Samples a batch that awaits it, as [`Self::submit`] does.
    ///
    /// # Errors
    ///
    /// If the batch was sampled, or the device fails.
    pub(crate) async fn sample(
        &mut self,
        submitted: SubmittedBatch,
        masks: impl FnMut(&[RequestId], &mut [u32]),
    ) -> Result<SubmittedBatch, PipelineError> {
        let Sampling::Awaits { settings, logits } = submitted.sampling else {
            return Err(PipelineError::Batch);
        };
        self.sampler.write_masks(&submitted.batch, masks)?;
        self.sampler.sample(&logits).await?;
        self.sampled = sampled_rows(&submitted.batch);
        Ok(SubmittedBatch {
            sampling: Sampling::Submitted(self.sampler.read(settings, 1)),
            ..submitted
        })
    }

    /// Checks that a model returned the logits that were asked for: models of applications may be wrong.
    fn check_logits(&self, outputs: &ModelOutputs, rows: u64) -> Result<(), PipelineError> {
        let (expected, found) = ([rows, self.model.vocab_size()], outputs.logits.shape());
        match found == expected {
            true => Ok(()),
            false => Err(PipelineError::LogitsShape {
                expected,
                found: found.to_vec(),
            }),
        }
    }
}

/// Returns the row of logits of each sequence from which a step of a batch samples.
fn sampled_rows(batch: &Batch) -> HashMap<RequestId, u32> {
    let mut rows = HashMap::with_capacity(batch.sequences.len());
    let mut next = 0;
    for part in &batch.sequences {
        next += part.logit_rows as u32;
        if part.samples {
            rows.insert(part.id, next - 1);
        }
    }
    rows
}

/// Returns which tokens of a batch the last step before it samples, each with its row of logits.
///
/// # Errors
///
/// If a sequence awaits a token that is not sampled.
fn awaited_tokens(
    batch: &Batch,
    inputs: &ModelInputs,
    sampled: &HashMap<RequestId, u32>,
) -> Result<Vec<(usize, u32)>, PipelineError> {
    let parts = batch.sequences.iter().zip(&inputs.row_offsets);
    let awaiting = parts.filter(|(part, _)| part.awaits_token);
    awaiting
        .map(|(part, at)| {
            let row = sampled.get(&part.id).ok_or(PipelineError::Batch)?;
            Ok((*at as usize, *row))
        })
        .collect()
}

/// Returns whether the tokens of a batch are just those of the first rows, in their order: the sampler has left these
/// where a further step reads them.
fn are_in_place(awaited: &[(usize, u32)], inputs: &ModelInputs) -> bool {
    let mut tokens = awaited.iter().enumerate();
    !awaited.is_empty()
        && inputs.tokens.shape() == [awaited.len() as u64]
        && tokens.all(|(at, token)| *token == (at, at as u32))
}

/// Assigns the sampled tokens and scores, `[steps, logit_rows]`, to the batch's sequences.
fn outputs_of(batch: &Batch, tokens: &[u32], scores: &[Option<TokenScore>]) -> Vec<SequenceOutput> {
    let rows = batch.logit_rows();
    let mut first = 0;
    let mut outputs = Vec::with_capacity(batch.sequences.len());
    for part in &batch.sequences {
        let mut output = SequenceOutput::default();
        for (row, (_, following)) in part.logit_positions().enumerate() {
            if following.is_some() {
                output.not_finite |= tokens.get(first + row) == Some(&NO_TOKEN);
                output
                    .prompt_scores
                    .extend(scores.get(first + row).cloned().flatten());
            } else if part.samples {
                let steps = (0..batch.steps.max(1)).map(|step| step * rows + first + row);
                output.tokens = steps
                    .clone()
                    .filter_map(|at| tokens.get(at))
                    .copied()
                    .collect();
                output.scores = steps
                    .filter_map(|at| scores.get(at).cloned().flatten())
                    .collect();
            }
        }
        first += part.logit_rows;
        outputs.push(output);
    }
    outputs
}
