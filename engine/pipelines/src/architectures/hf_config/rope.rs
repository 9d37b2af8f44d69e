//! The rotary settings of a `config.json`.

use serde_json::Value;

use super::fields::{HfConfig, number};
use crate::{
    architectures::error::ArchitectureError,
    rope::{RopeScaling, longrope_attention_factor, yarn_attention_factor, yarn_scale},
    spec::RopeSettings,
};

/// Layers by their attention, as `config.json` distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerType {
    /// Attention to all positions.
    FullAttention,
    /// Attention within a sliding window.
    SlidingAttention,
}

impl LayerType {
    fn name(self) -> &'static str {
        match self {
            LayerType::FullAttention => "full_attention",
            LayerType::SlidingAttention => "sliding_attention",
        }
    }
}

impl HfConfig {
    /// Returns the rotary settings of layers of a type: those of `rope_parameters`, or of the older
    /// `rope_theta` beside `rope_scaling`. In the older layout, layers with a window are not scaled
    /// and may have a base of their own, `rope_local_base_freq`.
    ///
    /// # Errors
    ///
    /// If a field is missing or has the wrong type, or the scaling is not supported.
    pub fn rope(&self, layer_type: LayerType) -> Result<RopeSettings, ArchitectureError> {
        let local = number(&self.json, "rope_local_base_freq")?;
        let local = local.filter(|_| layer_type == LayerType::SlidingAttention);
        let rope = self.rope_object(layer_type, local.is_some());
        let otherwise = match local {
            Some(_) => local,
            None => number(&self.json, "rope_theta")?,
        };
        let theta = number(rope, "rope_theta")?
            .or(otherwise)
            .unwrap_or(10_000.0);
        Ok(RopeSettings::new(theta as f32, self.scaling(rope)?))
    }

    /// Returns the share of a head's elements that rotate.
    pub(super) fn partial_rotary_factor(&self) -> Result<f64, ArchitectureError> {
        let key = "partial_rotary_factor";
        let rope = self.rope_object(LayerType::FullAttention, false);
        let factor = number(rope, key)?.or(number(&self.json, key)?);
        Ok(factor.unwrap_or(1.0))
    }

    /// Returns a number of the rotary settings; `None` if it is missing or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn rope_number(&self, key: &str) -> Result<Option<f64>, ArchitectureError> {
        number(self.rope_object(LayerType::FullAttention, false), key)
    }

    /// Returns the object with the rotary settings; null if there is none.
    fn rope_object(&self, layer_type: LayerType, has_local_base: bool) -> &Value {
        let object = |key: &str| self.json.get(key).filter(|value| value.is_object());
        let parameters = object("rope_parameters");
        let is_sliding = layer_type == LayerType::SlidingAttention;
        match parameters.and_then(|rope| rope.get(layer_type.name())) {
            Some(own) => own,
            None if has_local_base || parameters.is_none() && is_sliding => &Value::Null,
            None => parameters
                .or_else(|| object("rope_scaling"))
                .unwrap_or(&Value::Null),
        }
    }

    fn scaling(&self, rope: &Value) -> Result<RopeScaling, ArchitectureError> {
        let kind = scaling_type(rope);
        let required = |key: &str| {
            let missing = || self.error(format!("rope scaling {kind:?} has no `{key}`"));
            number(rope, key)?.ok_or_else(missing)
        };
        match kind {
            "default" | "none" => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear {
                factor: required("factor")?,
            }),
            "dynamic" => Ok(RopeScaling::Dynamic {
                factor: required("factor")?,
                original: self.trained_context(rope)?,
            }),
            "llama3" => Ok(RopeScaling::Llama3 {
                factor: required("factor")?,
                low: required("low_freq_factor")?,
                high: required("high_freq_factor")?,
                original: self.trained_context(rope)?,
            }),
            "yarn" => self.yarn(rope, required("factor")?),
            "longrope" => self.longrope(rope),
            "proportional" => Ok(RopeScaling::Proportional {
                part: number(rope, "partial_rotary_factor")?.unwrap_or(1.0),
                factor: number(rope, "factor")?.unwrap_or(1.0),
            }),
            other => Err(self.error(format!(
                "rope scaling {other:?} is not supported; default, linear, dynamic, llama3, yarn, \
                 longrope and proportional are"
            ))),
        }
    }

    /// `_compute_yarn_parameters` of transformers.
    fn yarn(&self, rope: &Value, factor: f64) -> Result<RopeScaling, ArchitectureError> {
        let mscale = (number(rope, "mscale")?, number(rope, "mscale_all_dim")?);
        let attention_factor = match (number(rope, "attention_factor")?, mscale) {
            (Some(given), _) => given,
            (None, (Some(m), Some(all))) if m != 0.0 && all != 0.0 => {
                yarn_scale(factor, m) / yarn_scale(factor, all)
            }
            _ => yarn_attention_factor(factor),
        };
        let truncate = rope.get("truncate").and_then(Value::as_bool);
        Ok(RopeScaling::Yarn {
            factor,
            original: self.trained_context(rope)?,
            beta_fast: number(rope, "beta_fast")?.unwrap_or(32.0),
            beta_slow: number(rope, "beta_slow")?.unwrap_or(1.0),
            attention_factor,
            truncate: truncate.unwrap_or(true),
        })
    }

    /// `_compute_longrope_parameters` of transformers.
    fn longrope(&self, rope: &Value) -> Result<RopeScaling, ArchitectureError> {
        let original = self.trained_context(rope)?;
        let factor = match number(rope, "factor")? {
            Some(factor) => factor,
            None => self.max_positions()? as f64 / original,
        };
        let attention_factor = number(rope, "attention_factor")?
            .unwrap_or_else(|| longrope_attention_factor(factor, original));
        Ok(RopeScaling::LongRope {
            short: self.divisors(rope, "short_factor")?,
            long: self.divisors(rope, "long_factor")?,
            original,
            attention_factors: [attention_factor; 2],
        })
    }

    /// Returns the context that the model was trained for before it was extended.
    fn trained_context(&self, rope: &Value) -> Result<f64, ArchitectureError> {
        let key = "original_max_position_embeddings";
        match number(rope, key)?.or(number(&self.json, key)?) {
            Some(original) => Ok(original),
            None => Ok(self.max_positions()? as f64),
        }
    }

    /// Returns a list of divisors of frequencies.
    fn divisors(&self, rope: &Value, key: &str) -> Result<Vec<f32>, ArchitectureError> {
        let list = rope.get(key).and_then(Value::as_array);
        let numbers = list.map(|list| list.iter().map(|item| item.as_f64().map(|n| n as f32)));
        match numbers.and_then(|numbers| numbers.collect::<Option<Vec<f32>>>()) {
            Some(divisors) if divisors.iter().all(|divisor| *divisor > 0.0) => Ok(divisors),
            _ => Err(self.error(format!(
                "the `{key}` of the rope scaling is not a list of positive numbers"
            ))),
        }
    }
}

/// Returns the type of a scaling under its present name.
fn scaling_type(rope: &Value) -> &str {
    let kind = rope.get("rope_type").or_else(|| rope.get("type"));
    match kind.and_then(Value::as_str).unwrap_or("default") {
        // Early configurations of Phi-3 call LongRoPE `su` or `yarn`.
        "su" => "longrope",
        // Sections of positions of images, which are the same in a text.
        "mrope" => "default",
        "yarn" if rope.get("short_factor").is_some() => "longrope",
        kind => kind,
    }
}
