//! Text encoding: turns texts into hidden states or embeddings.

mod batches;
mod error;
mod judge;
mod requests;
mod rerank;
mod tokens;

use std::sync::Arc;

use serde_json::Value;
use web_time::Instant;

use wisp_compiler::Footprint;
use wisp_graph::Graph;
use wisp_session::{CompiledModel, InferenceSession, InitOptions, Model, OnProgress};
use wisp_types::Capabilities;

use super::{
    Batch, BatchSequence, CheckpointModel, DecoderSpec, ModelInputs, ModelLimits, PipelineError,
    Pooling, Remedy, SupportedEncoding,
    architectures::ModelSpec,
    decoder_model,
    layer_embeddings::{self, LayerEmbeddingTable, Placed},
    model_files::{Dense, ModelFiles},
    normalize,
    pace::Pace,
    spec::EncoderSpec,
};
use batches::{batch_len, check, finite, fit, learned_positions};
pub use error::EncodeError;
pub use requests::{EncodeRequest, EncodeResult};
pub use rerank::{Relevance, RerankOptions};
pub use tokens::{EncoderTokenizer, TokenizedText};

/// How embeddings are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// How the tokens' hidden states are combined into one vector. `None` uses the method that the
    /// model's files specify, or else the mean, but the last token's where attention is causal.
    pub pooling: Option<Pooling>,
    /// The number of elements to which embeddings are shortened, before they are scaled to length 1, as models are
    /// trained for (Matryoshka representation learning). `None`, or one that is not smaller than
    /// [`TextEncoder::embedding_width`], keeps all.
    pub dimensions: Option<usize>,
    /// Whether embeddings are scaled to length 1. `None` does as the model's files say, and scales them if
    /// these say nothing.
    pub normalize: Option<bool>,
    /// Whether [`TextEncoder::encode`] cuts the end of texts that are longer than the model's files
    /// (as in sentence-transformers) or the limits with which it was loaded allow;
    /// [`Embeddings::cut`] has the number of tokens cut. By default such a text is an error.
    pub truncate: bool,
}

/// Embeddings of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// One vector per text: `[texts][width]`.
    pub vectors: Vec<Vec<f32>>,
    /// The number of tokens cut from the end of each text, because the model's files or the limits with
    /// which it was loaded bound its length; 0 without [`EncodeOptions::truncate`].
    pub cut: Vec<usize>,
    /// The number of tokens of all texts together, including special ones.
    pub tokens: usize,
}

/// An encoder on a device: turns many texts at once into hidden states or embeddings.
///
/// Of the limits only these apply: `max_length` (tokens of a text), `max_batch` (texts at a time),
/// `max_step_tokens` (tokens of these texts together), `memory` and `layer_embeddings`.
#[derive(Debug)]
pub struct TextEncoder {
    spec: DecoderSpec,
    encoder: EncoderSpec,
    limits: ModelLimits,
    model: Model,
    /// The embeddings by layer, if they are on the host.
    layer_embeddings: Option<LayerEmbeddingTable>,
    tokenizer: Arc<EncoderTokenizer>,
    config: Option<Value>,
    encoding: Option<SupportedEncoding>,
    /// How many tokens a batch takes, so that the device's other users do not wait long.
    pace: Pace,
}

