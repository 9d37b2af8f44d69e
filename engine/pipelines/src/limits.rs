//! Size limits with which a model is loaded.

use wisp_graph::CacheFormat;
use wisp_types::Capabilities;

use crate::{
    PipelineError,
    config::{ConfigError, LayerEmbeddingsPlacement},
    spec::LoraLayout,
};

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
    /// Tokens of one sequence: prompt and generated tokens together; 0: [`ModelLimits::DEFAULT_LENGTH`], or
    /// the context that the model was trained for if that is shorter. More than the model supports is an
    /// error. A loaded model has resolved it, and a model of your own sets it.
    pub max_length: u64,
    /// Sequences that run at the same time.
    pub max_batch: u64,
    /// Sequences whose prompts go through the model in one step.
    pub max_prefill: u64,
    /// Tokens per step; at least `max_batch`.
    pub max_step_tokens: u64,
    /// The most tokens of prompts in one step; 0: as many as the step has room for.
    pub max_prompt_tokens: u64,
    /// Tokens per step whose logits are computed; at least `max_batch`.
    pub max_logit_rows: u64,
    /// Positions per page of the KV cache.
    pub page_size: u32,
    /// The largest number of pages of the KV cache; 0: enough for `max_batch` sequences of
    /// `max_length`. If the device or the memory limit has too little room, there are fewer, but
    /// enough for one sequence; then sequences wait for each other's pages.
    pub pages: u64,
    /// The most pages that the KV cache gets in addition to [`Self::pages`], from memory that [`Self::memory`] leaves
    /// when everything else has its room; without a memory limit it gets none. A loaded model counts them in
    /// [`Self::pages`].
    pub extra_pages: u64,
    /// The most decode steps per submission; 0: as many as suit the device. Submitting
    /// takes the host some time, which several steps share: 4 on an adapter. On the host a call runs its steps
    /// itself, so that more than 1 would only delay the text.
    pub max_steps: u64,
    /// Bytes of device memory that the model may take; 0: no limit.
    pub memory: u64,
    /// Whether sequences with a common prefix share pages.
    pub prefix_caching: bool,
    /// Rows for snapshots of a recurrent state, which prefix caching needs in models that have one. A model
    /// sets it when it is loaded.
    pub state_snapshots: u64,
    /// Low-rank adapters that can be loaded at the same time; 0: none.
    pub max_num_loras: u64,
    /// The highest rank of an adapter.
    pub max_lora_rank: u64,
    /// How the KV cache stores its elements. The default here is single precision on every device;
    /// [`PipelineConfig::limits`](crate::PipelineConfig::limits) takes the default of the device.
    pub cache_format: CacheFormat,
    /// Where the embeddings by layer are. A model that is loaded has resolved
    /// [`Auto`](LayerEmbeddingsPlacement::Auto), with [`Self::max_steps`] of 1 if they are on the host.
    pub layer_embeddings: LayerEmbeddingsPlacement,
    /// Which tokens logits are computed for.
    pub return_logits: ReturnLogits,
    /// Which hidden states are returned.
    pub return_hidden_states: ReturnHiddenStates,
}

impl Default for ModelLimits {
    fn default() -> ModelLimits {
        ModelLimits {
            max_length: 0,
            max_batch: 1,
            max_prefill: 32,
            max_step_tokens: 512,
            max_prompt_tokens: 0,
            max_logit_rows: 1,
            page_size: 32,
            pages: 0,
            extra_pages: 0,
            max_steps: 0,
            memory: 0,
            prefix_caching: false,
            state_snapshots: 0,
            max_num_loras: 0,
            max_lora_rank: 16,
            cache_format: CacheFormat::F32,
            layer_embeddings: LayerEmbeddingsPlacement::Auto,
            return_logits: ReturnLogits::LastToken,
            return_hidden_states: ReturnHiddenStates::None,
        }
    }
}

/// The most sequences of a batch.
const MAX_BATCH: u64 = 1 << 16;

/// The most decode steps of a submission.
const MAX_STEPS: u64 = 1 << 12;

/// The most pages of a KV cache.
const MAX_PAGES: u64 = 1 << 22;

/// The most entries of a page table.
const MAX_PAGE_TABLE: u64 = 1 << 26;

impl ModelLimits {
    /// The length of a context that [`Self::max_length`] does not set, unless the model's is shorter.
    pub const DEFAULT_LENGTH: u64 = 2048;

    /// Returns the limits with the default context of a model that was trained for sequences of `trained` tokens, if
    /// they set none.
    pub(crate) fn with_length(self, trained: u64) -> ModelLimits {
        let max_length = match self.max_length {
            0 => ModelLimits::DEFAULT_LENGTH.min(trained),
            given => given,
        };
        ModelLimits { max_length, ..self }
    }

    /// Returns the limits for a model that was trained for sequences of `trained` tokens and can be loaded for `max`.
    ///
    /// # Errors
    ///
    /// If a longer sequence is asked for.
    pub(crate) fn within_context(self, trained: u64, max: u64) -> Result<ModelLimits, ConfigError> {
        let limits = self.with_length(trained);
        if limits.max_length > max {
            let max_length = limits.max_length;
            return Err(ConfigError::TooLong { max_length, max });
        }
        Ok(limits)
    }

