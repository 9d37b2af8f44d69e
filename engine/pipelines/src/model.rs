//! A checkpoint on a device: the decoder's program, the sampler's, and the KV cache.

use std::collections::HashMap;

use serde_json::Value;

use wisp_compiler::Footprint;
use wisp_graph::Graph;
use wisp_session::{CompiledModel, Dims, InferenceSession, InitOptions, Model, SessionError};
use wisp_types::Capabilities;
use wisp_weights::{Views, WeightSource};

use super::{
    PipelineError, SupportedEncoding,
    decoder_graph::{self, DecoderError, DecoderLayout},
    limits::ModelLimits,
    lora::LoraManager,
    pipeline_model::TokenInputs,
    request::Sequence,
    sampler, size,
    spec::{DecoderSpec, TensorNames},
    window_rings::WindowRings,
};

mod execute;
mod lora;
mod step;

/// A decoder on a device, ready to run ragged batches.
#[derive(Debug)]
pub struct DecoderModel {
    spec: DecoderSpec,
    limits: ModelLimits,
    rings: Option<WindowRings>,
    decoder: Model,
    sampler: Model,
    /// The page table that is on the device.
    page_table: Vec<u32>,
    /// The sequences' adapters that are on the device.
    adapters: Vec<u32>,
    /// The adapters that are loaded.
    loras: Option<LoraManager>,
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
        let rings = WindowRings::of(&spec, &limits);
        let mut weights = Views::new(weights);
        let compiled = session.compile(&graph(&spec, names, &mut weights, limits)?)?;
        let sampling = session.compile(&sampler::build(spec.vocab_size)?)?;
        let needs = footprint(&compiled, &sampling, limits, rings);
        let limits = fit_memory(&spec, limits, rings, needs)?;
        let options = InitOptions {
            max_dims: all_dims(limits, rings),
            progress,
            ..Default::default()
        };
        let decoder = session.init(&compiled, &weights, options).await?;
        let mut shared = HashMap::new();
        for name in SHARED {
            shared.insert(name.to_string(), decoder.buffer(name)?.clone());
        }
        if let Some(rings) = rings {
            decoder.write("window_table", &rings.table(&limits))?;
        }
        let options = InitOptions {
            max_dims: all_dims(limits, rings),
            shared,
            ..Default::default()
        };
        let sampler = session.init(&sampling, &weights, options).await?;
        Ok(DecoderModel {
            spec,
            limits,
            rings,
            decoder,
            sampler,
            page_table: Vec::new(),
            adapters: Vec::new(),
            loras: None,
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
        let rings = WindowRings::of(spec, &limits);
        Ok(footprint(&decoder, &sampler, limits, rings))
    }

    /// What the decoder is.
    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    /// The sizes it was made for.
    pub fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    /// Where its layers with a window keep it, if not whole texts.
    pub fn rings(&self) -> Option<WindowRings> {
        self.rings
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
                .all(|page| u64::from(*page) < limits.total_pages())
            && inputs.adapters.len() as u64 <= limits.max_batch
            && inputs
                .adapters
                .iter()
                .all(|adapter| u64::from(*adapter) <= limits.max_num_loras);
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
        if limits.max_num_loras > 0 {
            let mut adapters = inputs.adapters.clone();
            adapters.resize(limits.max_batch as usize, 0);
            if self.adapters != adapters {
                self.decoder.write("adapters", &adapters)?;
                self.adapters = adapters;
            }
        }
        Ok(self.decoder.dims(&self.sizes(inputs))?)
    }

    fn sizes(&self, inputs: &TokenInputs) -> Vec<(&'static str, u64)> {
        let mut sizes = vec![
            ("tokens", inputs.tokens.len() as u64),
            ("batch", self.limits.max_batch),
            ("max_pages", self.limits.pages_per_sequence()),
            ("logit_rows", inputs.logit_rows.len() as u64),
            ("pages", self.limits.total_pages()),
            ("draws", draws(self.limits)),
        ];
        sizes.extend(self.rings.iter().flat_map(|rings| rings.dims(&self.limits)));
        sizes
    }

    /// Sets up the device's state of a sequence that begins to run, as far as its sampling needs any.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn begin(&self, sequence: &Sequence) -> Result<(), SessionError> {
        sampler::begin(
            &self.sampler,
            self.spec.vocab_size,
            sequence.slot,
            (&sequence.tokens, sequence.prompt_tokens),
            &sequence.sampling,
        )
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

/// [`max_dims`], also of a decoder with rings.
fn all_dims(limits: ModelLimits, rings: Option<WindowRings>) -> HashMap<String, u64> {
    let own = rings.iter().flat_map(|rings| rings.dims(&limits));
    let own = own.map(|(name, size)| (name.to_string(), size));
    max_dims(limits).into_iter().chain(own).collect()
}

/// What decoder and sampler take together.
fn footprint(
    decoder: &CompiledModel,
    sampler: &CompiledModel,
    limits: ModelLimits,
    rings: Option<WindowRings>,
) -> Footprint {
    let dims = all_dims(limits, rings);
    let decoder = decoder.program().footprint(&dims, &[]);
    decoder.and(sampler.program().footprint(&dims, &SHARED))
}

/// Bytes of the KV cache that are there however many pages there are, and those of a position.
fn cache_bytes(spec: &DecoderSpec, limits: ModelLimits, rings: Option<WindowRings>) -> [u64; 2] {
    let layer = 2 * spec.kv_row_bytes(limits.cache_format);
    let windowed = spec.layers.iter().filter(|layer| layer.window.is_some());
    let (ringed, positions) = rings.map_or((0, 0), |rings| {
        let positions = rings.positions().saturating_mul(limits.max_batch);
        (windowed.count(), positions)
    });
    let of = |layers: usize| layer.saturating_mul(layers as u64);
    let whole = spec.layers.len() - ringed;
    [of(ringed).saturating_mul(positions), of(whole)]
}

/// Limits that keep to the memory that a model may take: a cache of pages becomes smaller, down to
/// what one sequence needs. Else the error says what to change.
fn fit_memory(
    spec: &DecoderSpec,
    limits: ModelLimits,
    rings: Option<WindowRings>,
    needs: Footprint,
) -> Result<ModelLimits, PipelineError> {
    let memory = limits.memory;
    if memory == 0 || needs.total() <= memory {
        return Ok(limits);
    }
    let adapters = limits.lora().map_or(0, |layout| layout.bytes(spec));
    let page_size = u64::from(limits.page_size.max(1));
    let [_, per_position] = cache_bytes(spec, limits, rings);
    let pages = limits.total_pages().saturating_mul(page_size);
    let pages = pages.saturating_mul(per_position);
    // The pages' workspace is what everything else leaves.
    let workspace = memory.saturating_sub(needs.total().saturating_sub(pages));
    let all_positions = workspace / per_position.max(1);
    let fewer = all_positions / page_size;
    if limits.is_paged() && fewer >= limits.pages_per_sequence() {
        return Ok(ModelLimits {
            pages: fewer.min(limits.total_pages()),
            ..limits
        });
    }
    let mut positions = all_positions / limits.max_batch.max(1);
    if limits.is_paged() {
        positions -= positions % page_size;
    }
    if per_position == 0 {
        positions = 0;
    }
    let advice = match positions {
        0 => {
            "use a model with fewer or smaller weights (such as q4_k), a smaller --prefill-chunk, \
              another --device, or more of the memory (--gpu-memory-utilization)"
                .into()
        }
        positions => format!(
            "use --max-length {positions} or less, fewer sequences at a time, a smaller \
             --kv-cache-format, or more of the memory (--gpu-memory-utilization)"
        ),
    };
    let advice = match adapters {
        0 => advice,
        adapters => format!(
            "{advice}; {} of the KV cache's part are for adapters (--max-num-loras, --max-lora-rank)",
            size(adapters)
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
    let binding = capabilities
        .max_binding_bytes
        .min(capabilities.max_buffer_bytes);
    let row = spec.kv_row_bytes(limits.cache_format).max(1);
    let most = binding / row.saturating_mul(limits.page_size.max(1).into());
    // Where every layer has a ring, the pages hold nothing.
    let [_, paged] = cache_bytes(spec, limits, WindowRings::of(spec, &limits));
    if paged > 0 && limits.is_paged() && most >= limits.pages_per_sequence() {
        limits.pages = limits.total_pages().min(most);
    }
    let rings = WindowRings::of(spec, &limits);
    let in_rings = rings.map_or(0, |rings| {
        rings.positions().saturating_mul(limits.max_batch)
    });
    let [_, whole] = cache_bytes(spec, limits, rings);
    if (whole > 0 && limits.total_pages() > most) || in_rings > binding / row {
        let positions = most * u64::from(limits.page_size) / limits.max_batch;
        return Err(PipelineError::CacheTooLarge {
            max_length: limits.max_length,
            max_batch: limits.max_batch,
            positions,
        });
    }
    if let Some(layout) = limits.lora() {
        decoder_graph::check_lora_buffers(layout, spec, capabilities)?;
    }
    // So must the tables of rotations, which are computed before anything else is.
    let turns = binding / (4 * u64::from(spec.rotated()).max(1));
    if !spec.ropes.is_empty() && decoder_graph::table_rows(limits.max_length) > turns {
        return Err(PipelineError::CacheTooLarge {
            max_length: limits.max_length,
            max_batch: limits.max_batch,
            positions: turns.checked_ilog2().map_or(0, |log| 1 << log),
        });
    }
    // Logits of many rows must fit one binding too.
    let rows = (capabilities.max_binding_bytes / (spec.vocab_size * 4)).max(1);
    limits.max_logit_rows = limits.max_logit_rows.min(rows);
    limits.max_batch = limits.max_batch.min(rows);
    Ok(limits)
}

/// The graphs of a decoder: its own, and the sampler's.
pub(super) fn graphs(
    target: &Capabilities,
    spec: &DecoderSpec,
    names: &TensorNames,
    weights: &dyn WeightSource,
    limits: ModelLimits,
) -> Result<Vec<Graph>, PipelineError> {
    let limits = fit(target, spec, limits)?;
    let decoder = graph(spec, names, &mut Views::new(weights), limits)?;
    Ok(vec![decoder, sampler::build(spec.vocab_size)?])
}

/// The graph of a checkpoint's decoder or encoder: its tensors' names, shapes and encodings are read,
/// not its weights.
pub(super) fn graph(
    spec: &DecoderSpec,
    names: &TensorNames,
    weights: &mut Views<'_>,
    limits: ModelLimits,
) -> Result<Graph, PipelineError> {
    let layout = DecoderLayout {
        page_size: limits.page_size,
        max_length: limits.max_length,
        lora: limits.lora(),
        cache_format: limits.cache_format,
        rings: WindowRings::of(spec, &limits),
        hidden_states: limits.return_hidden_states,
    };
    Ok(decoder_graph::build(spec, names, weights, layout)?)
}

/// Compiles a checkpoint's decoder or encoder.
pub(super) fn compile(
    target: &Capabilities,
    spec: &DecoderSpec,
    names: &TensorNames,
    weights: &mut Views<'_>,
    limits: ModelLimits,
) -> Result<CompiledModel, PipelineError> {
    let graph = graph(spec, names, weights, limits)?;
    Ok(InferenceSession::compile_for(&graph, target)?)
}
