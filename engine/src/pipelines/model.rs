//! A checkpoint on a device: the decoder's program, the sampler's, and the KV cache.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    compiler::Footprint,
    device::Capabilities,
    session::{CompiledModel, Dims, InferenceSession, InitOptions, Model, SessionError},
    weights::{Views, WeightSource},
};

use wisp_shaders::params::IN_PROMPT;

use super::{
    PipelineError, SupportedEncoding,
    decoder::{self, DecoderError, DecoderLayout, DecoderSpec, TensorNames},
    pipeline_model::{ReturnHiddenStates, ReturnLogits, TokenInputs},
    request::Sequence,
    sampler,
};

mod execute;
mod step;

/// Sizes that a model is made for. They decide how much memory it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// Tokens of one sequence, prompt and generated ones.
    pub max_length: u64,
    /// Sequences at the same time.
    pub max_batch: u64,
    /// Sequences whose prompts go through the model in one step.
    pub max_prefill: u64,
    /// Tokens in one step.
    pub max_step_tokens: u64,
    /// Tokens in one step whose logits are wanted; at least `max_batch`.
    pub max_logit_rows: u64,
    /// Positions in a page of the KV cache.
    pub page_size: u32,
    /// Pages of the KV cache; 0: enough for `max_batch` sequences of `max_length`.
    pub pages: u64,
    /// Decode steps in one submission.
    pub max_steps: u64,
    /// Bytes of device memory that the model may take; 0: as many as there are.
    pub memory: u64,
    /// Sequences share the pages of equal beginnings.
    pub prefix_caching: bool,
    /// Tokens of which logits are computed.
    pub return_logits: ReturnLogits,
    /// Hidden states that are returned.
    pub return_hidden_states: ReturnHiddenStates,
}

impl Default for ModelLimits {
    fn default() -> ModelLimits {
        ModelLimits {
            max_length: 2048,
            max_batch: 1,
            max_prefill: 32,
            max_step_tokens: 512,
            max_logit_rows: 1,
            page_size: 32,
            pages: 0,
            max_steps: 8,
            memory: 0,
            prefix_caching: false,
            return_logits: ReturnLogits::LastToken,
            return_hidden_states: ReturnHiddenStates::None,
        }
    }
}

impl ModelLimits {
    /// Pages that one sequence may own.
    pub fn pages_per_sequence(&self) -> u64 {
        self.max_length.div_ceil(self.page_size.max(1).into())
    }

    /// Pages of the whole cache.
    pub fn total_pages(&self) -> u64 {
        if self.pages > 0 {
            self.pages
        } else {
            self.pages_per_sequence() * self.max_batch
        }
    }
}

/// A decoder on a device, ready to run ragged batches.
#[derive(Debug)]
pub struct DecoderModel {
    spec: DecoderSpec,
    limits: ModelLimits,
    decoder: Model,
    sampler: Model,
    /// The page table that is on the device.
    page_table: Vec<u32>,
    /// The checkpoint's `config.json`.
    config: Option<Value>,
    /// The encoding of the weights.
    encoding: Option<SupportedEncoding>,
}

impl DecoderModel {
    /// Compiles the decoder of a checkpoint for a session's device and loads its weights.
    ///
    /// # Errors
    ///
    /// If the checkpoint does not fit the spec, or the device has not enough memory.
    async fn load_parts(
        session: &InferenceSession,
        spec: DecoderSpec,
        names: &TensorNames,
        weights: &dyn WeightSource,
        limits: ModelLimits,
        progress: Option<&(dyn Fn(u64, u64) + Send + Sync)>,
    ) -> Result<DecoderModel, PipelineError> {
        let capabilities = &session.device().info().capabilities;
        let limits = fit(capabilities, &spec, limits)?;
        let mut weights = Views::new(weights);
        let compiled = compile(capabilities, &spec, names, &mut weights, limits)?;
        let sampling = session.compile(&sampler::build(spec.vocab_size)?)?;
        check_memory(&spec, limits, footprint(&compiled, &sampling, limits))?;
        let options = InitOptions {
            max_dims: max_dims(limits),
            progress,
            ..Default::default()
        };
        let decoder = session.init(&compiled, &weights, options).await?;
        let mut shared = HashMap::new();
        for name in SHARED {
            shared.insert(name.to_string(), decoder.buffer(name)?.clone());
        }
        let options = InitOptions {
            max_dims: max_dims(limits),
            shared,
            ..Default::default()
        };
        let sampler = session.init(&sampling, &weights, options).await?;
        Ok(DecoderModel {
            spec,
            limits,
            decoder,
            sampler,
            page_table: Vec::new(),
            config: None,
            encoding: None,
        })
    }

