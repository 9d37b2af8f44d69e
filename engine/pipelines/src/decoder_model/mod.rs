//! The built-in decoder on a device.

mod execute;
mod fit;

use std::collections::HashMap;

use serde_json::Value;
use wisp_compiler::Footprint;
use wisp_graph::Graph;
use wisp_session::{
    CompiledModel, InferenceSession, InitOptions, Model, OnProgress, SessionError, Tensor,
};
use wisp_types::{BoxFuture, Capabilities};

use crate::{
    Adapter, AdapterFiles, CheckpointModel, DecoderSpec, LayerEmbeddingsPlacement, LoraError,
    LoraManager, ModelFiles, ModelInputs, ModelLimits, ModelOutputs, PipelineError, PipelineModel,
    SamplingBuffers, SupportedEncoding, future_tokens,
    layer_embeddings::{self, LayerEmbeddingTable, Placed},
    sampler,
    window_rings::WindowRings,
};

/// A decoder on a device, ready to run ragged batches.
#[derive(Debug)]
pub struct DecoderModel {
    spec: DecoderSpec,
    limits: ModelLimits,
    rings: Option<WindowRings>,
    decoder: Model,
    /// The inputs that seldom change, as they stand on the device.
    written: WrittenInputs,
    /// The embeddings by layer, if they are on the host.
    layer_embeddings: Option<LayerEmbeddingTable>,
    /// The loaded adapters, where the model has room for any.
    loras: Option<LoraManager>,
    /// The checkpoint's `config.json`.
    config: Option<Value>,
    /// The encoding of the weights.
    encoding: Option<SupportedEncoding>,
}

/// Inputs that seldom change from step to step, as they stand on the device: equal ones are not
/// written again. (Tokens and positions are not among them: the sampler writes over those.)
#[derive(Debug, Default)]
struct WrittenInputs {
    logit_rows: Option<Tensor>,
    spans: Option<Tensor>,
    page_table: Option<Tensor>,
    adapters: Option<Tensor>,
}

impl DecoderModel {
    /// What the decoder is made of.
    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    /// The rings of the layers with a sliding window; `None` where these keep whole texts.
    pub fn rings(&self) -> Option<WindowRings> {
        self.rings
    }

    /// The decoder's program on its device.
    pub fn decoder(&self) -> &Model {
        &self.decoder
    }
}

impl CheckpointModel for DecoderModel {
    async fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<OnProgress<'_>>,
    ) -> Result<DecoderModel, PipelineError> {
        let spec = files.model_spec.decoder()?.clone();
        let target = &session.device().info().capabilities;
        let compile = |graph: &Graph| session.compile(graph);
        let (placed, rings) = plan(target, files, &spec, limits, compile)?;
        let Placed {
            compiled,
            weights,
            limits,
            ..
        } = placed;
        let options = InitOptions {
            max_dims: max_dims(&spec, limits, rings),
            progress,
            ..Default::default()
        };
        let decoder = session.init(&compiled, &weights, options).await?;
        if let Some(rings) = rings {
            decoder.write("window_table", &rings.table(&limits))?;
        }
        let layout = limits.lora();
        Ok(DecoderModel {
            spec,
            limits,
            rings,
            decoder,
            written: WrittenInputs::default(),
            layer_embeddings: LayerEmbeddingTable::of(files, limits.layer_embeddings)?,
            loras: layout.map(|layout| LoraManager::new(&files.model_spec, layout)),
            config: files.huggingface_config.clone(),
            encoding: SupportedEncoding::of(&files.checkpoint),
        })
    }

    fn estimate_memory(
        target: &Capabilities,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<Footprint, PipelineError> {
        let spec = files.model_spec.decoder()?;
        let compile = |graph: &Graph| InferenceSession::compile_for(graph, target);
        match plan(target, files, spec, limits, compile) {
            Ok((placed, rings)) => footprint(&placed.compiled, target, spec, placed.limits, rings),
            // The caller learns how much the model needs, although it cannot be loaded.
            Err(PipelineError::DoesNotFit { needs, .. }) => Ok(needs),
            Err(error) => Err(error),
        }
    }

    fn encoding(&self) -> Option<SupportedEncoding> {
        self.encoding
    }

    fn huggingface_config(&self) -> Option<&Value> {
        self.config.as_ref()
    }
}

/// Compiles a decoder for a device with the capabilities `target`, with limits that it keeps. Where prefixes are to be
/// shared, layers with a window keep whole texts; if there is no memory for that, no prefixes are shared.
fn plan<'f>(
    target: &Capabilities,
    files: &'f ModelFiles,
    spec: &DecoderSpec,
    limits: ModelLimits,
    compile: impl Fn(&Graph) -> Result<CompiledModel, SessionError>,
) -> Result<(Placed<'f>, Option<WindowRings>), PipelineError> {
    let limits = limits.for_target(target).with_length(spec.max_positions);
    let plan_as_asked = |limits| plan_as_asked(target, files, spec, limits, &compile);
    let alone = ModelLimits {
        prefix_caching: false,
        ..limits
    };
    if !limits.prefix_caching || WindowRings::of(spec, &alone).is_none() {
        return plan_as_asked(limits);
    }
    let is_free = limits.layer_embeddings == LayerEmbeddingsPlacement::Auto;
    let may_move = is_free && spec.layer_embeddings.is_some();
    let shared = ModelLimits {
        layer_embeddings: match may_move {
            true => LayerEmbeddingsPlacement::Device,
            false => limits.layer_embeddings,
        },
        ..limits
    };
    let is_whole = |placed: &Placed<'_>| {
        let memory = limits.memory;
        memory == 0 || placed.needs.total() <= memory
    };
    match plan_as_asked(shared) {
        // Prefixes are given up before embeddings by layer go to the host, where each step waits for them.
        Ok((placed, _)) if may_move && !is_whole(&placed) => {}
        Err(PipelineError::DoesNotFit { .. } | PipelineError::CacheTooLarge { .. }) => {}
        planned => return planned,
    }
    plan_as_asked(alone)
}

