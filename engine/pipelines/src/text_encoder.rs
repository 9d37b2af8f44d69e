//! Text encoding: texts in, hidden states or embeddings out.

mod batches;
mod error;

use serde_json::Value;

use wisp_compiler::Footprint;
use wisp_graph::Graph;
use wisp_session::{InferenceSession, InitOptions, Model};
use wisp_types::Capabilities;
use wisp_weights::Views;

use super::{
    DecoderSpec, PipelineError, SupportedEncoding,
    architectures::ModelSpec,
    decoder_graph::DecoderError,
    kv_cache::{BlockTable, PagePool},
    limits::ModelLimits,
    log_probabilities::LogProbabilities,
    model,
    model_files::ModelFiles,
    model_files::sentence_transformers::SentenceTransformer,
    pipeline_model::{ModelOutputs, PipelineModel, SequenceInputs, TokenInputs},
    pooling::{Pooling, normalize},
    spec::EncoderSpec,
};
use batches::{batches, check, fit, learned_positions};
pub use error::EncodeError;

/// What an embedding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// How the tokens' hidden states become one; `None`: as the model's files say, or else their mean.
    pub pooling: Option<Pooling>,
    /// It is scaled to length 1.
    pub normalize: bool,
}

impl Default for EncodeOptions {
    fn default() -> EncodeOptions {
        EncodeOptions {
            pooling: None,
            normalize: true,
        }
    }
}

/// A text's tokens as an encoder takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizedText {
    /// The tokens, special ones included.
    pub tokens: Vec<u32>,
    /// Tokens that were cut from its end, because the model's files say how long a text may be.
    pub cut: usize,
}

/// An encoder on a device: it turns texts into hidden states or embeddings, many at once.
///
/// Of the limits count `max_length` (tokens of a text), `max_batch` (texts at a time),
/// `max_step_tokens` (their tokens) and `memory`.
///
/// ```no_run
/// use wisp_engine::device::{Device, DeviceSpec, FeatureLevel};
/// use wisp_engine::pipelines::{EncodeOptions, ModelLimits, TextEncoder, model_files::ModelFiles};
/// use wisp_engine::session::InferenceSession;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::open_blocking(&DeviceSpec::Auto, FeatureLevel::Full, 0)?;
/// let files = ModelFiles::open("path/to/all-MiniLM-L6-v2".as_ref())?;
/// let session = InferenceSession::new(device);
/// let limits = ModelLimits { max_batch: 32, ..Default::default() };
/// let mut encoder = TextEncoder::load_blocking(&session, &files, limits)?;
/// let texts = ["A cat sleeps.", "A kitten is asleep."];
/// let embeddings = encoder.encode_blocking(&files, &texts, EncodeOptions::default())?;
/// let cosine: f32 = embeddings[0].iter().zip(&embeddings[1]).map(|(a, b)| a * b).sum();
/// # let _ = cosine;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TextEncoder {
    spec: DecoderSpec,
    encoder: EncoderSpec,
    limits: ModelLimits,
    model: Model,
    settings: SentenceTransformer,
    config: Option<Value>,
    encoding: Option<SupportedEncoding>,
}

impl TextEncoder {
    /// [`Self::load`], blocking the thread.
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

    /// What the encoder is.
    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    /// The sizes it was made for.
    pub fn limits(&self) -> &ModelLimits {
        &self.limits
    }

    /// Width of a hidden state and of an embedding.
    pub fn width(&self) -> usize {
        self.spec.hidden_size as usize
    }

    /// A text's tokens, with the special ones that the tokenizer adds, cut to the length that the
    /// model's files ask for (as sentence-transformers does). Special tokens at the end stay.
    ///
    /// # Errors
    ///
    /// If there is no tokenizer, or it has no token for a part of the text.
    pub fn tokenize(files: &ModelFiles, text: &str) -> Result<TokenizedText, PipelineError> {
        let tokenizer = files.tokenizer.as_ref();
        let tokenizer = tokenizer.map_err(|error| EncodeError::NoTokenizer {
            model: files.name.clone(),
            problem: error.to_string(),
        })?;
        let settings = &files.sentence_transformer;
        let text = match settings.lowercases {
            true => &text.to_lowercase(),
            false => text,
        };
        let mut tokens = tokenizer.encode(text, true, true)?;
        let positions = files.model_spec.spec.max_positions;
        let most = settings.max_length.map(|most| most.min(positions) as usize);
        let cut = most.map_or(0, |most| tokens.len().saturating_sub(most));
        if cut > 0 {
            let bare = tokenizer.encode(text, false, true)?;
            let end = end_of(&tokens, &bare);
            tokens.drain(end.saturating_sub(cut)..end);
        }
        Ok(TokenizedText { tokens, cut })
    }

    /// Checks that a model can encode texts of these tokens.
    ///
    /// # Errors
    ///
    /// If it is no encoder, or a text is empty, too long or has a token outside the vocabulary.
    pub fn check<T: AsRef<[u32]>>(model: &ModelSpec, texts: &[T]) -> Result<(), PipelineError> {
        let (spec, _) = model.encoder()?;
        check(spec, spec.max_positions, texts)
    }

