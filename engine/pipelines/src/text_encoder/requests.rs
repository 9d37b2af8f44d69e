//! Requests of several callers, whose texts an encoder computes together.

use std::sync::Arc;

use wisp_text::tokenizer::PairTokens;

use super::{
    EncodeOptions, TextEncoder,
    batches::{check, finite},
};
use crate::PipelineError;

/// Texts for an encoder, and what it computes of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeRequest {
    /// The last hidden states of its tokens: `[tokens, width]`.
    HiddenStates(Vec<Vec<u32>>),
    /// An embedding.
    Embeddings(Vec<Vec<u32>>, EncodeOptions),
    /// The scores `[labels]` by the model's head, perhaps of two texts as one.
    Scores(Vec<PairTokens>),
}

/// What an encoder computed of each text of a request. Requests that failed together share an error.
pub type EncodeResult = Result<Vec<Vec<f32>>, Arc<PipelineError>>;

impl EncodeRequest {
    /// Returns the tokens of each text.
    pub fn texts(&self) -> Vec<&[u32]> {
        match self {
            EncodeRequest::HiddenStates(texts) | EncodeRequest::Embeddings(texts, _) => {
                texts.iter().map(Vec::as_slice).collect()
            }
            EncodeRequest::Scores(texts) => {
                texts.iter().map(|text| text.tokens.as_slice()).collect()
            }
        }
    }

    /// Returns whether texts are scored. They share no batches with others, of which the hidden states are read.
    pub fn is_scored(&self) -> bool {
        matches!(self, EncodeRequest::Scores(_))
    }
}

impl TextEncoder {
    /// Computes the results of several requests, whose texts share batches. An error of one request's texts or options is
    /// the result of that request alone; texts are counted from 1 in each request.
    pub async fn run_requests(&mut self, requests: &[EncodeRequest]) -> Vec<EncodeResult> {
        let checked = requests.iter().map(|request| self.check_request(request));
        let checked = checked.map(|result| result.map_err(Arc::new));
        let checked: Vec<Result<(), Arc<PipelineError>>> = checked.collect();
        let mut texts: Vec<&[u32]> = Vec::new();
        let mut scored: Vec<&PairTokens> = Vec::new();
        for (request, checked) in requests.iter().zip(&checked) {
            match request {
                _ if checked.is_err() => {}
                EncodeRequest::Scores(own) => scored.extend(own),
                _ => texts.extend(request.texts()),
            }
        }
        let states = self.compute_states(&texts).await.map_err(Arc::new);
        let scores = match scored.is_empty() {
            true => Ok(Vec::new()),
            false => self.compute_scores(&scored).await.map_err(Arc::new),
        };
        let (mut states, mut scores) = (states.map(Vec::into_iter), scores.map(Vec::into_iter));
        let mut results = Vec::with_capacity(requests.len());
        for (request, checked) in requests.iter().zip(checked) {
            let rows = match request.is_scored() {
                true => scores.as_mut(),
                false => states.as_mut(),
            };
            results.push(match (checked, rows) {
                (Err(error), _) => Err(error),
                (Ok(()), Err(error)) => Err(error.clone()),
                (Ok(()), Ok(rows)) => {
                    let own = rows.take(request.texts().len()).collect();
                    self.finish(request, own).map_err(Arc::new)
                }
            });
        }
        results
    }

    /// Checks the texts and options of a request.
    fn check_request(&self, request: &EncodeRequest) -> Result<(), PipelineError> {
        match request {
            EncodeRequest::HiddenStates(_) => {}
            EncodeRequest::Embeddings(_, options) => {
                self.pooling(*options)?;
            }
            EncodeRequest::Scores(_) => {
                self.score_head()?;
            }
        }
        check(&self.spec, self.limits.max_length, &request.texts())
    }

    /// Returns the result of a request for whose texts the model computed these rows.
    fn finish(
        &self,
        request: &EncodeRequest,
        rows: Vec<Vec<f32>>,
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let rows = finite(rows)?;
        match request {
            EncodeRequest::Embeddings(_, options) => {
                Ok(self.pooled(rows, self.pooling(*options)?, *options))
            }
            EncodeRequest::HiddenStates(_) | EncodeRequest::Scores(_) => Ok(rows),
        }
    }
}