impl TextEncoder {
    /// Like [`Self::load`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_blocking(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<TextEncoder, PipelineError> {
        pollster::block_on(TextEncoder::load(session, files, limits, None))
    }

    /// Returns the encoder's architecture parameters.
    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    /// Returns the size limits with which the encoder was loaded.
    pub fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    /// Returns the width of a hidden state.
    pub fn width(&self) -> usize {
        self.spec.hidden_size as usize
    }

    /// Returns the width of an embedding, which linear layers after the pooling may change.
    pub fn embedding_width(&self) -> usize {
        let layers = &self.tokenizer.settings().dense;
        layers
            .last()
            .map_or(self.width(), |layer| layer.widths()[1])
    }

    /// Returns the encoder's program on its device.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the encoder's tokenizer.
    pub fn tokenizer(&self) -> &Arc<EncoderTokenizer> {
        &self.tokenizer
    }

    /// Checks that a model can encode texts of these tokens.
    ///
    /// # Errors
    ///
    /// If the model is not an encoder, or a text is empty, too long or has a token outside the
    /// vocabulary.
    pub fn check<T: AsRef<[u32]>>(model: &ModelSpec, texts: &[T]) -> Result<(), PipelineError> {
        let (spec, _) = model.encoder()?;
        check(spec, spec.max_positions, texts)
    }

    /// Computes the last hidden states of each text's tokens: `[tokens, width]` for each text.
    ///
    /// # Errors
    ///
    /// If a text is empty, too long or has a token outside the vocabulary; if the device fails.
    pub async fn hidden_states<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        check(&self.spec, self.limits.max_length, texts)?;
        Ok(finite(self.compute_states(texts).await?)?)
    }

    /// Computes the last hidden states of the tokens of texts that were checked, in as many batches as they need.
    async fn compute_states<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let mut states = Vec::with_capacity(texts.len());
        let mut rest = texts;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.next_batch(rest));
            states.extend(self.run(batch).await?);
            rest = later;
        }
        Ok(states)
    }

    /// Like [`Self::hidden_states`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::hidden_states`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn hidden_states_blocking<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        pollster::block_on(self.hidden_states(texts))
    }

    /// Computes an embedding `[width]` of each text's tokens.
    ///
    /// # Errors
    ///
    /// As [`Self::hidden_states`], and if Wisp does not support the model's pooling.
    pub async fn embed<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
        options: EncodeOptions,
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let pooling = self.pooling(options)?;
        let states = self.hidden_states(texts).await?;
        Ok(self.pooled(states, pooling, options))
    }

    /// Returns how the hidden states of a text's tokens are combined.
    ///
    /// # Errors
    ///
    /// If Wisp does not support the model's pooling.
    fn pooling(&self, options: EncodeOptions) -> Result<Pooling, PipelineError> {
        let pooling = match (options.pooling, &self.tokenizer.settings().unsupported) {
            (Some(pooling), _) => pooling,
            (None, Some(what)) => {
                return Err(EncodeError::Unsupported { what: what.clone() }.into());
            }
            (None, None) => match (self.tokenizer.settings().pooling, self.encoder.causal) {
                (Some(pooling), _) => pooling,
                (None, true) => Pooling::Last,
                (None, false) => Pooling::Mean,
            },
        };
        let layers = &self.tokenizer.settings().dense;
        let mut width = self.width();
        for [inputs, outputs] in layers.iter().map(Dense::widths) {
            if inputs != width {
                let what = format!("a linear layer of {inputs} instead of {width} numbers");
                return Err(EncodeError::Unsupported { what }.into());
            }
            width = outputs;
        }
        Ok(pooling)
    }

    /// Returns the embeddings of texts with these hidden states.
    fn pooled(
        &self,
        states: Vec<Vec<f32>>,
        pooling: Pooling,
        options: EncodeOptions,
    ) -> Vec<Vec<f32>> {
        let settings = self.tokenizer.settings();
        let normalizes = options.normalize.or(settings.normalizes).unwrap_or(true);
        let embedding = |hidden: Vec<f32>| {
            let mut embedding = pooling.apply(&hidden, self.width());
            for layer in &settings.dense {
                embedding = layer.apply(&embedding);
            }
            embedding.truncate(options.dimensions.unwrap_or(usize::MAX));
            if normalizes {
                normalize(&mut embedding);
            }
            embedding
        };
        states.into_iter().map(embedding).collect()
    }

    /// Computes an embedding of each text with the encoder's own tokenizer.
    ///
    /// # Errors
    ///
    /// As [`EncoderTokenizer::tokenize_all`] and [`Self::embed`].
    pub async fn encode<T: AsRef<str>>(
        &mut self,
        texts: &[T],
        options: EncodeOptions,
    ) -> Result<Embeddings, PipelineError> {
        let texts = self.tokenizer.tokenize_all(texts, options.truncate)?;
        let cut = texts.iter().map(|text| text.cut).collect();
        let tokens: Vec<Vec<u32>> = texts.into_iter().map(|text| text.tokens).collect();
        Ok(Embeddings {
            vectors: self.embed(&tokens, options).await?,
            tokens: tokens.iter().map(Vec::len).sum(),
            cut,
        })
    }

    /// Like [`Self::encode`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::encode`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn encode_blocking<T: AsRef<str>>(
        &mut self,
        texts: &[T],
        options: EncodeOptions,
    ) -> Result<Embeddings, PipelineError> {
        pollster::block_on(self.encode(texts, options))
    }

    /// Returns the number of tokens that the next batch takes at most, unless its first text has more: as many as the device
    /// computes in about a second, within the limits.
    pub fn batch_tokens(&self) -> u64 {
        let paced = self.pace.prompt_tokens() as u64;
        paced.min(self.limits.max_step_tokens)
    }

    /// Returns how many of the first texts the next batch takes.
    fn next_batch<T: AsRef<[u32]>>(&self, texts: &[T]) -> usize {
        batch_len(&self.limits, self.pace.prompt_tokens() as u64, texts)
    }

    /// Runs texts that fit the limits as one ragged batch and returns the hidden states of all their
    /// tokens.
    async fn run<T: AsRef<[u32]>>(&mut self, texts: &[T]) -> Result<Vec<Vec<f32>>, PipelineError> {
        let since = Instant::now();
        self.execute(texts, &[]).await?;
        let count: usize = texts.iter().map(|text| text.as_ref().len()).sum();
        let elements = (count * self.width()) as u64;
        let hidden: Vec<f32> = self.model.read("hidden", elements).await?;
        self.pace
            .observe_prompt(count as u64, since.elapsed().as_secs_f64());
        let mut rest = hidden.as_slice();
        let states = texts.iter().map(|text| {
            let own = rest.split_off(..text.as_ref().len() * self.width());
            own.unwrap_or_default().to_vec()
        });
        Ok(states.collect())
    }

    /// Runs texts that fit the limits as one ragged batch. `types` are the segment types of all their
    /// tokens; none stand for 0 everywhere.
    async fn execute<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
        types: &[u32],
    ) -> Result<(), PipelineError> {
        let inputs = self.inputs(texts)?;
        let lengths: Vec<u32> = texts
            .iter()
            .map(|text| text.as_ref().len() as u32)
            .collect();
        let count: usize = texts.iter().map(|text| text.as_ref().len()).sum();
        self.model.write_tensor("tokens", &inputs.tokens).await?;
        if let Some(table) = &self.layer_embeddings {
            table.write(&inputs.tokens, &self.model).await?;
        }
        self.model.write_tensor("index", &inputs.index).await?;
        self.model
            .write_tensor("page_table", &inputs.page_table)
            .await?;
        if !self.encoder.causal {
            self.model.write("lengths", &lengths)?;
        }
        if self.spec.learned_positions {
            let positions = texts
                .iter()
                .flat_map(|text| learned_positions(self.encoder, text.as_ref()));
            self.model
                .write("positions", &positions.collect::<Vec<_>>())?;
        }
        if self.encoder.token_types > 0 {
            let mut types = types.to_vec();
            types.resize(count, 0);
            self.model.write("token_types", &types)?;
        }
        let &[slots, pages] = inputs.page_table.shape() else {
            return Err(PipelineError::Batch);
        };
        let sizes = [
            ("tokens", count as u64),
            ("batch", slots),
            ("max_pages", pages),
            ("pages", self.limits.total_pages()),
        ];
        if self.encoder.score.is_some() {
            let mut next = 0;
            let mut rows: Vec<u32> = lengths
                .iter()
                .map(|len| {
                    next += len;
                    // Texts have at least one token.
                    match self.encoder.causal {
                        true => next - 1,
                        false => next - len,
                    }
                })
                .collect();
            rows.resize(slots as usize, 0);
            self.model.write("score_rows", &rows)?;
        }
        self.model.run(&self.model.dims(&sizes)?)?;
        Ok(())
    }

    /// Creates the inputs for whole texts, each with its own pages.
    fn inputs<T: AsRef<[u32]>>(&self, texts: &[T]) -> Result<ModelInputs, PipelineError> {
        let page_size = self.limits.page_size.max(1) as usize;
        let mut next = 0u32;
        let mut sequences = Vec::with_capacity(texts.len());
        for (slot, text) in (0..).zip(texts) {
            let tokens = text.as_ref();
            let end = next.saturating_add(tokens.len().div_ceil(page_size) as u32);
            if u64::from(end) > self.limits.total_pages() {
                return Err(PipelineError::Batch);
            }
            let pages: Vec<u32> = (next..end).collect();
            next = end;
            let part = BatchSequence::new(slot, 0, tokens, &pages);
            sequences.push(part.with_logit_rows(0));
        }
        let batch = Batch {
            sequences,
            steps: 1,
        };
        ModelInputs::new(&batch, &self.limits)
    }
}

