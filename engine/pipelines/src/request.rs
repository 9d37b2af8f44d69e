//! Requests, and the sequences that the scheduler creates for them.

use std::sync::Arc;

use wisp_text::grammar::Grammar;

use super::{
    constrained::Constrained, kv_cache::BlockTable, log_probabilities::TokenScore, lora::Adapter,
    sampling::SamplingParams,
};

/// Identifies a request; unique within a generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Identifies who sent a request. Waiting requests are admitted so that all clients are served about as many tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// A request to continue tokens.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Who sent it.
    pub client: ClientId,
    /// The prompt, at least one token.
    pub tokens: Vec<u32>,
    /// How tokens are sampled.
    pub sampling: SamplingParams,
    /// The largest number of tokens to generate.
    pub max_new_tokens: usize,
    /// Tokens that end the sequence; the ending token is not part of the text.
    pub stop_tokens: Vec<u32>,
    /// The low-rank adapter to apply.
    pub adapter: Option<Adapter>,
    /// What the answer must match. Tokens that it forces are not sampled, unless log-probabilities are requested.
    pub constraint: Option<Grammar>,
}

/// A waiting or running request.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub id: RequestId,
    /// Who sent the request.
    pub client: ClientId,
    /// Prompt and generated tokens.
    pub tokens: Vec<u32>,
    /// The number of prompt tokens among them.
    pub prompt_tokens: usize,
    pub sampling: Arc<SamplingParams>,
    pub max_new_tokens: usize,
    pub stop_tokens: Vec<u32>,
    pub adapter: Option<Adapter>,
    /// The row in the page table and in the sampler's state.
    pub slot: u32,
    /// Positions whose keys and values are in the cache.
    pub computed: usize,
    /// Those that are there once all submitted batches have run: where the next part begins.
    pub cached: usize,
    /// The tokens that submitted batches sample, which are not known yet.
    pub in_flight: usize,
    /// Tokens of the prompt that the prefix cache held before the first part ran; `None` before the first admission.
    pub prefix_hit: Option<usize>,
    /// True once a part of it has run, also if it starts over.
    pub has_run: bool,
    /// The pages of the KV cache.
    pub table: BlockTable,
    /// The row of the recurrent state that the next part continues, if it is not the sequence's own.
    pub state: Option<u32>,
    /// The rows of the snapshots that submitted parts of the prompt write, until their results are accepted.
    pub snapshots: Vec<u32>,
    /// True once the sampler knows the sequence's tokens and biases.
    pub in_sampler: bool,
    /// Log-probabilities of the prompt's tokens from the second on that no event has reported yet.
    pub prompt_scores: Vec<TokenScore>,
    /// What the answer must match.
    pub constraint: Option<Constrained>,
    /// The number of last tokens that the constraint forced and no event has reported yet.
    pub unreported: usize,
}

impl Sequence {
    pub fn new(id: RequestId, request: Request) -> Sequence {
        let jumps = request.sampling.log_probs.is_none();
        let constraint = request.constraint;
        Sequence {
            id,
            client: request.client,
            prompt_tokens: request.tokens.len(),
            tokens: request.tokens,
            sampling: Arc::new(request.sampling.with_distinct_biases()),
            max_new_tokens: request.max_new_tokens,
            stop_tokens: request.stop_tokens,
            adapter: request.adapter,
            slot: 0,
            computed: 0,
            cached: 0,
            in_flight: 0,
            prefix_hit: None,
            has_run: false,
            table: BlockTable::default(),
            state: None,
            snapshots: Vec::new(),
            in_sampler: false,
            prompt_scores: Vec::new(),
            constraint: constraint.map(|grammar| Constrained::new(&grammar, jumps)),
            unreported: 0,
        }
    }

    /// Returns the tokens generated so far.
    pub fn generated(&self) -> &[u32] {
        &self.tokens[self.prompt_tokens..]
    }

    /// Returns whether the prompt's log-probabilities are requested and not computed yet.
    pub fn scores_prompt(&self) -> bool {
        self.sampling.scores_prompt() && self.length() == self.prompt_tokens
    }

    /// Returns the number of tokens, with those in flight.
    pub fn length(&self) -> usize {
        self.tokens.len() + self.in_flight
    }
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model ended the text, or a stop string was found.
    Stop,
    /// The largest number of tokens was reached, or the context is full.
    Length,
    /// The caller cancelled it.
    Cancelled,
    /// The model computed no finite logits, so no token can be sampled.
    NonFinite,
    /// The tokens that the constraint allows cannot be computed within its limits, or the vocabulary has no token for
    /// what must follow.
    ConstraintFailed,
    /// A step failed that another call ran, which returned the error.
    Failed,
}

/// Why a request can never run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Occurs when the prompt is empty.
    #[error("the prompt has no tokens")]
    Empty,
    /// Occurs when the prompt is longer than the context. One that fills it gets a single token, which needs no place
    /// in the cache.
    #[error(
        "the prompt has {tokens} tokens, but the context holds {max_length}: shorten it or raise `max_length`"
    )]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The largest number of tokens of a sequence.
        max_length: usize,
    },
    /// Occurs when the whole cache is too small for the prompt.
    #[error("the prompt needs {needed} pages of KV cache, but there are {pages}")]
    TooLargeForCache {
        /// Pages needed.
        needed: usize,
        /// Pages in the cache.
        pages: usize,
    },
}