    /// What a checkpoint, would take on a device, without loading it.
    ///
    /// # Errors
    ///
    /// As [`Self::load_parts`], as far as that does not depend on the device's memory.
    fn estimate_parts(
        target: &Capabilities,
        spec: &DecoderSpec,
        names: &TensorNames,
        weights: &dyn WeightSource,
        limits: ModelLimits,
    ) -> Result<Footprint, PipelineError> {
        let limits = fit(target, spec, limits)?;
        let decoder = compile(target, spec, names, &mut Views::new(weights), limits)?;
        let sampler = sampler::build(spec.vocab_size)?;
        let sampler = InferenceSession::compile_for(&sampler, target)?;
        Ok(footprint(&decoder, &sampler, limits))
    }

    /// What the decoder is.
    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    /// The sizes it was made for.
    pub fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    /// Kernel calls for one token: the decoder's and the sampler's.
    pub fn dispatches_per_token(&self) -> usize {
        self.decoder.dispatches_per_run() + self.sampler.dispatches_per_run()
    }

    /// The decoder's program on its device.
    pub fn decoder(&self) -> &Model {
        &self.decoder
    }

    /// Checks that no index leads a kernel outside its memory, then writes the inputs.
    fn write(&mut self, inputs: &TokenInputs) -> Result<Dims, PipelineError> {
        let limits = &self.limits;
        if let Some(token) = inputs
            .tokens
            .iter()
            .find(|token| u64::from(**token) >= self.spec.vocab_size)
        {
            return Err(PipelineError::UnknownToken {
                token: *token,
                vocab_size: self.spec.vocab_size,
            });
        }
        let sound = inputs.index.len() == inputs.tokens.len()
            && inputs.index.iter().all(|[slot, at]| {
                u64::from(*slot) < limits.max_batch && u64::from(*at) < limits.max_length
            })
            && inputs
                .logit_rows
                .iter()
                .all(|row| (*row as usize) < inputs.tokens.len())
            && inputs
                .page_table
                .iter()
                .all(|page| u64::from(*page) < limits.total_pages());
        if !sound {
            return Err(PipelineError::Batch);
        }
        self.decoder.write("tokens", &inputs.tokens)?;
        self.decoder.write("index", &inputs.index)?;
        self.decoder.write("logit_rows", &inputs.logit_rows)?;
        if self.page_table != inputs.page_table {
            self.decoder.write("page_table", &inputs.page_table)?;
            self.page_table.clone_from(&inputs.page_table);
        }
        Ok(self.decoder.dims(&self.sizes(inputs))?)
    }

    fn sizes(&self, inputs: &TokenInputs) -> [(&'static str, u64); 6] {
        [
            ("tokens", inputs.tokens.len() as u64),
            ("batch", self.limits.max_batch),
            ("max_pages", self.limits.pages_per_sequence()),
            ("logit_rows", inputs.logit_rows.len() as u64),
            ("pages", self.limits.total_pages()),
            ("draws", draws(self.limits)),
        ]
    }

    /// Sets up the device's state of a sequence that begins to run, as far as its sampling needs any.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn begin(&self, sequence: &Sequence) -> Result<(), SessionError> {
        let (slot, sampling) = (u64::from(sequence.slot), &sequence.sampling);
        if sampling.penalises() {
            let vocab = self.spec.vocab_size;
            let mut counts = vec![0u32; vocab as usize];
            for (at, token) in sequence.tokens.iter().enumerate() {
                match counts.get_mut(*token as usize) {
                    Some(count) if at < sequence.prompt_tokens => *count |= IN_PROMPT,
                    Some(count) => *count += 1,
                    None => {}
                }
            }
            self.sampler.write_at("counts", slot * vocab, &counts)?;
        }
        self.sampler
            .write_at("biases", slot * sampler::MAX_BIASES, &sampling.biases())
    }
}

/// What the sampler has from the decoder: its logits, and the inputs that it writes for the next step.
const SHARED: [&str; 3] = ["logits", "tokens", "index"];

/// Tokens that one submission may draw or score.
fn draws(limits: ModelLimits) -> u64 {
    let decoded = limits.max_steps.max(1).saturating_mul(limits.max_batch);
    decoded.max(limits.max_logit_rows)
}

/// The largest sizes of the programs' symbolic dimensions.
pub(super) fn max_dims(limits: ModelLimits) -> HashMap<String, u64> {
    HashMap::from([
        ("tokens".to_string(), limits.max_step_tokens),
        ("batch".to_string(), limits.max_batch),
        ("max_pages".to_string(), limits.pages_per_sequence()),
        ("logit_rows".to_string(), limits.max_logit_rows),
        ("pages".to_string(), limits.total_pages()),
        ("draws".to_string(), draws(limits)),
    ])
}

