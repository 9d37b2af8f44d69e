//! The rotary settings of a GGUF file.

use super::keys::GgufMetadata;
use crate::{
    architectures::error::ArchitectureError,
    rope::{RopeScaling, longrope_attention_factor, yarn_attention_factor},
};

impl GgufMetadata<'_> {
    /// Returns how the first rotary embedding is scaled.
    pub(super) fn scaling(&self, max_positions: u64) -> Result<RopeScaling, ArchitectureError> {
        if let Some(factors) = self.tensor("rope_freqs.weight")? {
            return Ok(RopeScaling::Factors(factors));
        }
        let short = self.tensor("rope_factors_short.weight")?;
        if let (Some(short), Some(long)) = (short, self.tensor("rope_factors_long.weight")?) {
            let original = self.trained_context(max_positions)?;
            let factor = max_positions as f64 / original;
            let attention_factor = match self.optional_f32("rope.scaling.attn_factor")? {
                Some(factor) => factor.into(),
                None => longrope_attention_factor(factor, original),
            };
            return Ok(RopeScaling::LongRope {
                short,
                long,
                original,
                attention_factors: [attention_factor; 2],
            });
        }
        let factor = match self.optional_f32("rope.scaling.factor")? {
            None => self.optional_f32("rope.scale_linear")?,
            factor => factor,
        };
        let factor = f64::from(factor.unwrap_or(1.0));
        match self.optional_text("rope.scaling.type")? {
            None if factor != 1.0 && factor != 0.0 => Ok(RopeScaling::Linear { factor }),
            None | Some("none") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear { factor }),
            Some("yarn") => self.yarn(factor, max_positions),
            Some(other) => Err(self.error(format!(
                "rope scaling {other:?} is not supported; none, linear and yarn are"
            ))),
        }
    }

    fn yarn(&self, factor: f64, max_positions: u64) -> Result<RopeScaling, ArchitectureError> {
        // GGUF's factor multiplies the one that YaRN implies.
        let attention_factor = f64::from(self.f32_or("rope.scaling.attn_factor", 1.0)?);
        Ok(RopeScaling::Yarn {
            factor,
            original: self.trained_context(max_positions)?,
            beta_fast: self.f32_or("rope.scaling.yarn_beta_fast", 32.0)?.into(),
            beta_slow: self.f32_or("rope.scaling.yarn_beta_slow", 1.0)?.into(),
            attention_factor: attention_factor * yarn_attention_factor(factor),
            truncate: true,
        })
    }

    /// Returns the context that the model was trained for before it was extended.
    fn trained_context(&self, max_positions: u64) -> Result<f64, ArchitectureError> {
        let original = self.optional_u32("rope.scaling.original_context_length")?;
        Ok(original.map_or(max_positions as f64, f64::from))
    }
}
