//! Hugging Face's `config.json`, in its layouts of transformers 4 and 5.

use serde_json::Value;

use super::super::{
    DecoderSpec, PipelineError,
    rope::{RopeScaling, yarn_attention_factor},
};
use crate::graph::Activation;

/// A `config.json`.
pub struct HfConfig {
    json: Value,
}

fn problem(problem: String) -> PipelineError {
    PipelineError::Config {
        file: "config.json".into(),
        problem,
    }
}

/// A field's number; `None` if it is absent or null.
fn number(object: &Value, key: &str) -> Result<Option<f64>, PipelineError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(problem(format!("`{key}` is {value}, expected a number"))),
        },
    }
}

fn whole(object: &Value, key: &str) -> Result<Option<u64>, PipelineError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(problem(format!(
                "`{key}` is {value}, expected a whole number"
            ))),
        },
    }
}

impl HfConfig {
    pub(super) fn new(json: Value) -> HfConfig {
        HfConfig { json }
    }

    /// The names under `architectures`.
    pub fn architectures(&self) -> Vec<String> {
        let names = self.json.get("architectures").and_then(Value::as_array);
        names
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(String::from))
            .collect()
    }

    /// A whole number that must be there.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub fn u64(&self, key: &str) -> Result<u64, PipelineError> {
        whole(&self.json, key)?.ok_or_else(|| problem(format!("`{key}` is missing")))
    }

    fn u32(&self, key: &str) -> Result<u32, PipelineError> {
        self.optional_u32(key)?
            .ok_or_else(|| problem(format!("`{key}` is missing")))
    }

    /// A whole number that may be absent or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn optional_u32(&self, key: &str) -> Result<Option<u32>, PipelineError> {
        match whole(&self.json, key)? {
            None => Ok(None),
            Some(number) => match u32::try_from(number) {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(problem(format!("`{key}` is {number}, too large"))),
            },
        }
    }

    /// A boolean that may be absent or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, PipelineError> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(value) => Err(problem(format!(
                "`{key}` is {value}, expected true or false"
            ))),
        }
    }

    fn activation(&self) -> Result<Activation, PipelineError> {
        match self
            .json
            .get("hidden_act")
            .and_then(Value::as_str)
            .unwrap_or("silu")
        {
            "silu" | "swish" => Ok(Activation::Silu),
            "gelu" => Ok(Activation::Gelu),
            "gelu_pytorch_tanh" | "gelu_new" => Ok(Activation::GeluTanh),
            other => Err(problem(format!(
                "`hidden_act` is {other:?}; silu, gelu and gelu_pytorch_tanh are supported"
            ))),
        }
    }

    /// The rotary settings: `rope_parameters`, or the older `rope_theta` beside `rope_scaling`.
    fn rope(&self, max_positions: u64) -> Result<(f32, RopeScaling), PipelineError> {
        let empty = Value::Null;
        let object = |key: &str| self.json.get(key).filter(|value| value.is_object());
        let rope = object("rope_parameters")
            .or_else(|| object("rope_scaling"))
            .unwrap_or(&empty);
        let theta = number(rope, "rope_theta")?
            .or(number(&self.json, "rope_theta")?)
            .unwrap_or(10_000.0);
        let kind = rope
            .get("rope_type")
            .or_else(|| rope.get("type"))
            .and_then(Value::as_str)
            .unwrap_or("default");
        let get = |key: &str| {
            number(rope, key)?
                .ok_or_else(|| problem(format!("rope scaling {kind:?} has no `{key}`")))
        };
        let original = || -> Result<f64, PipelineError> {
            let key = "original_max_position_embeddings";
            Ok(number(rope, key)?
                .or(number(&self.json, key)?)
                .unwrap_or(max_positions as f64))
        };
        let scaling = match kind {
            "default" | "none" => RopeScaling::None,
            "linear" => RopeScaling::Linear {
                factor: get("factor")?,
            },
            "dynamic" => RopeScaling::Dynamic {
                factor: get("factor")?,
                original: original()?,
            },
            "llama3" => RopeScaling::Llama3 {
                factor: get("factor")?,
                low: get("low_freq_factor")?,
                high: get("high_freq_factor")?,
                original: original()?,
            },
            "yarn" => {
                let factor = get("factor")?;
                let scale = |m: f64| {
                    if factor <= 1.0 {
                        1.0
                    } else {
                        0.1 * m * factor.ln() + 1.0
                    }
                };
                let mscale = (number(rope, "mscale")?, number(rope, "mscale_all_dim")?);
                let attention_factor = match (number(rope, "attention_factor")?, mscale) {
                    (Some(given), _) => given,
                    (None, (Some(m), Some(all))) if m != 0.0 && all != 0.0 => scale(m) / scale(all),
                    _ => yarn_attention_factor(factor),
                };
                RopeScaling::Yarn {
                    factor,
                    original: original()?,
                    beta_fast: number(rope, "beta_fast")?.unwrap_or(32.0),
                    beta_slow: number(rope, "beta_slow")?.unwrap_or(1.0),
                    attention_factor,
                    truncate: rope
                        .get("truncate")
                        .and_then(Value::as_bool)
                        .unwrap_or(true),
                }
            }
            other => {
                return Err(problem(format!(
                    "rope scaling {other:?} is not supported; default, linear, dynamic, llama3 and yarn are"
                )));
            }
        };
        Ok((theta as f32, scaling))
    }

    /// The common decoder, as this configuration sizes it.
    ///
    /// # Errors
    ///
    /// If a field is missing or has the wrong type.
    pub fn decoder(&self) -> Result<DecoderSpec, PipelineError> {
        let (hidden_size, heads, layers) = (
            self.u64("hidden_size")?,
            self.u32("num_attention_heads")?,
            self.u32("num_hidden_layers")?,
        );
        let head_dim = match self.optional_u32("head_dim")? {
            Some(head_dim) => head_dim,
            None => (hidden_size / u64::from(heads.max(1)))
                .try_into()
                .unwrap_or(u32::MAX),
        };
        let max_positions = whole(&self.json, "max_position_embeddings")?.unwrap_or(2048);
        let (rope_theta, rope_scaling) = self.rope(max_positions)?;
        let rope = self.json.get("rope_parameters").unwrap_or(&self.json);
        let rotary = number(rope, "partial_rotary_factor")?
            .or(number(&self.json, "partial_rotary_factor")?)
            .unwrap_or(1.0);
        Ok(DecoderSpec {
            vocab_size: self.u64("vocab_size")?,
            hidden_size,
            intermediate_size: self.u64("intermediate_size")?,
            layers,
            heads,
            kv_heads: self.optional_u32("num_key_value_heads")?.unwrap_or(heads),
            head_dim,
            norm_eps: number(&self.json, "rms_norm_eps")?.unwrap_or(1e-6) as f32,
            activation: self.activation()?,
            rope_theta,
            rotary_dim: (f64::from(head_dim) * rotary) as u32,
            rope_scaling,
            rope_interleaved: false,
            max_positions,
            windows: vec![None; layers.min(4097) as usize],
            tied: self.boolean("tie_word_embeddings")?.unwrap_or(false),
        })
    }
}
