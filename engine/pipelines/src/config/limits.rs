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
        let (max_length, max) = (self.max_length.max(1), spec.max_positions.max(1));
        if max_length > max {
            return Err(ConfigError::TooLong { max_length, max });
        }
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
        let max_step_tokens = self
            .prefill_chunk_size
            .min(max_length)
            .next_multiple_of(self.pad_to_multiple_of.max(1));
        let default = || KvCacheFormat::default_on(target);
        let cache_format = self.kv_cache_format.unwrap_or_else(default);
        let echoed = if self.enable_echo { max_step_tokens } else { 1 };
        Ok(ModelLimits {
            max_length,
            max_batch,
            max_prefill: self.max_ce_batch_size.clamp(1, max_batch),
            max_step_tokens,
            max_logit_rows: echoed.max(max_batch),
            page_size: u32::try_from(page_size).unwrap_or(u32::MAX),
            max_steps: self.max_num_steps.unwrap_or(0),
            prefix_caching: self.enable_prefix_caching,
            layer_embeddings: self.layer_embeddings,
            max_num_loras: self.reserved_loras(),
            max_lora_rank: self.max_lora_rank,
            cache_format: cache_format.into(),
            ..ModelLimits::default()
        })
    }

    /// Returns the number of adapters to reserve memory for; 0 without adapters.
    fn reserved_loras(&self) -> u64 {
        match (self.enable_lora, self.lora_paths.len() as u64) {
            (false, 0) => 0,
            (_, named) => named.max(self.max_num_loras),
        }
    }
}
