//! The limits that a configuration sets for a model.

use wisp_types::Capabilities;

use super::{
    choices::{CacheStrategy, KvCacheFormat},
    error::ConfigError,
    pipeline_config::PipelineConfig,
};
use crate::{limits::ModelLimits, spec::DecoderSpec};

impl PipelineConfig {
    /// Returns the limits with which a model of this spec is loaded on a device with the capabilities `target`, which
    /// decide on the format of the KV cache unless [`Self::kv_cache_format`] is set.
    ///
    /// # Errors
    ///
    /// If the context is longer than the model supports.
    pub fn limits(
        &self,
        spec: &DecoderSpec,
        target: &Capabilities,
    ) -> Result<ModelLimits, ConfigError> {
        let max_length = self.max_length.max(1);
        let (max_batch, page_size) = match self.cache_strategy {
            CacheStrategy::Naive => (1, max_length),
            // Prefix caching shares pages, so it needs pages smaller than the context.
            CacheStrategy::Continuous if !self.enable_prefix_caching => {
                (self.max_cache_batch_size, max_length)
            }
            CacheStrategy::Continuous | CacheStrategy::Paged => {
                (self.max_cache_batch_size, self.kv_cache_page_size.into())
            }
        };
        let max_batch = max_batch.max(1);
        let chunk = self.prefill_chunk_size.max(1).min(max_length);
        // Prompts have room for a chunk even if every other sequence decodes a token in the step.
        let max_step_tokens = chunk
            .saturating_add(max_batch - 1)
            .checked_next_multiple_of(self.pad_to_multiple_of.max(1))
            .unwrap_or(u64::MAX);
        let default = || KvCacheFormat::default_on(target);
        let cache_format = self.kv_cache_format.unwrap_or_else(default);
        let echoed = if self.enable_echo { max_step_tokens } else { 1 };
        let mut limits = ModelLimits {
            max_length,
            max_batch,
            max_prefill: self.max_ce_batch_size.clamp(1, max_batch),
            max_step_tokens,
            max_prompt_tokens: chunk,
            max_logit_rows: echoed.max(max_batch),
            page_size: u32::try_from(page_size).unwrap_or(u32::MAX),
            max_steps: self.max_num_steps.unwrap_or(0),
            prefix_caching: self.enable_prefix_caching,
            layer_embeddings: self.layer_embeddings,
            max_num_loras: self.reserved_loras(),
            max_lora_rank: self.max_lora_rank,
            cache_format: cache_format.into(),
            ..ModelLimits::default()
        }
        .within_context(spec.max_positions, spec.longest_context().max(1))?;
        if let (Some(tokens), true) = (self.cache_tokens, limits.is_paged()) {
            let (one, all) = (limits.pages_per_sequence(), limits.total_pages());
            let page_size = u64::from(limits.page_size.max(1));
            limits.pages = tokens.div_ceil(page_size).clamp(one, all);
        }
        Ok(limits)
    }

    /// Returns the number of adapters to reserve memory for; 0 without adapters.
    fn reserved_loras(&self) -> u64 {
        match (self.enable_lora, self.lora_paths.len() as u64) {
            (false, 0) => 0,
            (_, named) => named.max(self.max_num_loras),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{DecoderSizes, RopeScaling};

    fn spec() -> DecoderSpec {
        DecoderSpec::llama(DecoderSizes {
            max_positions: 4096,
            ..DecoderSizes::SMALL
        })
    }

    fn paged() -> PipelineConfig {
        PipelineConfig {
            max_length: 4096,
            max_cache_batch_size: 16,
            cache_strategy: CacheStrategy::Paged,
            kv_cache_page_size: 32,
            ..PipelineConfig::default()
        }
    }

    #[test]
    fn steps_have_room_for_a_chunk_beside_a_whole_batch() {
        for (max_cache_batch_size, tokens) in [(1, 512), (16, 528), (512, 1024)] {
            let config = PipelineConfig {
                max_cache_batch_size,
                ..paged()
            };
            let limits = config.limits(&spec(), &Capabilities::HOST).unwrap();
            assert_eq!(limits.max_step_tokens, tokens);
            assert_eq!(limits.max_prompt_tokens, 512);
        }
    }

    #[test]
    fn cache_holds_the_wanted_tokens_and_at_least_one_context() {
        for (cache_tokens, pages) in [
            (None, 0),
            (Some(1), 128),
            (Some(5000), 157),
            (Some(1 << 32), 16 * 128),
        ] {
            let config = PipelineConfig {
                cache_tokens,
                ..paged()
            };
            let limits = config.limits(&spec(), &Capabilities::HOST).unwrap();
            assert_eq!(limits.pages, pages);
        }
        let config = PipelineConfig {
            cache_tokens: Some(5000),
            cache_strategy: CacheStrategy::Continuous,
            ..paged()
        };
        let limits = config.limits(&spec(), &Capabilities::HOST).unwrap();
        assert_eq!(limits.pages, 0);
    }

    #[test]
    fn scaled_positions_allow_a_longer_context() {
        let config = PipelineConfig {
            max_length: 16_384,
            ..paged()
        };
        let mut spec = spec();
        let error = config.limits(&spec, &Capabilities::HOST).unwrap_err();
        assert!(matches!(error, ConfigError::TooLong { max: 4096, .. }));
        spec.ropes[0].scaling = RopeScaling::Linear { factor: 4.0 };
        let limits = config.limits(&spec, &Capabilities::HOST).unwrap();
        assert_eq!(limits.max_length, 16_384);
    }
}