impl CheckpointModel for TextEncoder {
    async fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<OnProgress<'_>>,
    ) -> Result<TextEncoder, PipelineError> {
        let (spec, encoder) = files.model_spec.encoder()?;
        let capabilities = &session.device().info().capabilities;
        let limits = fit(capabilities, spec, limits)?;
        let compile = |graph: &Graph| session.compile(graph);
        let Placed {
            compiled,
            weights,
            limits,
            needs,
        } = layer_embeddings::place(files, spec, limits, compile, footprint)?;
        let max_dims = decoder_model::base_dims(limits);
        if limits.memory != 0 && needs.total() > limits.memory {
            let mut remedies = vec![
                Remedy::FewerSequences,
                Remedy::Decrease {
                    field: "max_length",
                },
                Remedy::AnotherDevice,
                Remedy::Increase {
                    field: "gpu_memory_utilization",
                },
            ];
            remedies.splice(0..0, layer_embeddings::remedy(spec, &limits));
            return Err(PipelineError::DoesNotFit {
                needs,
                memory: limits.memory,
                adapters: 0,
                remedies,
            });
        }
        let options = InitOptions {
            max_dims,
            progress,
            ..Default::default()
        };
        Ok(TextEncoder {
            spec: spec.clone(),
            encoder,
            limits,
            model: session.init(&compiled, &weights, options).await?,
            layer_embeddings: LayerEmbeddingTable::of(files, limits.layer_embeddings)?,
            tokenizer: Arc::new(EncoderTokenizer::of(files).within(limits.max_length)),
            config: files.huggingface_config.clone(),
            encoding: SupportedEncoding::of(&files.checkpoint),
            pace: Pace::new(true),
        })
    }

    fn estimate_memory(
        target: &Capabilities,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<Footprint, PipelineError> {
        let (spec, _) = files.model_spec.encoder()?;
        let limits = fit(target, spec, limits)?;
        let compile = |graph: &Graph| InferenceSession::compile_for(graph, target);
        Ok(layer_embeddings::place(files, spec, limits, compile, footprint)?.needs)
    }

    fn encoding(&self) -> Option<SupportedEncoding> {
        self.encoding
    }

    fn huggingface_config(&self) -> Option<&Value> {
        self.config.as_ref()
    }
}

/// Returns the memory that a compiled encoder needs.
fn footprint(compiled: &CompiledModel, limits: ModelLimits) -> Result<Footprint, PipelineError> {
    let max_dims = decoder_model::base_dims(limits);
    Ok(compiled.program().footprint(&max_dims, &[]))
}

/// Builds the graphs of an encoder for a target, one for each place where its embeddings by layer may be.
pub(super) fn graphs(
    target: &Capabilities,
    files: &ModelFiles,
    limits: ModelLimits,
) -> Result<Vec<Graph>, PipelineError> {
    let (spec, _) = files.model_spec.encoder()?;
    layer_embeddings::graphs(files, spec, fit(target, spec, limits)?)
}
