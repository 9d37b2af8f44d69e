//! What a model does for the generator: the trait [`PipelineModel`], after MAX's class of that name.

mod inputs;
mod log_probabilities;

use std::{any::Any, fmt::Debug};

use serde_json::Value;
use wisp_compiler::Footprint;
use wisp_device::Buffer;
use wisp_session::{InferenceSession, OnProgress};
use wisp_types::{BoxFuture, Capabilities, MaybeSend};

pub use inputs::{ModelInputs, ModelOutputs, NextTokens, SamplingBuffers};

use crate::{
    Adapter, AdapterFiles, Batch, ConfigError, LogProbabilities, LoraError, LoraManager,
    ModelFiles, ModelLimits, PipelineConfig, PipelineError, SupportedEncoding, WeightDType,
};

/// A model that continues token sequences: whatever implements this trait generates, with batches,
/// sampling, stop strings, log-probabilities and cancellation, through
/// [`TextGenerator`](crate::TextGenerator). The built-in decoder has no other way in.
///
/// The generator hands each [`Batch`] of the scheduler to
/// [`prepare_initial_token_inputs`](Self::prepare_initial_token_inputs), and each further decode step of
/// the same batch to [`prepare_next_token_inputs`](Self::prepare_next_token_inputs); what they return
/// goes to [`execute`](Self::execute), whose logits the sampler reads on the device. A model of one's
/// own implements `limits`, `vocab_size` and `execute`.
pub trait PipelineModel: Any + Debug + MaybeSend {
    /// The sizes that the model was made for.
    fn limits(&self) -> &ModelLimits;

    /// The number of logits of a token.
    fn vocab_size(&self) -> u64;

    /// Turns a batch into inputs.
    ///
    /// # Errors
    ///
    /// If the batch does not fit the model's limits.
    fn prepare_initial_token_inputs(&self, batch: &Batch) -> Result<ModelInputs, PipelineError> {
        ModelInputs::new(batch, self.limits())
    }

    /// The inputs of the decode step that follows: one token for each sequence of the batch.
    ///
    /// # Errors
    ///
    /// If there are more or fewer tokens than sequences.
    fn prepare_next_token_inputs(
        &self,
        next_tokens: &NextTokens,
        previous: ModelInputs,
    ) -> Result<ModelInputs, PipelineError> {
        previous.followed_by(next_tokens)
    }

    /// Runs one step. It need not wait for the device: the outputs are read after what was submitted.
    ///
    /// # Errors
    ///
    /// If the inputs exceed the model's limits or the device fails.
    fn execute<'a>(
        &'a mut self,
        inputs: &'a ModelInputs,
    ) -> BoxFuture<'a, Result<ModelOutputs, PipelineError>>;

    /// Device memory that the sampler may use in place: without it logits and sampled tokens are copied.
    fn sampling_buffers(&self) -> SamplingBuffers {
        SamplingBuffers::default()
    }

    /// The loaded low-rank adapters; `None` where the model has no room for any.
    fn lora_manager(&self) -> Option<&LoraManager> {
        None
    }

    /// Loads an adapter under a name. `cache_salt` keeps its sequences from sharing pages with others;
    /// `in_use` tells whether a running sequence has the adapter of a slot.
    ///
    /// # Errors
    ///
    /// If the name is taken, no slot is free, the adapter does not fit the model, or the device fails.
    fn load_adapter(
        &mut self,
        name: &str,
        files: &AdapterFiles,
        cache_salt: u64,
        in_use: &dyn Fn(u32) -> bool,
    ) -> Result<Adapter, LoraError> {
        let _ = (name, files, cache_salt, in_use);
        Err(LoraError::Disabled)
    }

    /// Forgets the name of an adapter. Requests that have it keep it.
    ///
    /// # Errors
    ///
    /// If no adapter of that name is loaded.
    fn unload_adapter(&mut self, name: &str) -> Result<(), LoraError> {
        Err(LoraError::Nonexistent {
            name: name.into(),
            loaded: Vec::new(),
        })
    }

    /// Memory through which several devices signal each other; none while a model runs on one.
    fn signal_buffers(&self) -> &[Buffer] {
        &[]
    }

    /// The log-probabilities of tokens after a step: for each sequence of the batch those of its next
    /// token and, with `echo`, of its own tokens from the second on, whose logits the batch must have
    /// asked for; `top_n` of the likeliest tokens at each place. A sequence with `top_n` 0 gets `None`.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Batch`] if a list is not as long as the batch has sequences, a number exceeds
    /// [`MAX_TOP`](crate::log_probabilities::MAX_TOP) or the vocabulary, or logits are missing; the
    /// device's error if reading fails.
    fn compute_log_probabilities<'a>(
        &'a self,
        inputs: &'a ModelInputs,
        outputs: &'a ModelOutputs,
        next_tokens: &'a [u32],
        top_n: &'a [u32],
        echo: &'a [bool],
    ) -> BoxFuture<'a, Result<Vec<Option<LogProbabilities>>, PipelineError>> {
        Box::pin(log_probabilities::compute(
            inputs,
            outputs,
            next_tokens,
            top_n,
            echo,
        ))
    }
}

/// A model that is loaded from a checkpoint: MAX's class methods of `PipelineModel`.
///
/// [`DecoderModel`](crate::DecoderModel) generates, [`TextEncoder`](crate::TextEncoder) encodes.
pub trait CheckpointModel: Sized {
    /// Compiles a model's files for a session's device and loads the weights; `progress` is called with
    /// the bytes loaded so far and in all.
    ///
    /// # Errors
    ///
    /// If the files do not fit together, or the device has not enough memory.
    fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<OnProgress<'_>>,
    ) -> impl Future<Output = Result<Self, PipelineError>>;

    /// The longest sequence: what the configuration asks for.
    ///
    /// # Errors
    ///
    /// If that is more than the model was trained for.
    fn calculate_max_seq_len(
        config: &PipelineConfig,
        files: &ModelFiles,
    ) -> Result<u64, ConfigError> {
        Ok(config.limits(&files.model_spec.spec)?.max_length)
    }

    /// Bytes that the model would take on a device, without loading it.
    ///
    /// # Errors
    ///
    /// As [`Self::load`], as far as that does not depend on the device's memory.
    fn estimate_memory(
        target: &Capabilities,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<Footprint, PipelineError>;

    /// Bytes of the weights on a device.
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

    /// Bytes of intermediate results and inputs on a device.
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

    /// The encoding of the weights; `None` where MAX has no name for it.
    fn encoding(&self) -> Option<SupportedEncoding>;

    /// The element type of the weights: bytes, where they are quantised.
    fn dtype(&self) -> Option<WeightDType> {
        Some(self.encoding()?.dtype())
    }

    /// The checkpoint's `config.json`; `None` for GGUF.
    fn huggingface_config(&self) -> Option<&Value>;
}
