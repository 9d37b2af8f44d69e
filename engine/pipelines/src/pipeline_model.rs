//! What every model of a pipeline can do, whatever runs it: MAX's `PipelineModel`.

use std::future::Future;

use serde_json::Value;

use wisp_compiler::Footprint;
use wisp_device::Buffer;
use wisp_session::InferenceSession;
use wisp_types::Capabilities;

use super::{
    Adapter, ConfigError, LogProbabilities, LoraManager, ModelLimits, PipelineConfig,
    PipelineError, SupportedEncoding, WeightDType, model_files::ModelFiles,
};

/// A sequence's part of a batch: tokens that come after what its cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceInputs<'a> {
    /// The sequence's place in the batch, below `max_batch`. It keeps it as long as it lives: layers
    /// with a window keep their keys and values by it.
    pub slot: u32,
    /// The position of the first token.
    pub start: u32,
    /// The tokens.
    pub tokens: &'a [u32],
    /// The pages of its cache, in the order of the positions; enough for all of them.
    pub pages: &'a [u32],
}

/// A ragged batch: the tokens of several sequences, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenInputs {
    /// `[tokens]`.
    pub tokens: Vec<u32>,
    /// `[tokens, 2]`: sequence and position of each token.
    pub index: Vec<[u32; 2]>,
    /// `[logit_rows]`: tokens whose logits are wanted.
    pub logit_rows: Vec<u32>,
    /// `[batch, pages_per_sequence]`.
    pub page_table: Vec<u32>,
    /// `[up to batch]`: which adapter each sequence has, counted from 1, or 0; what is missing is 0.
    pub adapters: Vec<u32>,
}

impl TokenInputs {
    /// Gives the sequence in a slot an adapter, or none.
    pub fn adapt(&mut self, slot: u32, adapter: Option<Adapter>) {
        let slot = slot as usize;
        if self.adapters.len() <= slot {
            self.adapters.resize(slot + 1, 0);
        }
        self.adapters[slot] = adapter.map_or(0, |adapter| adapter.slot + 1);
    }

    /// Where each sequence's tokens begin, and where the last one's end: `[sequences + 1]`.
    pub fn offsets(&self) -> Vec<usize> {
        let slots: Vec<u32> = self.index.iter().map(|[slot, _]| *slot).collect();
        let begins = |at: &usize| *at == 0 || slots[*at] != slots[*at - 1];
        let mut offsets: Vec<usize> = (0..slots.len()).filter(begins).collect();
        offsets.push(slots.len());
        offsets
    }

    /// Adds a sequence's tokens, of which the last `logits` tell their logits; `stride`: entries of
    /// the page table for each sequence.
    pub(super) fn push(&mut self, sequence: SequenceInputs<'_>, logits: usize, stride: usize) {
        let positions = sequence.start..sequence.start + sequence.tokens.len() as u32;
        self.tokens.extend(sequence.tokens);
        self.index.extend(positions.map(|at| [sequence.slot, at]));
        let end = self.tokens.len();
        let rows = end - logits.min(sequence.tokens.len())..end;
        self.logit_rows.extend(rows.map(|row| row as u32));
        let row = sequence.slot as usize * stride;
        let entries = self.page_table.iter_mut().skip(row).take(stride);
        for (entry, page) in entries.zip(sequence.pages) {
            *entry = *page;
        }
    }
}

/// What a model computed of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelOutputs {
    /// `[logit_rows, vocab]`; nothing from an encoder.
    pub logits: Vec<f32>,
    /// `[sequences + 1]`: which rows of the logits are each sequence's.
    pub logit_offsets: Vec<u32>,
    /// As [`ReturnHiddenStates`] says.
    pub hidden_states: Option<Vec<f32>>,
}

