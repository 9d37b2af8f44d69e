//! The runner: runs batches on a model and its sampler.

use std::fmt;

use web_time::Instant;
use wisp_session::InferenceSession;
use wisp_shaders::params::SampleSettings;

use super::{
    ModelInputs, ModelOutputs, PipelineError, PipelineModel, RequestId,
    batch::{Batch, SequenceOutput},
    log_probabilities::TokenScore,
    sampler::{NO_TOKEN, SampledTokens, Sampler},
};

/// Runs the batches of a scheduler on any [`PipelineModel`], and samples their tokens on the device.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) model: Box<dyn PipelineModel>,
    pub(crate) sampler: Sampler,
}

/// A batch whose steps were all submitted, and whose sampled tokens are on their way from the device.
pub(crate) struct SubmittedBatch {
    pub(crate) batch: Batch,
    /// When the device began with it, if that is known.
    pub(crate) since: Option<Instant>,
    /// The inputs of the batch's last step, until the batch that continues from its tokens takes them.
    pub(crate) last_inputs: Option<ModelInputs>,
    sampled: SampledTokens,
}

/// What the device works on when a batch is submitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InFlight {
    Nothing,
    Batch,
}

impl fmt::Debug for SubmittedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SubmittedBatch").field(&self.batch).finish()
    }
}

impl SubmittedBatch {
    /// Waits for the sampled tokens. Returns an output for each of the batch's sequences. A caller may drop
    /// the future and call this again, but not after it has returned.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub(crate) async fn outputs(&mut self) -> Result<Vec<SequenceOutput>, PipelineError> {
        let (tokens, scores) = (&mut self.sampled).await?;
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
        Ok(Runner { model, sampler })
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

    /// Submits all steps of a batch, feeding sampled tokens to the next step on the device. `mask` computes which
    /// tokens a constrained request may continue with, while the device computes the logits.
    ///
    /// # Errors
    ///
    /// If the batch does not fit the model, or the device fails.
    pub(crate) async fn submit(
        &mut self,
        batch: Batch,
        mask: impl FnMut(RequestId, &mut [u32]),
    ) -> Result<SubmittedBatch, PipelineError> {
        let settings = self.sampler.begin(&batch)?;
        let inputs = self.model.prepare_initial_token_inputs(&batch)?;
        self.submit_steps(batch, settings, inputs, InFlight::Nothing, mask)
            .await
    }

    /// Submits a batch from [`Scheduler::schedule_after`](super::scheduler::Scheduler::schedule_after) behind
    /// the one that it follows, whose last step had the inputs `previous`. Its tokens are those that the other
    /// one samples, on the device.
    ///
    /// # Errors
    ///
    /// If the batch does not fit the model, or the device fails.
    pub(crate) async fn submit_after(
        &mut self,
        previous: ModelInputs,
        batch: Batch,
    ) -> Result<SubmittedBatch, PipelineError> {
        let settings = self.sampler.begin(&batch)?;
        let sampled = self.sampler.next_tokens(settings.len() as u64)?;
        let previous = ModelInputs {
            page_table: ModelInputs::block_tables(&batch, self.model.limits())?,
            ..previous
        };
        let inputs = self.model.prepare_next_token_inputs(&sampled, previous)?;
        // A batch with a constrained sequence follows no other.
        self.submit_steps(batch, settings, inputs, InFlight::Batch, |_, _| {})
            .await
    }

    async fn submit_steps(
        &mut self,
        batch: Batch,
        settings: Vec<SampleSettings>,
        mut inputs: ModelInputs,
        in_flight: InFlight,
        mut mask: impl FnMut(RequestId, &mut [u32]),
    ) -> Result<SubmittedBatch, PipelineError> {
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
                self.sampler.write_masks(&batch, &mut mask)?;
                self.sampler.sample(&outputs.logits).await?;
            }
            if step == 0 && steps > 1 && in_flight == InFlight::Nothing {
                // The device begins with the first step while the others are recorded.
                self.sampler.submit()?;
            }
        }
        let sampled = match settings.is_empty() {
            // A part of a prompt: nothing is read back, but the wait keeps the host from running ahead, so
            // that cancelling takes effect soon.
            true => self.sampler.finish(),
            false => self.sampler.read(settings, steps),
        };
        Ok(SubmittedBatch {
            batch,
            since: Some(since),
            last_inputs: Some(inputs),
            sampled,
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