/// What decoder and sampler take together.
fn footprint(decoder: &CompiledModel, sampler: &CompiledModel, limits: ModelLimits) -> Footprint {
    let dims = max_dims(limits);
    let decoder = decoder.program().footprint(&dims, &[]);
    decoder.and(sampler.program().footprint(&dims, &SHARED))
}

/// Refuses a model that needs more memory than it may take, and says what to change.
fn check_memory(
    spec: &DecoderSpec,
    limits: ModelLimits,
    needs: Footprint,
) -> Result<(), PipelineError> {
    let memory = limits.memory;
    if memory == 0 || needs.total() <= memory {
        return Ok(());
    }
    // The cache's workspace is what weights and intermediate results leave.
    let workspace = memory.saturating_sub(needs.total() - needs.buffers);
    let per_position = spec
        .kv_bytes_per_position()
        .max(1)
        .saturating_mul(limits.max_batch);
    let mut positions = workspace / per_position;
    if u64::from(limits.page_size) < limits.max_length {
        positions -= positions % u64::from(limits.page_size.max(1));
    }
    let advice = match positions {
        0 => {
            "use a model with fewer or smaller weights (such as q4_k), a smaller --prefill-chunk, \
              another --device, or more of the memory (--gpu-memory-utilization)"
                .into()
        }
        positions => format!(
            "use --max-length {positions} or less, fewer sequences at a time, or more of the memory \
             (--gpu-memory-utilization)"
        ),
    };
    Err(PipelineError::DoesNotFit {
        needs,
        memory,
        advice,
    })
}

/// Limits that the device and the model can keep: a binding must hold a layer's cache and the logits.
fn fit(
    capabilities: &Capabilities,
    spec: &DecoderSpec,
    limits: ModelLimits,
) -> Result<ModelLimits, PipelineError> {
    // The arithmetic below relies on sizes that are neither zero nor huge.
    spec.check().map_err(DecoderError::Spec)?;
    if spec.encoder.is_some() {
        return Err(DecoderError::Spec("an encoder computes no logits".into()).into());
    }
    let mut limits = limits;
    limits.max_length = limits.max_length.clamp(1, spec.max_positions.max(1));
    limits.max_batch = limits.max_batch.max(1);
    limits.max_logit_rows = limits.max_logit_rows.max(limits.max_batch);
    limits.max_step_tokens = limits.max_step_tokens.max(limits.max_logit_rows);
    // Some kernels have a row of workgroups for each token, or for each of its experts.
    let rows_per_token = spec
        .moe
        .as_ref()
        .map_or(1, |moe| moe.experts_per_token.max(1));
    let most_tokens = u64::from((capabilities.max_workgroups / rows_per_token).max(1));
    limits.max_step_tokens = limits.max_step_tokens.min(most_tokens);
    limits.max_batch = limits.max_batch.min(most_tokens);
    limits.max_logit_rows = limits.max_logit_rows.min(most_tokens);
    let page_bytes = spec.kv_row_bytes().saturating_mul(limits.page_size.into());
    let most = capabilities
        .max_binding_bytes
        .min(capabilities.max_buffer_bytes)
        / page_bytes.max(1);
    if limits.total_pages() > most {
        let positions = most * u64::from(limits.page_size) / limits.max_batch;
        return Err(PipelineError::CacheTooLarge {
            max_length: limits.max_length,
            max_batch: limits.max_batch,
            positions,
        });
    }
    // Logits of many rows must fit one binding too.
    let rows = (capabilities.max_binding_bytes / (spec.vocab_size * 4)).max(1);
    limits.max_logit_rows = limits.max_logit_rows.min(rows);
    limits.max_batch = limits.max_batch.min(rows);
    Ok(limits)
}

/// Compiles a checkpoint's decoder or encoder: its tensors' names, shapes and encodings are read, not its weights.
pub(super) fn compile(
    target: &Capabilities,
    spec: &DecoderSpec,
    names: &TensorNames,
    weights: &mut Views<'_>,
    limits: ModelLimits,
) -> Result<CompiledModel, PipelineError> {
    let layout = DecoderLayout {
        page_size: limits.page_size,
        max_length: limits.max_length,
        hidden_states: limits.return_hidden_states,
    };
    let graph = decoder::build(spec, names, weights, layout)?;
    Ok(InferenceSession::compile_for(&graph, target)?)
}
