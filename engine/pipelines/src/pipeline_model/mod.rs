//! The interface between models and the generator: [`PipelineModel`], after MAX's class of that
//! name.

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

/// A model that continues token sequences. [`TextGenerator`](crate::TextGenerator) generates with
/// any type that implements this trait, including batching, sampling, stop strings,
/// log-probabilities and cancellation; the built-in decoder uses the same interface.
///
/// The generator passes each [`Batch`] of the scheduler to
/// [`prepare_initial_token_inputs`](Self::prepare_initial_token_inputs), and each further decode
/// step of the same sequences to [`prepare_next_token_inputs`](Self::prepare_next_token_inputs). It
/// passes the returned inputs to [`execute`](Self::execute), whose logits the sampler reads on the
/// device. A custom model must implement `limits`, `vocab_size` and `execute`.
pub trait PipelineModel: Any + Debug + MaybeSend {
    /// Returns the limits that the model was loaded with, such as the largest batch.
    fn limits(&self) -> &ModelLimits;

    /// Returns the size of the vocabulary, which is the number of logits per row.
    fn vocab_size(&self) -> u64;

    /// Returns whether a long prompt can be computed in parts of any size without much loss of speed. The
    /// generator then sizes the parts so that cancelling takes effect soon; by default it does.
    fn splits_prompts(&self) -> bool {
        true
    }

    /// Returns whether [`execute`](Self::execute) returns before the device has computed the step, and takes tokens that
    /// are still on the device. The generator then submits each batch before it reads the tokens of the one before, so
    /// that the device never waits for the host. By default it does not. A generator asks once, when it is created.
    ///
    /// Where a batch needs a token that the one before it samples ([`BatchSequence::awaits_token`]),
    /// [`prepare_initial_token_inputs`](Self::prepare_initial_token_inputs) sees 0 in its place. Then the generator
    /// replaces [`ModelInputs::tokens`] by a tensor of the same shape on the device, which is valid during that step; each
    /// sequence's tokens must be where [`ModelInputs::row_offsets`] says. [`ModelOutputs::logits`] must be valid until
    /// the next call of [`execute`](Self::execute).
    ///
    /// [`BatchSequence::awaits_token`]: crate::BatchSequence::awaits_token
    fn executes_asynchronously(&self) -> bool {
        false
    }

    /// Makes the inputs of a batch's first step.
    ///
    /// # Errors
    ///
    /// If the batch does not fit the model's limits.
    fn prepare_initial_token_inputs(&self, batch: &Batch) -> Result<ModelInputs, PipelineError> {
        ModelInputs::new(batch, self.limits())
    }

    /// Makes the inputs of the next decode step, with one token for each sequence of the batch.
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

    /// Runs one step. It need not wait for the device, because outputs are read in submission
    /// order.
    ///
    /// # Errors
    ///
    /// If the inputs exceed the model's limits or the device fails.
    fn execute<'a>(
        &'a mut self,
        inputs: &'a ModelInputs,
    ) -> BoxFuture<'a, Result<ModelOutputs, PipelineError>>;

    /// Returns the device memory that the sampler may use in place. By default there is none, and
    /// logits and sampled tokens are copied.
    fn sampling_buffers(&self) -> SamplingBuffers {
        SamplingBuffers::default()
    }

    /// Returns the loaded low-rank adapters; `None` if the model was loaded without adapter slots.
    fn lora_manager(&self) -> Option<&LoraManager> {
        None
    }

    /// Loads an adapter under a name. `cache_salt` keeps its sequences from sharing KV pages with
    /// others; `in_use` returns whether a running sequence uses the adapter in a slot.
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

    /// Unloads the adapter of a name. Running requests that use it continue to do so.
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

    /// Returns the buffers through which several devices synchronise; empty for one device.
    fn signal_buffers(&self) -> &[Buffer] {
        &[]
    }

    /// Returns the log-probabilities of tokens after a step: for each sequence of the batch, that
    /// of its next token and, with `echo`, those of its own tokens from the second on, whose logits
    /// the batch must have requested. Each comes with those of the `top_n` most probable tokens at
    /// that position. A sequence with `top_n` 0 gets `None`.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Batch`] if a list does not have one entry per sequence, an entry of `top_n`
    /// exceeds [`MAX_TOP`](crate::log_probabilities::MAX_TOP), a token is not in the vocabulary, or
    /// logits are missing; the device's error if reading fails.
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

/// A model that is loaded from a checkpoint. The functions are the class methods of MAX's
/// `PipelineModel`.
///
/// [`DecoderModel`](crate::DecoderModel) generates, [`TextEncoder`](crate::TextEncoder) encodes.
pub trait CheckpointModel: Sized {
    /// Compiles a model for a session's device and loads its weights. `progress` is called with the
    /// number of bytes loaded so far and in total.
    ///
    /// # Errors
    ///
    /// If the files contradict each other, or the device does not have enough memory.
    fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<OnProgress<'_>>,
    ) -> impl Future<Output = Result<Self, PipelineError>>;

    /// Returns the length of the longest sequence that the configuration requests, in tokens.
    ///
    /// # Errors
    ///
    /// If that is more than the model was trained for.
    fn calculate_max_seq_len(
        config: &PipelineConfig,
        files: &ModelFiles,
    ) -> Result<u64, ConfigError> {
        // The length does not depend on the device.
        let limits = config.limits(&files.model_spec.spec, &Capabilities::HOST)?;
        Ok(limits.max_length)
    }

    /// Returns the number of bytes that the model would take on a device, without loading it.
    ///
    /// # Errors
    ///
    /// As [`Self::load`], as far as that does not depend on the device's memory.
    fn estimate_memory(
        target: &Capabilities,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<Footprint, PipelineError>;

    /// Returns the number of bytes that the weights take on a device.
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

    /// Returns the number of bytes that intermediate results and inputs take on a device.
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

    /// Returns the encoding of the weights; `None` if MAX has no name for it.
    fn encoding(&self) -> Option<SupportedEncoding>;

    /// Returns the element type of the weights, which is bytes for quantised weights.
    fn dtype(&self) -> Option<WeightDType> {
        Some(self.encoding()?.dtype())
    }

    /// Returns the contents of the checkpoint's `config.json`; `None` for GGUF.
    fn huggingface_config(&self) -> Option<&Value>;
}