    /// Returns the limits with as many decode steps per submission as suit a target, if they set none.
    pub(crate) fn for_target(self, target: &Capabilities) -> ModelLimits {
        let max_steps = match self.max_steps {
            0 if target.is_host => 1,
            0 => 4,
            given => given,
        };
        ModelLimits { max_steps, ..self }
    }

    /// Returns the limits of a model with its embeddings by layer at a place. The host must know the tokens of a step
    /// before it writes their embeddings, so a submission has one step then.
    pub(crate) fn with_layer_embeddings(self, placement: LayerEmbeddingsPlacement) -> ModelLimits {
        ModelLimits {
            layer_embeddings: placement,
            max_steps: match placement {
                LayerEmbeddingsPlacement::Host => 1,
                _ => self.max_steps,
            },
            ..self
        }
    }

    /// Checks that no limit is zero, and that none makes the host's tables absurdly large.
    ///
    /// # Errors
    ///
    /// The first limit that is.
    pub(crate) fn check(&self) -> Result<(), PipelineError> {
        let page_table = self.pages_per_sequence().saturating_mul(self.max_batch);
        let limits = [
            ("max_length", self.max_length, u64::MAX),
            ("max_batch", self.max_batch, MAX_BATCH),
            ("max_step_tokens", self.max_step_tokens, u64::MAX),
            ("max_steps", self.max_steps.max(1), MAX_STEPS),
            ("page_size", self.page_size.into(), u32::MAX.into()),
            ("pages", self.total_pages(), MAX_PAGES),
            (
                "max_batch * max_length / page_size",
                page_table,
                MAX_PAGE_TABLE,
            ),
        ];
        match limits
            .into_iter()
            .find(|(_, value, max)| !(1..=*max).contains(value))
        {
            None => Ok(()),
            Some((field, value, max)) => Err(PipelineError::Limits { field, value, max }),
        }
    }

    /// Checks what [`Self::check`] does, and that a step has room for one token of every sequence of a batch. Models of
    /// Wisp's own raise the limits of a step instead.
    ///
    /// # Errors
    ///
    /// As [`Self::check`], with the largest batch for these limits of a step.
    pub(crate) fn check_loaded(&self) -> Result<(), PipelineError> {
        self.check()?;
        let max = self.max_step_tokens.min(self.max_logit_rows);
        if self.max_batch <= max {
            return Ok(());
        }
        Err(PipelineError::Limits {
            field: "max_batch",
            value: self.max_batch,
            max,
        })
    }

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
            self.pages_per_sequence().saturating_mul(self.max_batch)
        }
    }

    /// Returns the limits with a KV cache that grows into memory which nothing else needs, until it holds `max_batch`
    /// sequences of `max_length`.
    pub fn filling_memory(self) -> ModelLimits {
        let whole = self.pages_per_sequence().saturating_mul(self.max_batch);
        ModelLimits {
            extra_pages: whole.min(MAX_PAGES).saturating_sub(self.total_pages()),
            ..self
        }
    }

    /// Returns the number of rows of a recurrent state: one for each sequence that runs, and those for
    /// snapshots.
    pub fn state_rows(&self) -> u64 {
        self.max_batch.saturating_add(self.state_snapshots)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_loaded_model_have_room_for_a_batch() {
        let limits = |max_batch, max_step_tokens, max_logit_rows| ModelLimits {
            max_batch,
            max_step_tokens,
            max_logit_rows,
            max_length: 64,
            ..ModelLimits::default()
        };
        assert!(limits(4, 4, 4).check_loaded().is_ok());
        for (limits, most) in [(limits(4, 512, 2), 2), (limits(4, 3, 8), 3)] {
            let error = limits.check_loaded().unwrap_err().to_string();
            assert!(error.contains("`max_batch`"), "{error}");
            assert!(error.contains(&format!("1 to {most} ")), "{error}");
        }
    }

    #[test]
    fn default_length_is_at_most_the_trained_one() {
        let within = |max_length| {
            let limits = ModelLimits {
                max_length,
                ..ModelLimits::default()
            };
            let limits = limits.within_context(1024, 4096);
            limits.map(|limits| limits.max_length).ok()
        };
        assert_eq!(within(0), Some(1024));
        // Also if a longer one is asked for that is as long as the default.
        assert_eq!(
            within(ModelLimits::DEFAULT_LENGTH),
            Some(ModelLimits::DEFAULT_LENGTH)
        );
        assert_eq!(within(4096), Some(4096));
        assert_eq!(within(4097), None);
    }

    #[test]
    fn cache_grows_to_whole_contexts_of_a_batch() {
        let extra = |max_length, pages| {
            let limits = ModelLimits {
                max_length,
                max_batch: 4,
                page_size: 32,
                pages,
                ..ModelLimits::default()
            };
            limits.filling_memory().extra_pages
        };
        assert_eq!(extra(128, 6), 10);
        assert_eq!(extra(128, 0), 0);
        assert_eq!(extra(1 << 30, 1 << 20), MAX_PAGES - (1 << 20));
    }

    #[test]
    fn steps_per_submission_suit_the_target_unless_they_are_set() {
        let steps = |max_steps| {
            let limits = ModelLimits {
                max_steps,
                ..ModelLimits::default()
            };
            [Capabilities::HOST, Capabilities::BASELINE]
                .map(|target| limits.for_target(&target).max_steps)
        };
        assert_eq!(steps(0), [1, 4]);
        assert_eq!(steps(3), [3; 2]);
    }
}
