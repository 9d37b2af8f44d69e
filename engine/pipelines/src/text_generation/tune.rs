//! Measuring which kernels are fastest for a model on its device.

use std::{any::Any, time::Duration};

use wisp_session::{InferenceSession, OnTuning, TuneReport, Tuner};

use super::TextGenerator;
use crate::{
    Batch, BatchSequence, DecoderModel, ModelLimits, PipelineError, PipelineModel, SamplingParams,
};

/// The numbers of tokens to measure, the most important first: the time limit may leave out the last.
const TOKENS: [u32; 8] = [1, 128, 8, 32, 2, 4, 16, 512];

/// The positions in the KV cache of the sequences to measure.
const CONTEXTS: [u32; 2] = [512, 4096];

/// As [`CONTEXTS`], of software adapters, which take seconds to compute the first tokens.
const SOFTWARE_CONTEXTS: [u32; 1] = [128];

/// The numbers of tokens for which attention is measured with every context.
const ATTENTION_TOKENS: [u32; 2] = [1, 8];

/// The part of the time limit after which the KV cache is filled no further.
const SHARE_FOR_CONTEXTS: f64 = 0.7;

impl TextGenerator {
    /// Measures which kernels are fastest for the model on its device, for at most about `limit`. The results
    /// of [`InferenceSession::with_tuning`] with the report's tuning are those of the default kernels, up to
    /// rounding. `session` is the one that the model was loaded in; `now` is a clock, because browsers have
    /// another one than programs.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Busy`] if a request is running, and if the device fails.
    pub async fn tune(
        &mut self,
        session: &InferenceSession,
        limit: Duration,
        now: &(dyn Fn() -> Duration + Sync),
        progress: OnTuning<'_>,
    ) -> Result<TuneReport, PipelineError> {
        if !self.is_idle() {
            return Err(PipelineError::Busy);
        }
        let mut tuner = Tuner::new(session, limit, now, progress);
        let limits = *self.limits();
        let contexts = match session.device().info().software {
            true => &SOFTWARE_CONTEXTS[..],
            false => &CONTEXTS[..],
        };
        // The pages of the KV cache will no longer hold what the scheduler knows of them.
        self.forget_prefixes();
        let longest = u32::try_from(limits.longest_sequence()).unwrap_or(u32::MAX);
        let mut contexts: Vec<u32> = contexts.iter().map(|at| *at.min(&longest)).collect();
        contexts.dedup();
        let mut filled = 0;
        for (number, context) in contexts.into_iter().enumerate() {
            if tuner.share_of_limit() > SHARE_FOR_CONTEXTS && number > 0 {
                break;
            }
            self.fill(filled, context, &tuner).await?;
            filled = context;
            let tokens: &[u32] = if number == 0 {
                &TOKENS
            } else {
                &ATTENTION_TOKENS
            };
            for tokens in tokens {
                if tuner.continues() && u64::from(*tokens) <= limits.max_step_tokens {
                    self.measure(&mut tuner, *tokens, context).await?;
                }
            }
        }
        Ok(tuner.finish())
    }

