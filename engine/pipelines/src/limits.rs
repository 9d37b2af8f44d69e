//! The sizes that a model is made for.

use wisp_graph::CacheFormat;

use crate::spec::LoraLayout;

/// Which tokens of a batch a model computes logits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnLogits {
    /// The last token of each sequence.
    #[default]
    LastToken,
    /// As many tokens at the end of each sequence as the caller asks for.
    Variable,
    /// All tokens.
    All,
}

impl ReturnLogits {
    /// The number of logit rows of a sequence with so many `tokens`, of which the caller asks for the
    /// last `return_n_logits`.
    pub fn rows(self, tokens: usize, return_n_logits: usize) -> usize {
        match self {
            ReturnLogits::LastToken => tokens.min(1),
            ReturnLogits::Variable => tokens.min(return_n_logits),
            ReturnLogits::All => tokens,
        }
    }
}

/// Which hidden states a model returns beside its logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnHiddenStates {
    /// None.
    #[default]
    None,
    /// The last token of each sequence, before the final norm: `[batch, hidden]`.
    Last,
    /// All tokens, before the final norm: `[tokens, hidden]`.
    All,
    /// All tokens, after the final norm: `[tokens, hidden]`.
    AllNormalized,
}

/// Sizes that a model is made for. They decide how much memory it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// Tokens of one sequence, prompt and generated ones together.
    pub max_length: u64,
    /// Sequences that run at the same time.
    pub max_batch: u64,
    /// Sequences whose prompts go through the model in one step.
    pub max_prefill: u64,
    /// Tokens in one step.
    pub max_step_tokens: u64,
    /// Tokens in one step whose logits are computed; at least `max_batch`.
    pub max_logit_rows: u64,
    /// Positions in a page of the KV cache.
    pub page_size: u32,
    /// Pages of the KV cache at the most; 0: enough for `max_batch` sequences of `max_length`. Where
    /// the device or the memory has no room for them there are fewer, enough for one sequence; then
    /// sequences wait for each other's pages.
    pub pages: u64,
    /// Decode steps in one submission.
    pub max_steps: u64,
    /// Bytes of device memory that the model may take; 0: no limit.
    pub memory: u64,
    /// Sequences whose tokens begin alike share pages.
    pub prefix_caching: bool,
    /// Low-rank adapters that can be loaded at the same time; 0: none.
    pub max_num_loras: u64,
    /// The highest rank of an adapter.
    pub max_lora_rank: u64,
    /// How the KV cache stores its elements.
    pub cache_format: CacheFormat,
    /// Which tokens logits are computed for.
    pub return_logits: ReturnLogits,
    /// Which hidden states are returned.
    pub return_hidden_states: ReturnHiddenStates,
}

impl Default for ModelLimits {
    fn default() -> ModelLimits {
        ModelLimits {
            max_length: 2048,
            max_batch: 1,
            max_prefill: 32,
            max_step_tokens: 512,
            max_logit_rows: 1,
            page_size: 32,
            pages: 0,
            max_steps: 8,
            memory: 0,
            prefix_caching: false,
            max_num_loras: 0,
            max_lora_rank: 16,
            cache_format: CacheFormat::F32,
            return_logits: ReturnLogits::LastToken,
            return_hidden_states: ReturnHiddenStates::None,
        }
    }
}

impl ModelLimits {
    /// Pages that one sequence may own.
    pub fn pages_per_sequence(&self) -> u64 {
        self.max_length.div_ceil(self.page_size.max(1).into())
    }

    /// True if sequences take pages as they grow, rather than one page for the whole context.
    pub fn is_paged(&self) -> bool {
        u64::from(self.page_size) < self.max_length
    }

    /// Pages of the whole cache.
    pub fn total_pages(&self) -> u64 {
        if self.pages > 0 {
            self.pages
        } else {
            self.pages_per_sequence() * self.max_batch
        }
    }

    /// The longest sequence that the cache can hold.
    pub fn longest_sequence(&self) -> u64 {
        let positions = self.total_pages().saturating_mul(self.page_size.into());
        self.max_length.min(positions)
    }

    /// Tokens that one submission may sample or score.
    pub(crate) fn draws(&self) -> u64 {
        let decoded = self.max_steps.max(1).saturating_mul(self.max_batch);
        decoded.max(self.max_logit_rows)
    }

    /// The buffers for low-rank adapters; `None` if the model has no room for any.
    pub fn lora(&self) -> Option<LoraLayout> {
        let (slots, rank) = (self.max_num_loras, self.max_lora_rank.max(1));
        (slots > 0).then_some(LoraLayout { slots, rank })
    }
}
