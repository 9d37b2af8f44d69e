//! Requests: what is asked for, and how far it has come.

use super::{
    kv_cache::BlockTable, log_probabilities::TokenScore, lora::Adapter, sampling::SamplingParams,
};

/// What names a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A request, as it comes.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt, at least one token.
    pub tokens: Vec<u32>,
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Most tokens to generate.
    pub max_new_tokens: usize,
    /// Tokens that end the text.
    pub stop_tokens: Vec<u32>,
    /// The adapter that changes the model for it, if one does.
    pub adapter: Option<Adapter>,
}

/// A request on its way through the scheduler.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The request.
    pub id: RequestId,
    /// Prompt and generated tokens.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// How its tokens are drawn.
    pub sampling: SamplingParams,
    /// Most tokens to generate.
    pub max_new_tokens: usize,
    /// Tokens that end it; the ending token is not part of the text.
    pub stop_tokens: Vec<u32>,
    /// The adapter that changes the model for it, if one does.
    pub adapter: Option<Adapter>,
    /// Its row in the page table and the sampler's state.
    pub slot: u32,
    /// Positions whose keys and values are in the cache.
    pub(super) cached: usize,
    /// The pages of its cache.
    pub(super) table: BlockTable,
    /// What is known of the prompt's tokens, from the second on, and not told yet.
    pub(super) prompt_scores: Vec<TokenScore>,
}

impl Sequence {
    pub(super) fn new(id: RequestId, request: Request) -> Sequence {
        Sequence {
            id,
            prompt_tokens: request.tokens.len(),
            tokens: request.tokens,
            sampling: request.sampling,
            max_new_tokens: request.max_new_tokens,
            stop_tokens: request.stop_tokens,
            adapter: request.adapter,
            slot: 0,
            cached: 0,
            table: BlockTable::default(),
            prompt_scores: Vec::new(),
        }
    }

    /// The pages of its cache.
    pub fn block_table(&self) -> &BlockTable {
        &self.table
    }

    /// Tokens generated so far.
    pub fn generated(&self) -> &[u32] {
        &self.tokens[self.prompt_tokens..]
    }

    /// True if scores of the prompt are wanted and not all told: none is drawn before they are.
    pub(super) fn scores_prompt(&self) -> bool {
        self.sampling.scores_prompt() && self.generated().is_empty()
    }
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended the text, or a stop string was met.
    Stop,
    /// As many tokens as were allowed, or the context is full.
    Length,
    /// The caller ended it.
    Cancelled,
}

/// Occurs when a request cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Occurs when the prompt is empty.
    #[error("the prompt has no tokens")]
    Empty,
    /// Occurs when the prompt leaves no room.
    #[error(
        "the prompt has {tokens} tokens, but the context holds {max_length}: shorten it or raise --max-length"
    )]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The context.
        max_length: usize,
    },
    /// Occurs when the cache cannot hold the prompt even alone.
    #[error("the prompt needs {needed} pages of KV cache, but there are {pages}")]
    TooLargeForCache {
        /// Pages needed.
        needed: usize,
        /// Pages there are.
        pages: usize,
    },
}
