//! Text embeddings.

use wisp_pipelines::{Embeddings, EncodeOptions, EncodeRequest, Pooling, TokenizedText};

use crate::{error::Error, model::Model, open_model::OpenModel};

impl Model {
    /// Computes an embedding of each text with default settings, blocking the thread.
    /// [`Self::embedder`] takes other settings.
    ///
    /// # Errors
    ///
    /// If the model is not an encoder, a text has no tokens or too many, or the device fails.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn embed<T: AsRef<str>>(&self, texts: &[T]) -> Result<Embeddings, Error> {
        self.embedder().embed(texts)
    }

    /// Like [`Self::embed`], but does not block the task.
    ///
    /// # Errors
    ///
    /// As [`Self::embed`].
    pub async fn embed_async<T: AsRef<str>>(&self, texts: &[T]) -> Result<Embeddings, Error> {
        self.embedder().embed_async(texts).await
    }

    /// Returns the settings of embeddings.
    pub fn embedder(&self) -> Embedder {
        Embedder::new(self)
    }
}

impl OpenModel {
    /// Makes a decoder embed texts, as an encoder does. Decoders whose files list the modules of embeddings do so by
    /// themselves.
    pub fn for_embeddings(mut self) -> OpenModel {
        if let Some(files) = self.files.max_mut() {
            files.model_spec.spec.embed_texts();
        }
        self
    }
}

/// The settings of embeddings, from [`Model::embedder`]. By default the model's files determine the
/// pooling and whether embeddings are scaled to length 1, as they are if the files do not say it.
#[derive(Clone, Debug)]
#[must_use = "embeddings are computed by `embed`"]
pub struct Embedder {
    model: Model,
    options: EncodeOptions,
}

impl Embedder {
    pub(crate) fn new(model: &Model) -> Embedder {
        Embedder {
            model: model.clone(),
            options: EncodeOptions::default(),
        }
    }

    /// Sets how the tokens' hidden states are combined into one vector.
    pub fn pooling(mut self, pooling: Pooling) -> Embedder {
        self.options.pooling = Some(pooling);
        self
    }

    /// Sets the number of elements to which embeddings are shortened, before they are scaled to length 1, as models are
    /// trained for (Matryoshka representation learning). A number that is not smaller than
    /// [`ModelInfo::embedding_width`](crate::ModelInfo::embedding_width) keeps all.
    pub fn dimensions(mut self, dimensions: usize) -> Embedder {
        self.options.dimensions = Some(dimensions);
        self
    }

    /// Sets whether embeddings are scaled to length 1.
    pub fn normalize(mut self, normalize: bool) -> Embedder {
        self.options.normalize = Some(normalize);
        self
    }

    /// Sets whether texts that are too long for the model, as its files and the limits with which it was
    /// loaded say, are cut; by default they are an error. [`Embeddings::cut`] has the number of tokens cut from each text.
    pub fn truncate(mut self, truncate: bool) -> Embedder {
        self.options.truncate = truncate;
        self
    }

    /// Returns the tokens of which [`Self::embed_async`] computes the embeddings, for [`Self::embed_tokens_async`]: a
    /// server tokenizes long texts on another thread than the one that waits for events.
    ///
    /// # Errors
    ///
    /// If the model is not an encoder, or a text has no tokens or too many.
    pub fn tokenize<T: AsRef<str>>(&self, texts: &[T]) -> Result<Vec<TokenizedText>, Error> {
        let tokenizer = self.model.encoder_tokenizer()?;
        Ok(tokenizer.tokenize_all(texts, self.options.truncate)?)
    }

    /// Computes an embedding of each text. The thread that polls tokenizes them first.
    ///
    /// # Errors
    ///
    /// If the model is not an encoder, a text has no tokens or too many, or the device fails.
    pub async fn embed_async<T: AsRef<str>>(self, texts: &[T]) -> Result<Embeddings, Error> {
        let texts = self.tokenize(texts)?;
        let cut = texts.iter().map(|text| text.cut).collect();
        let texts: Vec<Vec<u32>> = texts.into_iter().map(|text| text.tokens).collect();
        let tokens = texts.iter().map(Vec::len).sum();
        Ok(Embeddings {
            vectors: self.embed_tokens_async(texts).await?,
            cut,
            tokens,
        })
    }

    /// Like [`Self::embed_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::embed_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn embed<T: AsRef<str>>(self, texts: &[T]) -> Result<Embeddings, Error> {
        pollster::block_on(self.embed_async(texts))
    }

    /// Computes an embedding `[width]` of each list of tokens, which are used unchanged.
    ///
    /// # Errors
    ///
    /// If the model is not an encoder; if a list is empty, too long or has an unknown token; or if the
    /// device fails.
    pub async fn embed_tokens_async(self, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Error> {
        let options = self.options;
        let request = |texts| EncodeRequest::Embeddings(texts, options);
        self.model.encode(texts, request).await
    }

    /// Like [`Self::embed_tokens_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::embed_tokens_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn embed_tokens(self, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Error> {
        pollster::block_on(self.embed_tokens_async(texts))
    }

    /// Computes the hidden states `[tokens, width]` of each list of tokens, without pooling.
    ///
    /// # Errors
    ///
    /// As [`Self::embed_tokens_async`].
    pub async fn hidden_states_async(self, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Error> {
        self.model.encode(texts, EncodeRequest::HiddenStates).await
    }

    /// Like [`Self::hidden_states_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::hidden_states_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn hidden_states(self, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Error> {
        pollster::block_on(self.hidden_states_async(texts))
    }
}
