//! Logits of whole texts.

use std::ops::ControlFlow;

use web_time::Instant;

use super::TextGenerator;
use crate::{Adapter, Batch, BatchSequence, PipelineError, RequestError, pace::part_of_prompt};

impl TextGenerator {
    /// Like [`Self::logits`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::logits`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn logits_blocking(
        &mut self,
        tokens: &[u32],
        adapter: Option<Adapter>,
        chunk: impl FnMut(&[f32]),
    ) -> Result<(), PipelineError> {
        pollster::block_on(self.logits(tokens, adapter, chunk))
    }

    /// Computes the logits of every position of a text, `[tokens, vocab_size]`. `chunk` is called in
    /// order with the rows of the tokens that went through the model together.
    ///
    /// # Errors
    ///
    /// If requests are running, the text does not fit the context, the adapter has been unloaded, a
    /// logit is not finite, or the device fails.
    pub async fn logits(
        &mut self,
        tokens: &[u32],
        adapter: Option<Adapter>,
        mut chunk: impl FnMut(&[f32]),
    ) -> Result<(), PipelineError> {
        let all = |rows: &[f32]| {
            chunk(rows);
            ControlFlow::Continue(())
        };
        self.try_logits(tokens, adapter, all).await
    }

    /// Like [`Self::logits`], but `chunk` can end the computation before the end of the text.
    ///
    /// # Errors
    ///
    /// As [`Self::logits`].
    pub async fn try_logits(
        &mut self,
        tokens: &[u32],
        adapter: Option<Adapter>,
        mut chunk: impl FnMut(&[f32]) -> ControlFlow<()>,
    ) -> Result<(), PipelineError> {
        let limits = *self.limits();
        let max_length = limits.longest_sequence() as usize;
        if tokens.is_empty() {
            return Err(RequestError::Empty.into());
        }
        if tokens.len() > max_length {
            let tokens = tokens.len();
            return Err(RequestError::TooLong { tokens, max_length }.into());
        }
        if !self.scheduler.is_idle() {
            return Err(PipelineError::Busy);
        }
        if let Some(adapter) = adapter {
            self.check_adapter(adapter)?;
        }
        // The text overwrites the first pages, whatever they contain.
        self.forget_prefixes();
        let most = limits.max_logit_rows.min(limits.max_step_tokens).max(1) as usize;
        let (mut start, mut rest) = (0, tokens);
        while !rest.is_empty() {
            let most = most.min(self.pace.prompt_tokens());
            let part = &rest[..part_of_prompt(rest.len(), most)];
            let end = u64::from(start) + part.len() as u64;
            let pages: Vec<u32> = (0..end.div_ceil(limits.page_size.into()) as u32).collect();
            let sequence = BatchSequence {
                adapter,
                ..BatchSequence::new(0, start, part, &pages).with_logit_rows(part.len())
            };
            let batch = Batch {
                sequences: vec![sequence],
                steps: 1,
            };
            let since = Instant::now();
            let logits = self.runner.execute(&batch).await?.logits.to_host().await?;
            self.pace.observe(&batch, since.elapsed().as_secs_f64());
            let logits = logits.as_f32().unwrap_or_default();
            if logits.iter().any(|logit| !logit.is_finite()) {
                return Err(PipelineError::NotFinite { request: None });
            }
            if chunk(logits).is_break() {
                break;
            }
            start += part.len() as u32;
            rest = &rest[part.len()..];
        }
        Ok(())
    }
}