/// A model with its inputs' preparation, its execution and its estimates, as MAX's class of that name.
///
/// [`DecoderModel`](super::DecoderModel) generates, [`TextEncoder`](super::TextEncoder) encodes.
pub trait PipelineModel: Sized {
    /// Compiles a model's files for a session's device and loads the weights; `progress` hears of
    /// the bytes loaded so far and in all.
    ///
    /// # Errors
    ///
    /// If the files do not fit together, or the device has not enough memory.
    fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<&(dyn Fn(u64, u64) + Send + Sync)>,
    ) -> impl Future<Output = Result<Self, PipelineError>>;

    /// The longest sequence: what the configuration asks for.
    ///
    /// # Errors
    ///
    /// If that is more than the model can.
    fn calculate_max_seq_len(
        config: &PipelineConfig,
        files: &ModelFiles,
    ) -> Result<u64, ConfigError> {
        Ok(config.limits(&files.model_spec.spec)?.max_length)
    }

    /// Bytes that a model would take on a device, without loading it.
    ///
    /// # Errors
    ///
    /// As [`Self::load`], as far as that does not depend on the device's memory.
    fn estimate_memory(
        target: &Capabilities,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<Footprint, PipelineError>;

    /// Bytes of weights that a model would have on a device.
    ///
    /// # Errors
    ///
    /// As [`Self::estimate_memory`].
    fn estimate_weights_size(
        target: &Capabilities,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<u64, PipelineError> {
        Ok(Self::estimate_memory(target, files, limits)?.weights)
    }

    /// Bytes of intermediate results and inputs that a model would have on a device.
    ///
    /// # Errors
    ///
    /// As [`Self::estimate_memory`].
    fn estimate_activation_memory(
        target: &Capabilities,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<u64, PipelineError> {
        Ok(Self::estimate_memory(target, files, limits)?.working)
    }

    /// The encoding of the weights; `None`: one that has no name among MAX's.
    fn encoding(&self) -> Option<SupportedEncoding>;

    /// The numbers that the weights are made of: bytes, where they are quantised.
    fn dtype(&self) -> Option<WeightDType> {
        Some(self.encoding()?.dtype())
    }

    /// The checkpoint's `config.json`; `None` if it is in GGUF.
    fn huggingface_config(&self) -> Option<&Value>;

    /// The adapters, if the model has room for them.
    fn lora_manager(&self) -> Option<&LoraManager> {
        None
    }

    /// Memory through which devices signal each other. None, as long as a model runs on one.
    fn signal_buffers(&self) -> &[Buffer] {
        &[]
    }

    /// The inputs of sequences that begin or go on. Of each one's tokens the last, the last
    /// `return_n_logits`, or all tell their logits, as the model's [`ReturnLogits`] says.
    fn prepare_initial_token_inputs(
        &self,
        batch: &[SequenceInputs<'_>],
        return_n_logits: usize,
    ) -> TokenInputs;

    /// The inputs that follow a batch: one token for each of its sequences, in its order.
    ///
    /// # Errors
    ///
    /// If there are more or fewer tokens than sequences.
    fn prepare_next_token_inputs(
        &self,
        next_tokens: &[u32],
        previous: &TokenInputs,
    ) -> Result<TokenInputs, PipelineError> {
        let ends: Vec<usize> = previous.offsets().split_off(1);
        if ends.len() != next_tokens.len() {
            return Err(PipelineError::Batch);
        }
        let after = |end: &usize| previous.index[*end - 1];
        Ok(TokenInputs {
            tokens: next_tokens.to_vec(),
            index: ends
                .iter()
                .map(after)
                .map(|[slot, at]| [slot, at + 1])
                .collect(),
            logit_rows: (0..ends.len() as u32).collect(),
            page_table: previous.page_table.clone(),
            adapters: previous.adapters.clone(),
        })
    }

    /// Runs a batch.
    ///
    /// # Errors
    ///
    /// If the batch exceeds the model's limits or the device fails.
    fn execute(
        &mut self,
        inputs: &TokenInputs,
    ) -> impl Future<Output = Result<ModelOutputs, PipelineError>>;

    /// The log-probabilities of the tokens of a batch that [`Self::execute`] has just run: for each
    /// sequence of the batch, in its order, those of `next_tokens` (one each) and, with `echo`, of
    /// its tokens from the second on, whose logits the batch must have asked for; `top_n` likeliest
    /// tokens at each place, and nothing where that is 0.
    ///
    /// Only these come back from the device.
    ///
    /// # Errors
    ///
    /// If the lists are not as long as the batch has sequences, a number is too great, logits are
    /// missing, or the device fails.
    fn compute_log_probabilities(
        &mut self,
        inputs: &TokenInputs,
        next_tokens: &[u32],
        top_n: &[u32],
        echo: &[bool],
    ) -> impl Future<Output = Result<Vec<Option<LogProbabilities>>, PipelineError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_ragged() {
        let mut inputs = TokenInputs {
            page_table: vec![0; 6],
            ..Default::default()
        };
        assert_eq!(inputs.offsets(), [0]);
        let first = SequenceInputs {
            slot: 2,
            start: 5,
            tokens: &[7, 8, 9],
            pages: &[4, 3],
        };
        inputs.push(first, 2, 2);
        let second = SequenceInputs {
            slot: 0,
            start: 0,
            tokens: &[1],
            pages: &[5, 6, 7],
        };
        inputs.push(second, 9, 2);
        assert_eq!(inputs.tokens, [7, 8, 9, 1]);
        assert_eq!(inputs.index, [[2, 5], [2, 6], [2, 7], [0, 0]]);
        assert_eq!(inputs.logit_rows, [1, 2, 3]);
        assert_eq!(inputs.page_table, [5, 6, 0, 0, 4, 3]);
        assert_eq!(inputs.offsets(), [0, 3, 4]);
    }
}