fn plan_as_asked<'f>(
    target: &Capabilities,
    files: &'f ModelFiles,
    spec: &DecoderSpec,
    limits: ModelLimits,
    compile: impl Fn(&Graph) -> Result<CompiledModel, SessionError>,
) -> Result<(Placed<'f>, Option<WindowRings>), PipelineError> {
    let limits = fit::fit(target, spec, limits)?;
    let rings = WindowRings::of(spec, &limits);
    let needs = |compiled: &CompiledModel, limits| footprint(compiled, target, spec, limits, rings);
    let placed = layer_embeddings::place(files, spec, limits, compile, needs)?;
    let limits = fit::fit_memory(spec, placed.limits, rings, placed.needs)?;
    Ok((Placed { limits, ..placed }, rings))
}

impl PipelineModel for DecoderModel {
    fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    fn vocab_size(&self) -> u64 {
        self.spec.vocab_size
    }

    fn executes_asynchronously(&self) -> bool {
        // Embeddings by layer on the host need the tokens.
        computes_beside_host(&self.decoder.device().info().capabilities)
            && self.layer_embeddings.is_none()
    }

    fn execute<'a>(
        &'a mut self,
        inputs: &'a ModelInputs,
    ) -> BoxFuture<'a, Result<ModelOutputs, PipelineError>> {
        Box::pin(self.run(inputs))
    }

    fn sampling_buffers(&self) -> SamplingBuffers {
        let buffer = |name| self.decoder.buffer(name).ok().cloned();
        SamplingBuffers {
            logits: buffer("logits"),
            tokens: buffer("tokens"),
            index: buffer("index"),
        }
    }

    fn lora_manager(&self) -> Option<&LoraManager> {
        self.loras.as_ref()
    }

    fn load_adapter(
        &mut self,
        name: &str,
        files: &AdapterFiles,
        cache_salt: u64,
        in_use: &dyn Fn(u32) -> bool,
    ) -> Result<Adapter, LoraError> {
        let loras = self.loras.as_mut().ok_or(LoraError::Disabled)?;
        let adapter = Adapter {
            slot: loras.place(name, in_use)?,
            cache_salt,
        };
        loras.load(&self.decoder, name, files, adapter)?;
        Ok(adapter)
    }

    fn unload_adapter(&mut self, name: &str) -> Result<(), LoraError> {
        let nonexistent = || LoraError::Nonexistent {
            name: name.into(),
            loaded: Vec::new(),
        };
        self.loras.as_mut().ok_or_else(nonexistent)?.unload(name)
    }
}

/// The largest sizes of the symbolic dimensions of a decoder or encoder, but for those of rings.
pub(crate) fn base_dims(limits: ModelLimits) -> HashMap<String, u64> {
    HashMap::from([
        ("tokens".to_string(), limits.max_step_tokens),
        ("batch".to_string(), limits.max_batch),
        ("max_pages".to_string(), limits.pages_per_sequence()),
        ("logit_rows".to_string(), limits.max_logit_rows),
        ("pages".to_string(), limits.total_pages()),
    ])
}

/// The largest sizes of a decoder's symbolic dimensions.
fn max_dims(
    spec: &DecoderSpec,
    limits: ModelLimits,
    rings: Option<WindowRings>,
) -> HashMap<String, u64> {
    let own = rings.iter().flat_map(|rings| rings.dims(&limits));
    let own = own.chain(state_dims(spec, limits));
    let own = own.map(|(name, size)| (name.to_string(), size));
    base_dims(limits).into_iter().chain(own).collect()
}

/// The size of the symbolic dimension of a decoder's recurrent state, if it has one.
fn state_dims(spec: &DecoderSpec, limits: ModelLimits) -> Option<(&'static str, u64)> {
    let rows = limits.state_rows();
    spec.has_state().then_some(("state_rows", rows))
}

/// Bytes that the decoder and the programs that run beside it take together.
fn footprint(
    decoder: &CompiledModel,
    target: &Capabilities,
    spec: &DecoderSpec,
    limits: ModelLimits,
    rings: Option<WindowRings>,
) -> Result<Footprint, PipelineError> {
    let decoder = decoder
        .program()
        .footprint(&max_dims(spec, limits, rings), &[]);
    let sampler = sampler::footprint(target, spec.vocab_size, limits)?;
    let both = decoder.and(sampler);
    match computes_beside_host(target) {
        true => Ok(both.and(future_tokens::footprint(target, limits)?)),
        false => Ok(both),
    }
}

/// Returns whether a device may wait for the host: a software adapter computes on the cores that submit.
fn computes_beside_host(target: &Capabilities) -> bool {
    !target.is_host && !target.software_kernels
}

/// The graphs that a decoder runs: its own, one for each place where its embeddings by layer may be, the sampler's, and
/// on a GPU that of future tokens.
pub(crate) fn graphs(
    target: &Capabilities,
    files: &ModelFiles,
    limits: ModelLimits,
) -> Result<Vec<Graph>, PipelineError> {
    let spec = files.model_spec.decoder()?;
    let limits = fit::fit(target, spec, limits)?;
    let mut graphs = layer_embeddings::graphs(files, spec, limits)?;
    graphs.push(sampler::build(spec.vocab_size)?);
    if computes_beside_host(target) {
        graphs.push(future_tokens::build()?);
    }
    Ok(graphs)
}
