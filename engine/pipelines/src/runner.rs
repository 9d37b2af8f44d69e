//! The runner: runs batches on a model and its sampler.

use wisp_session::InferenceSession;

use super::{
    ModelOutputs, PipelineError, PipelineModel,
    batch::{Batch, SequenceOutput},
    log_probabilities::TokenScore,
    sampler::{NO_TOKEN, Sampler},
};

/// Runs the batches of a scheduler on any [`PipelineModel`], and samples their tokens on the device.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) model: Box<dyn PipelineModel>,
    pub(crate) sampler: Sampler,
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

    /// Runs all steps of a batch, feeding sampled tokens to the next step on the device, and reads the
    /// tokens back. Returns an output for each of the batch's sequences.
    ///
    /// # Errors
    ///
    /// If the batch does not fit the model, or the device fails.
    pub(crate) async fn run(
        &mut self,
        batch: &Batch,
    ) -> Result<Vec<SequenceOutput>, PipelineError> {
        let settings = self.sampler.begin(batch)?;
        let mut inputs = self.model.prepare_initial_token_inputs(batch)?;
        for step in 0..batch.steps.max(1) {
            if step > 0 {
                let next = self.sampler.next_tokens(settings.len() as u64)?;
                inputs = self.model.prepare_next_token_inputs(&next, inputs)?;
            }
            let outputs = self.model.execute(&inputs).await?;
            if !settings.is_empty() {
                self.check_logits(&outputs, settings.len() as u64)?;
                self.sampler.sample(&outputs.logits).await?;
            }
        }
        if settings.is_empty() {
            // A part of a prompt: nothing is read back, but the wait keeps the host from running
            // ahead, so that cancelling takes effect soon.
            self.sampler
                .model()
                .device()
                .finish()
                .await
                .map_err(wisp_session::SessionError::from)?;
        }
        let (tokens, scores) = self.sampler.read(&settings, batch.steps.max(1)).await?;
        Ok(outputs_of(batch, &tokens, &scores))
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