    /// The last hidden states of each text's tokens: for each text `[tokens, width]`.
    ///
    /// # Errors
    ///
    /// If a text is empty, too long or has a token outside the vocabulary; if the device fails.
    pub async fn hidden_states<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        check(&self.spec, self.limits.max_length, texts)?;
        let mut states = Vec::with_capacity(texts.len());
        for batch in batches(&self.limits, texts) {
            states.extend(self.run(&texts[batch]).await?);
        }
        Ok(states)
    }

    /// [`Self::hidden_states`], blocking the thread.
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

    /// An embedding, `[width]`, of each text's tokens.
    ///
    /// # Errors
    ///
    /// As [`Self::hidden_states`], and if the model pools in a way that Wisp lacks.
    pub async fn embed<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
        options: EncodeOptions,
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let pooling = match (options.pooling, &self.settings.unsupported) {
            (Some(pooling), _) => pooling,
            (None, Some(what)) => {
                return Err(EncodeError::Unsupported { what: what.clone() }.into());
            }
            (None, None) => self.settings.pooling.unwrap_or(Pooling::Mean),
        };
        let states = self.hidden_states(texts).await?;
        let embedding = |hidden: Vec<f32>| {
            let mut embedding = pooling.apply(&hidden, self.width());
            if options.normalize {
                normalize(&mut embedding);
            }
            embedding
        };
        Ok(states.into_iter().map(embedding).collect())
    }

    /// [`Self::embed`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::embed`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn embed_blocking<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
        options: EncodeOptions,
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        pollster::block_on(self.embed(texts, options))
    }

    /// An embedding, `[width]`, of each text: [`Self::tokenize`], then [`Self::embed`].
    ///
    /// # Errors
    ///
    /// As these.
    pub async fn encode<T: AsRef<str>>(
        &mut self,
        files: &ModelFiles,
        texts: &[T],
        options: EncodeOptions,
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let tokens = |text: &T| Ok(TextEncoder::tokenize(files, text.as_ref())?.tokens);
        let texts: Vec<Vec<u32>> = texts
            .iter()
            .map(tokens)
            .collect::<Result<_, PipelineError>>()?;
        self.embed(&texts, options).await
    }

    /// [`Self::encode`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::encode`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn encode_blocking<T: AsRef<str>>(
        &mut self,
        files: &ModelFiles,
        texts: &[T],
        options: EncodeOptions,
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        pollster::block_on(self.encode(files, texts, options))
    }

    /// Runs texts that fit the limits as one ragged batch.
    async fn run<T: AsRef<[u32]>>(&mut self, texts: &[T]) -> Result<Vec<Vec<f32>>, PipelineError> {
        let mut pool = PagePool::new(self.limits.total_pages() as u32, self.limits.page_size);
        let mut tables = Vec::with_capacity(texts.len());
        for text in texts {
            let mut table = BlockTable::default();
            if !pool.grow(&mut table, text.as_ref().len() as u64) {
                return Err(PipelineError::Batch);
            }
            tables.push(table);
        }
        let parts = (0..).zip(texts).zip(&tables);
        let batch: Vec<SequenceInputs<'_>> = parts
            .map(|((slot, text), table)| SequenceInputs {
                slot,
                start: 0,
                tokens: text.as_ref(),
                pages: table.pages(),
            })
            .collect();
        let inputs = self.prepare_initial_token_inputs(&batch, 0);
        let hidden = self
            .execute(&inputs)
            .await?
            .hidden_states
            .unwrap_or_default();
        let mut rest = hidden.as_slice();
        let states = texts.iter().map(|text| {
            let own = rest.split_off(..text.as_ref().len() * self.width());
            own.unwrap_or_default().to_vec()
        });
        Ok(states.collect())
    }
}

