//! Ranking of documents by their relevance to a query.

use wisp_pipelines::{PipelineError, Relevance, RerankOptions, TextEncoder};

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
        let documents = documents.iter().map(|text| text.as_ref().to_string());
        let documents: Vec<String> = documents.collect();
        let (query, options) = (query.to_string(), self.options);
        let work = self.model.encode(move |encoder: &mut TextEncoder| {
            Box::pin(async move { Ok(encoder.rerank(&query, &documents, options).await?) })
        });
        work.await
    }

    /// Computes how relevant the second text of each pair is to the first, in the order of the pairs:
    /// [`Relevance::index`] is a pair's place.
    ///
    /// # Errors
    ///
    /// As [`Self::rank_async`].
    pub async fn score_async(self, pairs: Vec<(String, String)>) -> Result<Vec<Relevance>, Error> {
        let options = self.options;
        let work = self.model.encode(move |encoder: &mut TextEncoder| {
            Box::pin(async move {
                let pairs = pairs.iter().map(|(a, b)| (a.as_str(), b.as_str()));
                let pairs: Vec<(&str, &str)> = pairs.collect();
                Ok(encoder.relevances(&pairs, options).await?)
            })
        });
        work.await
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
