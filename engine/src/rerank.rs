//! Ranking of documents by their relevance to a query.

use wisp_pipelines::{
    EncodeRequest, PipelineError, Relevance, RerankOptions, tokenizer::PairTokens,
};

use crate::{error::Error, model::Model, open_model::OpenModel};

impl Model {
    /// Returns the settings of ranking documents, for which the model must score pairs of texts: a
    /// cross-encoder such as `BertForSequenceClassification` with one label.
    pub fn reranker(&self) -> Reranker {
        Reranker {
            model: self.clone(),
            options: RerankOptions::default(),
        }
    }
}

impl OpenModel {
    /// Makes a decoder rank documents by its answers `yes` and `no`, as Qwen3-Reranker does.
    ///
    /// # Errors
    ///
    /// If its tokenizer lacks the answers.
    pub fn for_reranking(mut self) -> Result<OpenModel, Error> {
        if let Some(files) = self.files.max_mut() {
            files.score_by_answers().map_err(PipelineError::from)?;
        }
        Ok(self)
    }
}

/// The settings of ranking documents, from [`Model::reranker`].
#[derive(Clone, Debug)]
#[must_use = "documents are ranked by `rank`"]
pub struct Reranker {
    model: Model,
    options: RerankOptions,
}

impl Reranker {
    /// Sets whether a query and a document that are too long together are cut, the longer one first; by
    /// default they are an error.
    pub fn truncate(mut self, truncate: bool) -> Reranker {
        self.options.truncate = truncate;
        self
    }

    /// Ranks documents by their relevance to a query, the most relevant first. [`Relevance::index`] is
    /// a document's place among those given.
    ///
    /// # Errors
    ///
    /// If the model does not score pairs of texts, a text is empty or too long, or the device fails.
    pub async fn rank_async<T: AsRef<str>>(
        self,
        query: &str,
        documents: &[T],
    ) -> Result<Vec<Relevance>, Error> {
        let pairs = documents.iter().map(|document| (query, document.as_ref()));
        let pairs = self.tokenize(&pairs.collect::<Vec<_>>())?;
        let mut ranking = self.score_tokens_async(pairs).await?;
        Relevance::sort(&mut ranking);
        Ok(ranking)
    }

    /// Computes how relevant the second text of each pair is to the first, in the order of the pairs:
    /// [`Relevance::index`] is a pair's place.
    ///
    /// # Errors
    ///
    /// As [`Self::rank_async`].
    pub async fn score_async<S: AsRef<str> + Send + 'static>(
        self,
        pairs: Vec<(S, S)>,
    ) -> Result<Vec<Relevance>, Error> {
        let tokens = self.tokenize(&pairs)?;
        self.score_tokens_async(tokens).await
    }

    /// Returns the tokens of which [`Self::score_async`] computes the relevance, for [`Self::score_tokens_async`]: a
    /// server tokenizes long texts on another thread than the one that waits for events.
    ///
    /// # Errors
    ///
    /// If the model does not score pairs of texts, or a text is empty or too long.
    pub fn tokenize<S: AsRef<str>>(&self, pairs: &[(S, S)]) -> Result<Vec<PairTokens>, Error> {
        let tokenizer = self.model.encoder_tokenizer()?;
        let pairs = pairs.iter().map(|(a, b)| (a.as_ref(), b.as_ref()));
        Ok(tokenizer.tokenize_pairs(&pairs.collect::<Vec<_>>(), self.options)?)
    }

    /// Computes the relevance of pairs as [`Self::score_async`] does, from their tokens.
    ///
    /// # Errors
    ///
    /// If the model does not score pairs of texts, one is empty, too long or has an unknown token, or the device fails.
    pub async fn score_tokens_async(self, pairs: Vec<PairTokens>) -> Result<Vec<Relevance>, Error> {
        self.model.encoder_tokenizer()?.check_reranker()?;
        let tokens: Vec<usize> = pairs.iter().map(|pair| pair.tokens.len()).collect();
        let scores = self.model.encode(pairs, EncodeRequest::Scores).await?;
        Ok(Relevance::of_scores(&scores, tokens))
    }

    /// Like [`Self::score_tokens_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::score_tokens_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn score_tokens(self, pairs: Vec<PairTokens>) -> Result<Vec<Relevance>, Error> {
        pollster::block_on(self.score_tokens_async(pairs))
    }

    /// Like [`Self::rank_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::rank_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn rank<T: AsRef<str>>(
        self,
        query: &str,
        documents: &[T],
    ) -> Result<Vec<Relevance>, Error> {
        pollster::block_on(self.rank_async(query, documents))
    }
}