    /// Like [`Self::tune`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::tune`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn tune_blocking(
        &mut self,
        session: &InferenceSession,
        limit: Duration,
        now: &(dyn Fn() -> Duration + Sync),
        progress: OnTuning<'_>,
    ) -> Result<TuneReport, PipelineError> {
        pollster::block_on(self.tune(session, limit, now, progress))
    }

    fn tuned_decoder(&mut self) -> Option<&mut DecoderModel> {
        let model: &mut dyn PipelineModel = &mut *self.runner.model;
        let model: &mut dyn Any = model;
        model.downcast_mut()
    }

    /// Runs a prompt through the model, from position `from` to `to`, so that the KV cache holds numbers.
    async fn fill(&mut self, from: u32, to: u32, tuner: &Tuner<'_>) -> Result<(), PipelineError> {
        let (limits, vocab) = (*self.limits(), self.vocab());
        let step = u32::try_from(limits.max_step_tokens)
            .unwrap_or(u32::MAX)
            .max(1);
        let Some(decoder) = self.tuned_decoder() else {
            return Ok(());
        };
        let mut start = from;
        while start < to && tuner.continues() {
            let count = step.min(to - start);
            let batch = Batch {
                sequences: vec![sequence(0, start, count, vocab, &limits)],
                steps: 1,
            };
            let inputs = decoder.prepare_initial_token_inputs(&batch)?;
            decoder.execute(&inputs).await?;
            decoder
                .decoder()
                .device()
                .finish()
                .await
                .map_err(wisp_session::SessionError::from)?;
            start += count;
        }
        Ok(())
    }

    /// Measures the decoder in a step over `tokens` tokens, and the sampler after it.
    async fn measure(
        &mut self,
        tuner: &mut Tuner<'_>,
        tokens: u32,
        context: u32,
    ) -> Result<(), PipelineError> {
        let (limits, vocab) = (*self.limits(), self.vocab());
        let Some(batch) = batch(tokens, context, vocab, &limits) else {
            return Ok(());
        };
        let Some(decoder) = self.tuned_decoder() else {
            return Ok(());
        };
        let inputs = decoder.prepare_initial_token_inputs(&batch)?;
        let dims = decoder.stage(&inputs).await?;
        let first = batch.sequences.first();
        let end = first.map_or(0, |part| part.start as usize + part.tokens.len());
        let contents = [("attention", format!("context={end}"))];
        tuner.measure(decoder.decoder(), &dims, &contents).await?;
        let sampler = &self.runner.sampler;
        sampler.begin(&batch)?;
        let dims = sampler.dims(batch.logit_rows() as u64)?;
        Ok(tuner.measure(sampler.model(), &dims, &[]).await?)
    }

    fn vocab(&self) -> u32 {
        u32::try_from(self.model().vocab_size())
            .unwrap_or(u32::MAX)
            .max(1)
    }
}

/// Returns a part of a sequence at some positions, with the pages of the first sequence in the KV cache.
fn sequence(slot: u32, start: u32, count: u32, vocab: u32, limits: &ModelLimits) -> BatchSequence {
    // Any tokens will do; a multiplicative sequence has a long period.
    let token = |at: u32| at.wrapping_mul(2_654_435_761) % vocab;
    let tokens: Vec<u32> = (start..start + count).map(token).collect();
    let pages: Vec<u32> = (0..(start + count).div_ceil(limits.page_size.max(1))).collect();
    BatchSequence::new(slot, start, &tokens, &pages)
}

/// Returns a step over some tokens: a token each of as many sequences, which all read the same pages, or, if
/// the model has no room for so many, a part of a prompt. `None` if that is longer than a sequence may be.
fn batch(tokens: u32, context: u32, vocab: u32, limits: &ModelLimits) -> Option<Batch> {
    let sampled = |part: BatchSequence| BatchSequence {
        samples: true,
        sampling: std::sync::Arc::new(SamplingParams {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            ..SamplingParams::default()
        }),
        ..part
    };
    let decodes = u64::from(tokens) <= limits.max_batch.min(limits.max_logit_rows);
    let sequences: Vec<BatchSequence> = match decodes {
        true => {
            let at = context.checked_sub(1)?;
            let part = |slot| sampled(sequence(slot, at, 1, vocab, limits));
            (0..tokens).map(part).collect()
        }
        false => {
            let longest = limits.longest_sequence();
            let start = context.saturating_sub(tokens);
            let fits = u64::from(start) + u64::from(tokens) <= longest;
            fits.then(|| sampled(sequence(0, start, tokens, vocab, limits)))
                .into_iter()
                .collect()
        }
    };
    (!sequences.is_empty()).then_some(Batch {
        sequences,
        steps: 1,
    })
}
