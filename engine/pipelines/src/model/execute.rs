//! Batches from outside a scheduler: the decoder as a [`PipelineModel`].

use serde_json::Value;

use super::DecoderModel;
use crate::{
    PipelineError,
    limits::{ModelLimits, ReturnHiddenStates, ReturnLogits},
    log_probabilities::LogProbabilities,
    lora::LoraManager,
    model_files::ModelFiles,
    pipeline_model::{ModelOutputs, PipelineModel, SequenceInputs, TokenInputs},
    sampler,
    sampling::SamplingParams,
};
use wisp_compiler::Footprint;
use wisp_session::InferenceSession;
use wisp_types::Capabilities;
use wisp_weights::SupportedEncoding;

impl DecoderModel {
    /// A batch of nothing with the page table that is on the device, and that table's entries for
    /// each sequence.
    pub(super) fn empty_inputs(&self) -> (TokenInputs, usize) {
        let stride = self.limits.pages_per_sequence() as usize;
        let mut page_table = self.page_table.clone();
        page_table.resize(stride * self.limits.max_batch as usize, 0);
        let inputs = TokenInputs {
            page_table,
            ..Default::default()
        };
        (inputs, stride)
    }

    /// The hidden states of the batch that has just run, as [`ReturnHiddenStates`] says.
    async fn hidden_states(
        &self,
        inputs: &TokenInputs,
        ends: &[usize],
    ) -> Result<Option<Vec<f32>>, PipelineError> {
        let width = self.spec.hidden_size as usize;
        let rows = match self.limits.return_hidden_states {
            ReturnHiddenStates::None => return Ok(None),
            ReturnHiddenStates::Last => inputs.logit_rows.len(),
            ReturnHiddenStates::All | ReturnHiddenStates::AllNormalized => inputs.tokens.len(),
        };
        let elements = (rows * width) as u64;
        let states: Vec<f32> = self.decoder.read("hidden_states", elements).await?;
        if self.limits.return_hidden_states != ReturnHiddenStates::Last {
            return Ok(Some(states));
        }
        let mut last = Vec::with_capacity(ends.len() * width);
        for end in ends {
            let is_last = |row: &u32| *row as usize + 1 == *end;
            let row = inputs.logit_rows.iter().position(is_last);
            let row = row.ok_or(PipelineError::Batch)? * width;
            last.extend(&states[row..row + width]);
        }
        Ok(Some(last))
    }
}

