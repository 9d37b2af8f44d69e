//! The size limits with which a model is loaded, as its settings, its files and the prompt imply.

use wisp_device::Device;
#[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
use wisp_pipelines::candle::CandleModel;
use wisp_pipelines::{ModelFiles, ModelLimits, PipelineError};
use wisp_types::{Api, Capabilities, DeviceInfo};

use crate::{
    builder::DEFAULT_CONTEXT_LENGTH,
    error::Error,
    open_model::{Files, OpenModel},
};

/// The default KV cache holds one whole context plus this many tokens for each further request.
const FURTHER_TOKENS: u64 = 512;

/// The default number of texts that an encoder processes at the same time.
const ENCODER_TEXTS: u64 = 32;

/// The largest number of texts that an encoder processes at the same time if all texts are known.
const MAX_ENCODER_TEXTS: u64 = 256;

/// The share of the memory that [`ModelBuilder::logit_rows`](crate::ModelBuilder::logit_rows) may take, as a divisor.
const LOGIT_ROWS_SHARE: u64 = 64;

/// Tokens that an encoder processes at the same time, unless the model's longest text is longer.
const ENCODER_TOKENS: u64 = 4096;

impl OpenModel {
    /// Returns the context length that the settings choose, if they do.
    pub(crate) fn chosen_length(&self) -> Option<u64> {
        let chosen = self.builder.length_is_set;
        chosen.then_some(self.builder.config.max_length)
    }

    /// Returns the context length with which the model will be loaded.
    pub(crate) fn context_length(&self) -> u64 {
        let most = self
            .files()
            .map_or(u64::MAX, |files| files.model_spec.spec.max_positions);
        let default = most.clamp(1, DEFAULT_CONTEXT_LENGTH);
        self.chosen_length().unwrap_or(default)
    }

    /// Returns the size limits with which the model will be loaded on a device with the capabilities `target`, before
    /// the device's own limits apply.
    ///
    /// # Errors
    ///
    /// If the context is longer than the model was trained for, or candle is to run the model and lacks its
    /// architecture.
    pub fn limits(&self, target: &Capabilities) -> Result<ModelLimits, Error> {
        self.limits_within(target, 0)
    }

    /// Returns the limits as [`Self::limits`] does, of a model that may take `memory` bytes; 0: no limit.
    fn limits_within(&self, target: &Capabilities, memory: u64) -> Result<ModelLimits, Error> {
        match &self.files {
            Files::Max(files) => self.limits_of(files, target, memory),
            #[cfg(all(feature = "candle", not(target_arch = "wasm32")))]
            Files::Candle(files) => Ok(CandleModel::limits_of(files, self.chosen_length())?),
        }
    }

    /// Returns the limits as [`Self::limits_within`] does, of a model that Wisp's own engine runs.
    fn limits_of(
        &self,
        files: &ModelFiles,
        target: &Capabilities,
        memory: u64,
    ) -> Result<ModelLimits, Error> {
        if files.model_spec.spec.encoder.is_some() {
            return Ok(self.encoder_limits(files));
        }
        let mut config = self.builder.config.clone();
        config.max_length = self.context_length();
        let mut limits = config
            .limits(&files.model_spec.spec, target)
            .map_err(PipelineError::from)?;
        if let Some(tokens) = self.prompt_tokens {
            limits.max_step_tokens = limits.max_step_tokens.min(tokens);
        }
        let rows = match memory {
            0 => self.builder.logit_rows,
            _ => {
                let row = files.model_spec.spec.vocab_size.saturating_mul(4).max(1);
                self.builder.logit_rows.min(memory / LOGIT_ROWS_SHARE / row)
            }
        };
        let rows = rows.min(limits.max_step_tokens);
        limits.max_logit_rows = limits.max_logit_rows.max(rows);
        if limits.is_paged() && config.cache_tokens.is_none() {
            let page = u64::from(limits.page_size.max(1));
            let further = (limits.max_batch - 1).saturating_mul(FURTHER_TOKENS.div_ceil(page));
            let pages = limits.pages_per_sequence().saturating_add(further);
            limits.pages = pages.min(limits.total_pages());
        }
        Ok(limits)
    }

    /// Returns the limits as [`Self::limits`] does, with the memory that the model may take on a device.
    pub(crate) fn limits_on(&self, device: &Device) -> Result<ModelLimits, Error> {
        let free = || self.builder.config.memory(device);
        let memory = self.builder.memory_limit.or_else(free);
        // Exhausted memory must not become 0, which means no limit.
        let memory = memory.map_or(0, |bytes| bytes.max(1));
        let limits = self.limits_within(&device.info().capabilities, memory)?;
        let limits = ModelLimits { memory, ..limits };
        let has_cache = self
            .files()
            .is_some_and(|files| files.model_spec.spec.encoder.is_none());
        let fills = self.builder.fills_memory && self.builder.config.cache_tokens.is_none();
        Ok(match fills && has_cache && has_own_memory(device.info()) {
            true => limits.filling_memory(),
            false => limits,
        })
    }

    fn encoder_limits(&self, files: &ModelFiles) -> ModelLimits {
        let limits = match &self.texts {
            Some(lengths) => ModelLimits {
                max_length: lengths.iter().copied().max().unwrap_or(1),
                max_batch: (lengths.len() as u64).min(MAX_ENCODER_TEXTS),
                max_step_tokens: lengths.iter().sum::<u64>().min(ENCODER_TOKENS),
                ..ModelLimits::default()
            },
            None => ModelLimits {
                max_length: self
                    .chosen_length()
                    .unwrap_or(files.model_spec.spec.max_positions.min(ENCODER_TOKENS)),
                max_batch: ENCODER_TEXTS,
                max_step_tokens: ENCODER_TOKENS,
                ..ModelLimits::default()
            },
        };
        ModelLimits {
            max_length: limits.max_length.max(1),
            layer_embeddings: self.builder.config.layer_embeddings,
            ..limits
        }
    }
}

/// Returns whether a device has memory that the host's programs do not share.
fn has_own_memory(device: &DeviceInfo) -> bool {
    device.api != Api::Host && !device.software && !device.integrated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_discrete_adapters_have_memory_of_their_own() {
        let host = Device::idle_host(1).info().clone();
        let adapter = |software, integrated| DeviceInfo {
            api: Api::Vulkan,
            software,
            integrated,
            ..host.clone()
        };
        assert!(!has_own_memory(&host));
        assert!(!has_own_memory(&adapter(true, false)));
        assert!(!has_own_memory(&adapter(false, true)));
        assert!(has_own_memory(&adapter(false, false)));
    }
}
