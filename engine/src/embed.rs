//! Embeddings of texts.

use wisp_pipelines::{Embeddings, EncodeOptions, Pooling, TextEncoder};

use crate::{error::Error, model::Model};

impl Model {
    /// An embedding of each text, blocking the thread; [`Self::embedder`] has settings.
    ///
    /// # Errors
    ///
    /// If the model is no encoder, a text is empty, or the device fails.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn embed<T: AsRef<str>>(&self, texts: &[T]) -> Result<Embeddings, Error> {
        self.embedder().embed(texts)
    }

    /// [`Self::embed`] without blocking the task.
    ///
    /// # Errors
    ///
    /// As [`Self::embed`].
    pub async fn embed_async<T: AsRef<str>>(&self, texts: &[T]) -> Result<Embeddings, Error> {
        self.embedder().embed_async(texts).await
    }

    /// The settings of embeddings.
    pub fn embedder(&self) -> Embedder {
        Embedder::new(self)
    }
}

/// How texts become embeddings: [`Model::embedder`]. By default as the model's files say, scaled to
/// length 1.
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

    /// How the tokens' hidden states become one vector.
    pub fn pooling(mut self, pooling: Pooling) -> Embedder {
        self.options.pooling = Some(pooling);
        self
    }

    /// Whether embeddings are scaled to length 1.
    pub fn normalize(mut self, normalize: bool) -> Embedder {
        self.options.normalize = normalize;
        self
    }

    /// An embedding of each text, with the number of tokens that were cut from long ones.
    ///
    /// # Errors
    ///
    /// If the model is no encoder, a text is empty, or the device fails.
    pub async fn embed_async<T: AsRef<str>>(self, texts: &[T]) -> Result<Embeddings, Error> {
        let texts: Vec<String> = texts.iter().map(|text| text.as_ref().to_string()).collect();
        let options = self.options;
        let work = self.model.encode(move |encoder: &mut TextEncoder| {
            Box::pin(async move { Ok(encoder.encode(&texts, options).await?) })
        });
        work.await
    }

    /// [`Self::embed_async`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::embed_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn embed<T: AsRef<str>>(self, texts: &[T]) -> Result<Embeddings, Error> {
        pollster::block_on(self.embed_async(texts))
    }

    /// An embedding `[width]` of each list of tokens, which are used as they are.
    ///
    /// # Errors
    ///
    /// If the model is no encoder, a list is empty, too long or has an unknown token, or the device fails.
    pub async fn embed_tokens_async(self, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Error> {
        let options = self.options;
        let work = self.model.encode(move |encoder: &mut TextEncoder| {
            Box::pin(async move { Ok(encoder.embed(&texts, options).await?) })
        });
        work.await
    }

    /// [`Self::embed_tokens_async`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::embed_tokens_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn embed_tokens(self, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Error> {
        pollster::block_on(self.embed_tokens_async(texts))
    }

    /// The hidden states `[tokens, width]` of each list of tokens, without pooling.
    ///
    /// # Errors
    ///
    /// As [`Self::embed_tokens_async`].
    pub async fn hidden_states_async(self, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Error> {
        let work = self.model.encode(move |encoder: &mut TextEncoder| {
            Box::pin(async move { Ok(encoder.hidden_states(&texts).await?) })
        });
        work.await
    }

    /// [`Self::hidden_states_async`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::hidden_states_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn hidden_states(self, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Error> {
        pollster::block_on(self.hidden_states_async(texts))
    }
}
