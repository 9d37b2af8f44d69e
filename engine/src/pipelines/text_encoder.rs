//! Text encoding: texts in, hidden states or embeddings out.

mod batches;
mod error;
mod pooling;

use crate::{
    compiler::Footprint,
    device::Capabilities,
    session::{InferenceSession, InitOptions, Model},
    weights::{Views, WeightSource},
};

use super::{
    DecoderSpec, PipelineError,
    architectures::Recognised,
    checkpoint::ModelFiles,
    decoder::{EncoderSpec, TensorNames},
    kv_cache::{BlockTable, PagePool},
    model::{self, ModelLimits, TokenInputs},
    sentence_transformers::SentenceTransformer,
};
use batches::{batches, check, fit, learned_positions};
pub use error::EncodeError;
pub use pooling::{Pooling, normalize};

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
/// ```no_run
/// use wisp_engine::device::{Device, DeviceSpec, Profile};
/// use wisp_engine::pipelines::{EncodeOptions, ModelLimits, TextEncoder, checkpoint::ModelFiles};
/// use wisp_engine::session::InferenceSession;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::open_blocking(&DeviceSpec::Auto, Profile::Full, 0)?;
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
}

impl TextEncoder {
    /// Loads a model's files to a session's device. Of the limits count `max_length` (tokens of a
    /// text), `max_batch` (texts at a time), `max_step_tokens` (their tokens) and `memory`.
    ///
    /// # Errors
    ///
    /// If the model is no encoder, its files do not fit together, or the device has not enough memory.
    pub async fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<&(dyn Fn(u64, u64) + Send + Sync)>,
    ) -> Result<TextEncoder, PipelineError> {
        let (spec, encoder) = files.recognised.encoder()?;
        let capabilities = &session.device().info().capabilities;
        let limits = fit(capabilities, spec, limits)?;
        let mut weights = Views::new(&files.checkpoint);
        let names = files.recognised.names;
        let compiled = model::compile(capabilities, spec, names, &mut weights, limits)?;
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
        })
    }

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
        let positions = files.recognised.spec.max_positions;
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
    pub fn check<T: AsRef<[u32]>>(model: &Recognised, texts: &[T]) -> Result<(), PipelineError> {
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
    async fn run<T: AsRef<[u32]>>(&self, texts: &[T]) -> Result<Vec<Vec<f32>>, PipelineError> {
        let limits = &self.limits;
        let stride = limits.pages_per_sequence() as usize;
        let mut pool = PagePool::new(limits.total_pages() as u32, limits.page_size);
        let mut inputs = TokenInputs::default();
        let (mut lengths, mut positions) = (Vec::new(), Vec::new());
        for (slot, text) in texts.iter().enumerate() {
            let tokens = text.as_ref();
            let mut pages = BlockTable::default();
            if !pool.grow(&mut pages, tokens.len() as u64) {
                return Err(PipelineError::Batch);
            }
            inputs.page_table.extend(pages.pages());
            inputs.page_table.resize((slot + 1) * stride, 0);
            inputs.tokens.extend(tokens);
            let index = (0..tokens.len()).map(|position| [slot as u32, position as u32]);
            inputs.index.extend(index);
            lengths.push(tokens.len() as u32);
            positions.extend(learned_positions(self.encoder, tokens));
        }
        let count = inputs.tokens.len();
        self.model.write("tokens", &inputs.tokens)?;
        self.model.write("index", &inputs.index)?;
        self.model.write("page_table", &inputs.page_table)?;
        self.model.write("lengths", &lengths)?;
        if self.spec.learned_positions {
            self.model.write("positions", &positions)?;
        }
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
        let mut rest = hidden.as_slice();
        let states = lengths.iter().map(|length| {
            let own = rest.split_off(..*length as usize * self.width());
            own.unwrap_or_default().to_vec()
        });
        Ok(states.collect())
    }
}

/// What an encoder would take on a device.
pub(super) fn estimate_memory(
    target: &Capabilities,
    spec: &DecoderSpec,
    names: &TensorNames,
    weights: &dyn WeightSource,
    limits: ModelLimits,
) -> Result<Footprint, PipelineError> {
    let limits = fit(target, spec, limits)?;
    let compiled = model::compile(target, spec, names, &mut Views::new(weights), limits)?;
    let max_dims = model::max_dims(limits);
    Ok(compiled.program().footprint(&max_dims, &[]))
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