impl PipelineModel for TextEncoder {
    async fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<&(dyn Fn(u64, u64) + Send + Sync)>,
    ) -> Result<TextEncoder, PipelineError> {
        let (spec, encoder) = files.model_spec.encoder()?;
        let capabilities = &session.device().info().capabilities;
        let limits = fit(capabilities, spec, limits)?;
        let mut weights = Views::new(&files.checkpoint);
        let names = files.model_spec.names;
        let compiled = session.compile(&model::graph(spec, names, &mut weights, limits)?)?;
        let max_dims = model::max_dims(limits);
        let needs = compiled.program().footprint(&max_dims, &[]);
        if limits.memory != 0 && needs.total() > limits.memory {
            return Err(PipelineError::DoesNotFit {
                needs,
                memory: limits.memory,
                advice:
                    "encode fewer or shorter texts at a time, use another --device, or more of \
                         the memory (--gpu-memory-utilization)"
                        .into(),
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
            settings: files.sentence_transformer.clone(),
            config: files.huggingface_config.clone(),
            encoding: SupportedEncoding::of(&files.checkpoint),
        })
    }

    fn estimate_memory(
        target: &Capabilities,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<Footprint, PipelineError> {
        let (spec, _) = files.model_spec.encoder()?;
        let limits = fit(target, spec, limits)?;
        let (names, mut weights) = (files.model_spec.names, Views::new(&files.checkpoint));
        let compiled = model::compile(target, spec, names, &mut weights, limits)?;
        Ok(compiled.program().footprint(&model::max_dims(limits), &[]))
    }

    fn encoding(&self) -> Option<SupportedEncoding> {
        self.encoding
    }

    fn huggingface_config(&self) -> Option<&Value> {
        self.config.as_ref()
    }

    /// The inputs of texts from their beginnings. There are no logits to return.
    fn prepare_initial_token_inputs(
        &self,
        batch: &[SequenceInputs<'_>],
        _return_n_logits: usize,
    ) -> TokenInputs {
        let stride = self.limits.pages_per_sequence() as usize;
        let mut inputs = TokenInputs {
            page_table: vec![0; stride * self.limits.max_batch as usize],
            ..Default::default()
        };
        for sequence in batch {
            inputs.push(*sequence, 0, stride);
        }
        inputs
    }

    /// Runs whole texts, in the order of their slots from 0 on: all their tokens' hidden states.
    async fn execute(&mut self, inputs: &TokenInputs) -> Result<ModelOutputs, PipelineError> {
        let limits = &self.limits;
        let offsets = inputs.offsets();
        let texts: Vec<&[u32]> = offsets
            .windows(2)
            .map(|at| &inputs.tokens[at[0]..at[1]])
            .collect();
        check(&self.spec, limits.max_length, &texts)?;
        let places = (0..).zip(&texts);
        let whole =
            places.flat_map(|(slot, text)| (0..text.len() as u32).map(move |at| [slot, at]));
        let sound = inputs.index.iter().copied().eq(whole)
            && texts.len() as u64 <= limits.max_batch
            && inputs.tokens.len() as u64 <= limits.max_step_tokens
            && inputs
                .page_table
                .iter()
                .all(|page| u64::from(*page) < limits.total_pages());
        if !sound {
            return Err(PipelineError::Batch);
        }
        self.model.write("tokens", &inputs.tokens)?;
        self.model.write("index", &inputs.index)?;
        self.model.write("page_table", &inputs.page_table)?;
        let lengths: Vec<u32> = texts.iter().map(|text| text.len() as u32).collect();
        self.model.write("lengths", &lengths)?;
        if self.spec.learned_positions {
            let positions = texts
                .iter()
                .flat_map(|text| learned_positions(self.encoder, text));
            self.model
                .write("positions", &positions.collect::<Vec<_>>())?;
        }
        let count = inputs.tokens.len();
        if self.encoder.token_types > 0 {
            self.model.write("token_types", &vec![0u32; count])?;
        }
        let sizes = [
            ("tokens", count as u64),
            ("batch", limits.max_batch),
            ("max_pages", limits.pages_per_sequence()),
            ("pages", limits.total_pages()),
        ];
        self.model.run(&self.model.dims(&sizes)?)?;
        let elements = (count * self.width()) as u64;
        let hidden: Vec<f32> = self.model.read("hidden", elements).await?;
        if hidden.iter().any(|value| !value.is_finite()) {
            return Err(EncodeError::NotFinite.into());
        }
        Ok(ModelOutputs {
            logit_offsets: vec![0; offsets.len()],
            hidden_states: Some(hidden),
            ..Default::default()
        })
    }

    /// An error: there are no logits.
    async fn compute_log_probabilities(
        &mut self,
        _inputs: &TokenInputs,
        _next_tokens: &[u32],
        _top_n: &[u32],
        _echo: &[bool],
    ) -> Result<Vec<Option<LogProbabilities>>, PipelineError> {
        Err(DecoderError::Spec("an encoder computes no logits".into()).into())
    }
}

/// Where a text ends within its tokens with special ones around them; the tokens' end, if they differ
/// in more than that.
fn end_of(tokens: &[u32], bare: &[u32]) -> usize {
    let found = match bare.len() {
        0 => None,
        len => tokens.windows(len).position(|part| part == bare),
    };
    found.map_or(tokens.len(), |start| start + bare.len())
}

/// The graph of an encoder, for a target.
pub(super) fn graphs(
    target: &Capabilities,
    files: &ModelFiles,
    limits: ModelLimits,
) -> Result<Vec<Graph>, PipelineError> {
    let (spec, _) = files.model_spec.encoder()?;
    let limits = fit(target, spec, limits)?;
    let (names, mut weights) = (files.model_spec.names, Views::new(&files.checkpoint));
    Ok(vec![model::graph(spec, names, &mut weights, limits)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_at_the_end_are_no_text() {
        assert_eq!(end_of(&[9, 1, 2, 8], &[1, 2]), 3);
        assert_eq!(end_of(&[9, 8], &[]), 2);
        assert_eq!(end_of(&[9, 1, 2, 8], &[2, 1]), 4);
    }
}
