//! Ranks documents by their relevance to a query, with a model that scores both as one text (a
//! cross-encoder).

use web_time::Instant;
use wisp_text::tokenizer::PairTokens;

use super::{EncodeError, TextEncoder, batches::check};
use crate::PipelineError;

/// How documents are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RerankOptions {
    /// Whether a query and a document that are too long for the model together are cut, the longer one
    /// first; by default they are an error.
    pub truncate: bool,
}

/// How relevant a document is to a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relevance {
    /// The document's index among those given.
    pub index: usize,
    /// The model's score as it is.
    pub logit: f32,
    /// The sigmoid of the model's score, from 0 to 1.
    pub score: f32,
    /// Tokens of the query and the document together.
    pub tokens: usize,
}

impl TextEncoder {
    /// Computes the scores `[labels]` of each text, which may be a pair of texts, with the model's head.
    ///
    /// # Errors
    ///
    /// If the model has no head that scores texts; if a text is empty, too long or has an unknown token;
    /// if the device fails.
    pub async fn scores(&mut self, texts: &[PairTokens]) -> Result<Vec<Vec<f32>>, PipelineError> {
        let Some(head) = self.encoder.score else {
            let problem = "the model has no head that scores texts".into();
            return Err(EncodeError::NotAReranker { problem }.into());
        };
        let tokens: Vec<&[u32]> = texts.iter().map(|text| text.tokens.as_slice()).collect();
        check(&self.spec, self.limits.max_length, &tokens)?;
        let mut all = Vec::with_capacity(texts.len());
        while all.len() < texts.len() {
            let since = Instant::now();
            let batch = all.len()..all.len() + self.next_batch(&tokens[all.len()..]);
            let types = texts[batch.clone()]
                .iter()
                .map(|text| text.types.as_slice());
            let types: Vec<u32> = types.flatten().copied().collect();
            let most =
                u32::try_from(self.encoder.token_types.saturating_sub(1)).unwrap_or(u32::MAX);
            let types: Vec<u32> = types.into_iter().map(|segment| segment.min(most)).collect();
            self.execute(&tokens[batch.clone()], &types).await?;
            let elements = batch.len() as u64 * head.labels;
            let scores: Vec<f32> = self.model.read("scores", elements).await?;
            let count = tokens[batch].iter().map(|text| text.len() as u64).sum();
            self.pace
                .observe_prompt(count, since.elapsed().as_secs_f64());
            all.extend(scores.chunks(head.labels as usize).map(<[f32]>::to_vec));
        }
        let is_finite = |scores: &Vec<f32>| scores.iter().all(|score| score.is_finite());
        match all.iter().position(|scores| !is_finite(scores)) {
            Some(at) => Err(EncodeError::NotFinite { text: at + 1 }.into()),
            None => Ok(all),
        }
    }

    /// Computes how relevant the second text of each pair is to the first, in the order of the pairs.
    ///
    /// # Errors
    ///
    /// If the model does not score pairs of texts with one label, a text is empty or too long, or the
    /// device fails.
    pub async fn relevances(
        &mut self,
        pairs: &[(&str, &str)],
        options: RerankOptions,
    ) -> Result<Vec<Relevance>, PipelineError> {
        let judges = self
            .encoder
            .score
            .is_some_and(|head| head.answers.is_some());
        match self.encoder.score.map(|head| head.labels) {
            Some(1) => {}
            Some(2) if judges => {}
            Some(labels) => {
                let problem = format!("the model has {labels} labels instead of one score");
                return Err(EncodeError::NotAReranker { problem }.into());
            }
            None => {
                let problem = "the model has no head that scores texts".into();
                return Err(EncodeError::NotAReranker { problem }.into());
            }
        }
        let pairs = (1..).zip(pairs).map(|(number, (query, document))| {
            self.tokenizer
                .tokenize_pair(number, query, document, options.truncate)
        });
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        let scores = self.scores(&pairs).await?;
        // The sigmoid of the difference is the probability of `yes` among both answers.
        let logits = scores.iter().map(|scores| match scores[..] {
            [yes, no] => yes - no,
            _ => scores.first().copied().unwrap_or_default(),
        });
        let relevance = logits.zip(&pairs).enumerate();
        let relevance = relevance.map(|(index, (logit, pair))| Relevance {
            index,
            logit,
            score: 1.0 / (1.0 + (-logit).exp()),
            tokens: pair.tokens.len(),
        });
        Ok(relevance.collect())
    }

    /// Ranks documents by their relevance to a query: the most relevant first, and of equally relevant
    /// ones the first given.
    ///
    /// # Errors
    ///
    /// As [`Self::relevances`].
    pub async fn rerank<T: AsRef<str>>(
        &mut self,
        query: &str,
        documents: &[T],
        options: RerankOptions,
    ) -> Result<Vec<Relevance>, PipelineError> {
        let pairs = documents.iter().map(|document| (query, document.as_ref()));
        let pairs: Vec<(&str, &str)> = pairs.collect();
        let mut ranking = self.relevances(&pairs, options).await?;
        ranking.sort_by(|a, b| b.logit.total_cmp(&a.logit));
        Ok(ranking)
    }

    /// Like [`Self::rerank`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::rerank`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn rerank_blocking<T: AsRef<str>>(
        &mut self,
        query: &str,
        documents: &[T],
        options: RerankOptions,
    ) -> Result<Vec<Relevance>, PipelineError> {
        pollster::block_on(self.rerank(query, documents, options))
    }

    /// Like [`Self::scores`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::scores`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn scores_blocking(
        &mut self,
        texts: &[PairTokens],
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        pollster::block_on(self.scores(texts))
    }
}
