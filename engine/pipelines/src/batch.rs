//! Batches: the work of one step of the scheduler.

use std::sync::Arc;

use super::{Adapter, RequestId, SamplingParams};

/// The complete input of one step: tokens, positions, pages, adapters and sampling settings of every
/// sequence that takes part.
///
/// Batches are ragged: each sequence contributes any number of tokens, so prefill, chunked prefill,
/// decode and any mix of them use the same path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The parts of the sequences, in token order.
    pub sequences: Vec<BatchSequence>,
    /// Decode steps to run before results are read back. More than 1 only if every part is one token
    /// from whose logits a token is sampled.
    pub steps: usize,
}

/// One sequence's part of a [`Batch`]: tokens that follow those in its KV cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchSequence {
    /// The request that the sequence belongs to.
    pub id: RequestId,
    /// The sequence's row in the page table and in the sampler's state, below `max_batch`. The
    /// sequence keeps the row while it runs, because layers with a sliding window store their keys and
    /// values by row.
    pub slot: u32,
    /// The position of the first token.
    pub start: u32,
    /// The tokens, at least one.
    pub tokens: Vec<u32>,
    /// True if the part is the one token that the batch before samples, which is not known yet: 0 stands for it in
    /// [`Self::tokens`], and the device has it when the batch runs.
    pub awaits_token: bool,
    /// The sequence's block table: the pages of its KV cache in position order, enough for all tokens
    /// of the batch's steps.
    pub pages: Vec<u32>,
    /// The row of the recurrent state that the part continues, if it is not the sequence's own, which is
    /// that of its slot. At position 0 no row is read.
    pub state_read: Option<u32>,
    /// The row that the state after the part's tokens is written to, if it is not the sequence's own:
    /// that of a snapshot. Further steps of the batch continue from it, and write to the own row.
    pub state_written: Option<u32>,
    /// The low-rank adapter of the request.
    pub adapter: Option<Adapter>,
    /// The number of last tokens that need logits: 0 within a prompt, 1 at its end and in decode, all
    /// tokens if the prompt's log-probabilities are requested.
    pub logit_rows: usize,
    /// True if a token is sampled from the last token's logits.
    pub samples: bool,
    /// True if only tokens that the request's constraint allows may be sampled.
    pub constrained: bool,
    /// The token after the last one, if it is already known.
    pub following: Option<u32>,
    /// How tokens are sampled.
    pub sampling: Arc<SamplingParams>,
    /// What the sampler needs to know of the sequence so far. Set in the sequence's first part that needs
    /// logits, and `None` in all others.
    pub history: Option<TokenHistory>,
}

/// The tokens of a sequence that the sampler's penalties count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenHistory {
    /// Prompt and generated tokens; none if the request has no penalties.
    pub tokens: Vec<u32>,
    /// The number of prompt tokens among them.
    pub prompt_tokens: usize,
}

impl Batch {
    /// Returns whether the batch has no sequences.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Returns the requests that the sequences belong to.
    pub fn requests(&self) -> Vec<RequestId> {
        self.sequences.iter().map(|part| part.id).collect()
    }

    /// Returns whether each sequence has one token, as in decode.
    pub(crate) fn decodes(&self) -> bool {
        self.sequences.iter().all(|part| part.tokens.len() == 1)
    }

    /// Returns the number of tokens that go through the model in the first step.
    pub fn tokens(&self) -> usize {
        self.sequences.iter().map(|part| part.tokens.len()).sum()
    }

    /// Returns the number of tokens whose logits are computed in each step.
    pub fn logit_rows(&self) -> usize {
        self.sequences.iter().map(|part| part.logit_rows).sum()
    }
}

impl BatchSequence {
    /// Creates a part without a request: tokens from position `start` on, with the logits of the last
    /// one.
    pub fn new(slot: u32, start: u32, tokens: &[u32], pages: &[u32]) -> BatchSequence {
        BatchSequence {
            slot,
            start,
            tokens: tokens.to_vec(),
            pages: pages.to_vec(),
            logit_rows: 1,
            ..BatchSequence::default()
        }
    }

    /// Returns the same part with the logits of its last `rows` tokens.
    #[must_use]
    pub fn with_logit_rows(self, rows: usize) -> BatchSequence {
        let logit_rows = rows.min(self.tokens.len());
        BatchSequence { logit_rows, ..self }
    }

    /// Returns the tokens with logits: each one's position and, if known, the token after it.
    pub fn logit_positions(&self) -> impl Iterator<Item = (u32, Option<u32>)> + '_ {
        let first = self.tokens.len() - self.logit_rows.min(self.tokens.len());
        (first..self.tokens.len()).map(move |at| {
            let following = self.tokens.get(at + 1).copied().or(self.following);
            (self.start + at as u32, following)
        })
    }
}

/// The results of a step for one sequence of a [`Batch`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceOutput {
    /// The sampled tokens, one per step; empty if the part does not sample.
    pub tokens: Vec<u32>,
    /// Their log-probabilities, if requested.
    pub scores: Vec<super::TokenScore>,
    /// The log-probabilities of the prompt tokens that follow the part's tokens, if requested.
    pub prompt_scores: Vec<super::TokenScore>,
    /// True if the logit of a prompt token whose log-probability is requested is not finite.
    pub not_finite: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logit_positions_are_the_last_ones_with_the_tokens_that_follow() {
        let part = BatchSequence::new(2, 5, &[7, 8, 9], &[4]);
        let positions = |part: &BatchSequence| part.logit_positions().collect::<Vec<_>>();
        assert_eq!(positions(&part), [(7, None)]);
        let scored = BatchSequence {
            following: Some(3),
            ..part.with_logit_rows(9)
        };
        assert_eq!(
            positions(&scored),
            [(5, Some(8)), (6, Some(9)), (7, Some(3))]
        );
    }
}
