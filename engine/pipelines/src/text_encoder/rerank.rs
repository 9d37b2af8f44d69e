//! Ranks documents by their relevance to a query, with a model that scores both as one text (a
//! cross-encoder).

use web_time::Instant;
use wisp_text::tokenizer::PairTokens;

use super::{EncodeError, TextEncoder};
use crate::{PipelineError, spec::ScoreHead};

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

impl Relevance {
    /// Returns the relevances that a reranker's scores of pairs express, of which each has so many tokens.
    pub fn of_scores(
        scores: &[Vec<f32>],
        tokens: impl IntoIterator<Item = usize>,
    ) -> Vec<Relevance> {
        // The sigmoid of the difference is the probability of `yes` among both answers.
        let logits = scores.iter().map(|scores| match scores[..] {
            [yes, no] => yes - no,
            _ => scores.first().copied().unwrap_or_default(),
        });
        let relevance = logits.zip(tokens).enumerate();
        let relevance = relevance.map(|(index, (logit, tokens))| Relevance {
            index,
            logit,
            score: 1.0 / (1.0 + (-logit).exp()),
            tokens,
        });
        relevance.collect()
    }

    /// Sorts relevances, the greatest first. Equal ones stay in their order.
    pub fn sort(relevances: &mut [Relevance]) {
        relevances.sort_by(|a, b| b.logit.total_cmp(&a.logit));
    }
}

/// The error of a model that does not score texts.
fn no_head() -> EncodeError {
    EncodeError::NotAReranker {
        problem: "the model has no head that scores texts".into(),
    }
}

/// Checks that a head scores pairs of texts with one number: one label, or two answers.
///
/// # Errors
///
/// [`EncodeError::NotAReranker`] if it does not, or there is none.
pub(super) fn check_head(head: Option<ScoreHead>) -> Result<(), EncodeError> {
    let head = head.ok_or_else(no_head)?;
    match head.labels {
        1 => Ok(()),
        2 if head.answers.is_some() => Ok(()),
        labels => Err(EncodeError::NotAReranker {
            problem: format!("the model has {labels} labels instead of one score"),
        }),
    }
}

impl TextEncoder {
    /// Returns the model's head that scores texts.
    pub(super) fn score_head(&self) -> Result<ScoreHead, PipelineError> {
        Ok(self.encoder.score.ok_or_else(no_head)?)
    }

    /// Computes the scores of texts that were checked, in as many batches as they need.
    pub(super) async fn compute_scores(
        &mut self,
        texts: &[&PairTokens],
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let head = self.score_head()?;
        let tokens: Vec<&[u32]> = texts.iter().map(|text| text.tokens.as_slice()).collect();
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
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_rerankers_give_one_number() {
        let head = |labels, answers| ScoreHead {
            answers,
            ..ScoreHead::bert(labels)
        };
        assert_eq!(check_head(Some(head(1, None))), Ok(()));
        assert_eq!(check_head(Some(head(2, Some([7, 8])))), Ok(()));
        assert!(check_head(Some(head(2, None))).is_err());
        assert!(check_head(None).is_err());
    }

    #[test]
    fn two_answers_are_scored_by_their_difference() {
        let ranked = Relevance::of_scores(&[vec![0.0], vec![3.0, 1.0]], [4, 5]);
        assert_eq!((ranked[0].logit, ranked[0].score), (0.0, 0.5));
        let second = (ranked[1].index, ranked[1].logit, ranked[1].tokens);
        assert_eq!(second, (1, 2.0, 5));
    }
}
