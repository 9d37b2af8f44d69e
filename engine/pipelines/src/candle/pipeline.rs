//! One of candle's models as a [`PipelineModel`], which the shared runner drives.

use wisp_session::Tensor;
use wisp_types::BoxFuture;

use super::model::CandleModel;
use crate::{
    error::PipelineError,
    limits::ModelLimits,
    pipeline_model::{ModelInputs, ModelOutputs, PipelineModel},
};

impl PipelineModel for CandleModel {
    fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    fn vocab_size(&self) -> u64 {
        self.vocab_size
    }

    /// Tokens that follow others run one by one, so that a prompt should run as a whole.
    fn splits_prompts(&self) -> bool {
        false
    }

    /// Runs the tokens of the one sequence. Position 0 starts a new one: candle's models hold the state
    /// of a single sequence, in memory of their own.
    fn execute<'a>(
        &'a mut self,
        inputs: &'a ModelInputs,
    ) -> BoxFuture<'a, Result<ModelOutputs, PipelineError>> {
        Box::pin(async move {
            let tokens = inputs.tokens.to_host().await?;
            let index = inputs.index.to_host().await?;
            let tokens = tokens.as_u32().unwrap_or_default();
            let Some([_, position]) = index.as_u32().and_then(|index| index.first_chunk()) else {
                return Err(PipelineError::Batch);
            };
            let rows = inputs.logit_offsets.last().copied().unwrap_or(0) as usize;
            let logits = self.last_logits(tokens, *position as usize, rows)?;
            let shape = [rows as u64, self.vocab_size];
            Ok(ModelOutputs {
                logits: Tensor::f32(&shape, &logits).ok_or(PipelineError::Batch)?,
                logit_offsets: inputs.logit_offsets.clone(),
                hidden_states: None,
            })
        })
    }
}

impl CandleModel {
    /// Runs tokens from a position on, and returns the logits `[rows, vocab]` of the last ones. Candle
    /// computes only those of the last token, so tokens with logits run one by one.
    fn last_logits(
        &mut self,
        tokens: &[u32],
        position: usize,
        rows: usize,
    ) -> Result<Vec<f32>, PipelineError> {
        if position == 0 {
            self.reset()?;
        }
        let together = tokens.len() - rows.saturating_sub(1).min(tokens.len());
        let mut all = Vec::new();
        let (first, rest) = tokens.split_at(together);
        let logits = self.forward(first, position)?;
        if rows > 0 {
            all.extend(logits);
        }
        for (at, token) in (position + together..).zip(rest) {
            all.extend(self.forward(std::slice::from_ref(token), at)?);
        }
        Ok(all)
    }
}
