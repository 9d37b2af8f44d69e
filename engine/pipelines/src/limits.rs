//! Size limits with which a model is loaded.

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
    /// Returns the number of logit rows for a sequence part of `tokens` tokens when the caller asks
    /// for the last `return_n_logits`.
    pub fn rows(self, tokens: usize, return_n_logits: usize) -> usize {
        match self {
            ReturnLogits::LastToken => tokens.min(1),
            ReturnLogits::Variable => tokens.min(return_n_logits),
            ReturnLogits::All => tokens,
        }
    }
}

/// Which hidden states a model returns in addition to its logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnHiddenStates {
    /// No hidden states.
    #[default]
    None,
    /// The last token of each sequence, before the final norm: `[batch, hidden]`.
    Last,
    /// All tokens, before the final norm: `[tokens, hidden]`.
    All,
    /// All tokens, after the final norm: `[tokens, hidden]`.
    AllNormalized,
}

/// Size limits with which a model is loaded. They determine how much memory it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// Tokens of one sequence: prompt and generated tokens together.
    pub max_length: u64,
    /// Sequences that run at the same time.
    pub max_batch: u64,
    /// Sequences whose prompts go through the model in one step.
    pub max_prefill: u64,
    /// Tokens per step.
    pub max_step_tokens: u64,
    /// Tokens per step whose logits are computed; at least `max_batch`.
    pub max_logit_rows: u64,
    /// Positions per page of the KV cache.
    pub page_size: u32,
    /// The largest number of pages of the KV cache; 0: enough for `max_batch` sequences of
    /// `max_length`. If the device or the memory limit has too little room, there are fewer, but
    /// enough for one sequence; then sequences wait for each other's pages.
    pub pages: u64,
    /// Decode steps per submission.
    pub max_steps: u64,
    /// Bytes of device memory that the model may take; 0: no limit.
    pub memory: u64,
    /// Whether sequences with a common prefix share pages.
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
    /// Returns the number of pages that one sequence may own.
    pub fn pages_per_sequence(&self) -> u64 {
        self.max_length.div_ceil(self.page_size.max(1).into())
    }

    /// Returns whether sequences take pages as they grow, rather than one page for the whole context.
    pub fn is_paged(&self) -> bool {
        u64::from(self.page_size) < self.max_length
    }

    /// Returns the number of pages of the whole cache.
    pub fn total_pages(&self) -> u64 {
        if self.pages > 0 {
            self.pages
        } else {
            self.pages_per_sequence() * self.max_batch
        }
    }

    /// Returns the length of the longest sequence that the cache can hold.
    pub fn longest_sequence(&self) -> u64 {
        let positions = self.total_pages().saturating_mul(self.page_size.into());
        self.max_length.min(positions)
    }

    /// Returns the number of tokens that one submission may sample or score.
    pub(crate) fn draws(&self) -> u64 {
        let decoded = self.max_steps.max(1).saturating_mul(self.max_batch);
        decoded.max(self.max_logit_rows)
    }

    /// Returns the layout of the buffers for low-rank adapters; `None` if the model reserves none.
    pub fn lora(&self) -> Option<LoraLayout> {
        let (slots, rank) = (self.max_num_loras, self.max_lora_rank.max(1));
        (slots > 0).then_some(LoraLayout { slots, rank })
    }
}