impl PipelineModel for DecoderModel {
    async fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<&(dyn Fn(u64, u64) + Send + Sync)>,
    ) -> Result<DecoderModel, PipelineError> {
        let spec = files.model_spec.decoder()?.clone();
        let (names, weights) = (files.model_spec.names, &files.checkpoint);
        let model = DecoderModel::load_parts(session, spec, names, weights, limits, progress);
        let mut model = model.await?;
        model.config.clone_from(&files.huggingface_config);
        model.encoding = SupportedEncoding::of(weights);
        let layout = model.limits.lora();
        model.loras = layout.map(|layout| LoraManager::new(&files.model_spec, layout));
        Ok(model)
    }

    fn estimate_memory(
        target: &Capabilities,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<Footprint, PipelineError> {
        let spec = files.model_spec.decoder()?;
        let (names, weights) = (files.model_spec.names, &files.checkpoint);
        DecoderModel::estimate_parts(target, spec, names, weights, limits)
    }

    fn encoding(&self) -> Option<SupportedEncoding> {
        self.encoding
    }

    fn lora_manager(&self) -> Option<&LoraManager> {
        self.loras.as_ref()
    }

    fn huggingface_config(&self) -> Option<&Value> {
        self.config.as_ref()
    }

    fn prepare_initial_token_inputs(
        &self,
        batch: &[SequenceInputs<'_>],
        return_n_logits: usize,
    ) -> TokenInputs {
        let rows = match self.limits.return_logits {
            ReturnLogits::LastToken => 1,
            ReturnLogits::Variable => return_n_logits,
            ReturnLogits::All => usize::MAX,
        };
        let (mut inputs, stride) = self.empty_inputs();
        for sequence in batch {
            inputs.push(*sequence, rows, stride);
        }
        inputs
    }

    async fn execute(&mut self, inputs: &TokenInputs) -> Result<ModelOutputs, PipelineError> {
        let dims = self.write(inputs)?;
        self.decoder.run(&dims)?;
        let rows = inputs.logit_rows.len() as u64;
        let logits = self
            .decoder
            .read("logits", rows * self.spec.vocab_size)
            .await?;
        let offsets = inputs.offsets();
        let before = |at: &usize| {
            inputs
                .logit_rows
                .iter()
                .filter(|row| (**row as usize) < *at)
                .count()
        };
        Ok(ModelOutputs {
            logits,
            logit_offsets: offsets.iter().map(|at| before(at) as u32).collect(),
            hidden_states: self.hidden_states(inputs, &offsets[1..]).await?,
        })
    }

    async fn compute_log_probabilities(
        &mut self,
        inputs: &TokenInputs,
        next_tokens: &[u32],
        top_n: &[u32],
        echo: &[bool],
    ) -> Result<Vec<Option<LogProbabilities>>, PipelineError> {
        // Where each sequence's tokens begin.
        let slots: Vec<u32> = inputs.index.iter().map(|[slot, _]| *slot).collect();
        let starts: Vec<usize> = (0..slots.len())
            .filter(|at| *at == 0 || slots[*at] != slots[*at - 1])
            .collect();
        let count = starts.len();
        let sound = [next_tokens.len(), top_n.len(), echo.len()] == [count; 3]
            && next_tokens
                .iter()
                .all(|token| u64::from(*token) < self.spec.vocab_size)
            && slots
                .iter()
                .all(|slot| u64::from(*slot) < self.limits.max_batch)
            && inputs.logit_rows.len() as u64 <= self.limits.max_logit_rows;
        if !sound {
            return Err(PipelineError::Batch);
        }
        let mut settings = Vec::new();
        let mut of_sequence = vec![Vec::new(); count];
        for (row, token) in inputs.logit_rows.iter().enumerate() {
            let token = *token as usize;
            let sequence = starts
                .partition_point(|start| *start <= token)
                .saturating_sub(1);
            let end = starts.get(sequence + 1).copied().unwrap_or(slots.len());
            let is_last = token + 1 == end;
            let known = if is_last {
                next_tokens.get(sequence)
            } else {
                inputs.tokens.get(token + 1)
            };
            let (Some(known), Some(top)) = (known, top_n.get(sequence)) else {
                return Err(PipelineError::Batch);
            };
            let sampling = SamplingParams {
                log_probs: Some(*top).filter(|top| *top > 0),
                ..SamplingParams::default()
            };
            sampling.check()?;
            settings.push(sampling.settings(slots[token], 0, Some(*known)));
            if is_last || echo[sequence] {
                of_sequence[sequence].push(row);
            }
        }
        for (sequence, start) in starts.iter().enumerate() {
            let end = starts.get(sequence + 1).copied().unwrap_or(slots.len());
            let wanted = if echo[sequence] { end - start } else { 1 };
            if top_n[sequence] > 0 && of_sequence[sequence].len() != wanted {
                return Err(PipelineError::Batch);
            }
        }
        self.sampler.write("settings", &settings)?;
        let dims = self.sampler.dims(&self.sizes(inputs))?;
        self.sampler.run(&dims)?;
        let scores = sampler::read_scores(&self.sampler, &settings, 1).await?;
        let of = |rows: &Vec<usize>| {
            rows.iter()
                .map(|row| scores[*row].clone())
                .collect::<Option<_>>()
        };
        Ok(of_sequence
            .iter()
            .zip(top_n)
            .map(|(rows, top)| of(rows).filter(|_| *top > 0))
            .collect())
    }
}
