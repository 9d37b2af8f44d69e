//! Hugging Face's `config.json`, in its layouts of transformers 4 and 5.

use serde_json::Value;

use super::super::{
    DecoderSpec, PipelineError,
    rope::{RopeScaling, longrope_attention_factor, yarn_attention_factor},
    spec::{LayerSpec, MoeSpec, NormPlacement, QkNorm, RopeSettings},
};
use super::Architecture;
use wisp_graph::{Activation, NormKind, NormSpec};

/// A `config.json`.
pub struct HfConfig {
    json: Value,
}

pub(super) fn problem(problem: String) -> PipelineError {
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

/// A list of divisors of frequencies.
fn factors(rope: &Value, key: &str) -> Result<Vec<f32>, PipelineError> {
    let factors = rope.get(key).and_then(Value::as_array);
    let factors = factors.map(|list| list.iter().map(|item| item.as_f64().map(|n| n as f32)));
    match factors.and_then(|list| list.collect::<Option<Vec<f32>>>()) {
        Some(factors) if factors.iter().all(|factor| *factor > 0.0) => Ok(factors),
        _ => Err(problem(format!(
            "rope scaling's `{key}` is no list of positive numbers"
        ))),
    }
}

impl HfConfig {
    pub(super) fn new(json: Value) -> HfConfig {
        HfConfig { json }
    }

    /// The configuration as an architecture's configuration class sees it: of its text part, under
    /// the common names, with the class's defaults where a field is absent.
    pub(super) fn completed(self, architecture: &Architecture) -> Result<HfConfig, PipelineError> {
        let defaults: Value = serde_json::from_str(architecture.defaults)
            .map_err(|error| problem(format!("the defaults of {}: {error}", architecture.name)))?;
        let Value::Object(mut fields) = self.json else {
            return Err(problem("it is no JSON object".into()));
        };
        if let Some(Value::Object(text)) = fields.remove("text_config") {
            fields.extend(text);
        }
        for (common, own) in architecture.keys {
            match fields.remove(*own) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    fields.insert(common.to_string(), value);
                }
            }
        }
        if let Value::Object(defaults) = defaults {
            for (key, value) in defaults {
                fields.entry(key).or_insert(value);
            }
        }
        Ok(HfConfig {
            json: Value::Object(fields),
        })
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

    /// A number that may be absent or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, PipelineError> {
        Ok(number(&self.json, key)?.map(|number| number as f32))
    }

    /// Refuses a field that is neither absent nor null nor this value, the only one supported.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn require(&self, key: &str, supported: impl Into<Value>) -> Result<(), PipelineError> {
        let supported = supported.into();
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(()),
            Some(value) if *value == supported => Ok(()),
            Some(value) => Err(problem(format!(
                "`{key}` is {value}; only {supported} is supported"
            ))),
        }
    }

    /// A list of whole numbers that may be absent or null.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn list(&self, key: &str) -> Result<Option<Vec<u64>>, PipelineError> {
        let wrong = || problem(format!("`{key}` is no list of whole numbers"));
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let list = value.as_array().ok_or_else(wrong)?;
                let numbers = list.iter().map(|item| item.as_u64().ok_or_else(wrong));
                numbers.collect::<Result<_, _>>().map(Some)
            }
        }
    }

    /// Gives the layers their windows: those that `layer_types` calls `sliding_attention`, or where
    /// it is absent those that `otherwise` says.
    ///
    /// # Errors
    ///
    /// If `layer_types` is unusable.
    pub fn set_windows(
        &self,
        spec: &mut DecoderSpec,
        window: Option<u32>,
        otherwise: impl Fn(usize) -> bool,
    ) -> Result<(), PipelineError> {
        let windowed = match self.json.get("layer_types") {
            None | Some(Value::Null) => (0..spec.layers.len()).map(otherwise).collect(),
            Some(types) => {
                let types = types.as_array().map_or(&[][..], Vec::as_slice);
                if types.len() < spec.layers.len() {
                    return Err(problem(format!(
                        "`layer_types` has {} entries for {} layers",
                        types.len(),
                        spec.layers.len()
                    )));
                }
                let windowed = types.iter().map(|kind| match kind.as_str() {
                    Some("sliding_attention") => Ok(true),
                    Some("full_attention") => Ok(false),
                    _ => Err(problem(format!(
                        "`layer_types` has {kind}; full_attention and sliding_attention are supported"
                    ))),
                });
                windowed.collect::<Result<Vec<bool>, _>>()?
            }
        };
        spec.set_windows(window, |layer| windowed[layer]);
        Ok(())
    }

    /// The window of a class whose window counts only if `use_sliding_window` says so.
    ///
    /// # Errors
    ///
    /// If a field has the wrong type.
    pub fn optional_window(&self) -> Result<Option<u32>, PipelineError> {
        match self.boolean("use_sliding_window")? {
            Some(true) => self.optional_u32("sliding_window"),
            _ => Ok(None),
        }
    }

    /// The mixture, with its width under `width`.
    ///
    /// # Errors
    ///
    /// If a field is missing or has the wrong type.
    pub fn moe(&self, width: &str, normalise: bool) -> Result<MoeSpec, PipelineError> {
        Ok(MoeSpec {
            experts: self.u32("num_local_experts")?,
            experts_per_token: self.u32("num_experts_per_tok")?,
            normalise,
            intermediate_size: self.u64(width)?,
        })
    }

    fn activation(&self) -> Result<Activation, PipelineError> {
        match self
            .json
            .get("hidden_act")
            .and_then(Value::as_str)
            .unwrap_or("silu")
        {
            "silu" | "swish" => Ok(Activation::Silu),
            "gelu" | "gelu_python" => Ok(Activation::Gelu),
            "gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" => Ok(Activation::GeluTanh),
            "relu" => Ok(Activation::Relu),
            other => Err(problem(format!(
                "`hidden_act` is {other:?}; silu, gelu, gelu_pytorch_tanh and relu are supported"
            ))),
        }
    }

    /// The rotary settings of layers of a type: `rope_parameters`, or the older `rope_theta` beside
    /// `rope_scaling`. Where there are two sets, those of the sliding layers were just
    /// `rope_local_base_freq` then.
    ///
    /// # Errors
    ///
    /// If a field is missing or has the wrong type, or the scaling is unknown.
    pub fn rope(&self, layer_type: &str) -> Result<RopeSettings, PipelineError> {
        let local = number(&self.json, "rope_local_base_freq")?;
        let is_local = layer_type == "sliding_attention" && local.is_some();
        let rope = self.rope_object(layer_type, is_local);
        let max_positions = whole(&self.json, "max_position_embeddings")?.unwrap_or(2048);
        let otherwise = match is_local {
            true => local,
            false => number(&self.json, "rope_theta")?,
        };
        let theta = number(rope, "rope_theta")?
            .or(otherwise)
            .unwrap_or(10_000.0);
        Ok(RopeSettings {
            theta: theta as f32,
            scaling: self.scaling(rope, max_positions)?,
        })
    }

    /// Where the rotary settings stand; null where there are none.
    fn rope_object(&self, layer_type: &str, is_local: bool) -> &Value {
        let object = |key: &str| self.json.get(key).filter(|value| value.is_object());
        let parameters = object("rope_parameters");
        match parameters.and_then(|rope| rope.get(layer_type)) {
            Some(own) => own,
            None if is_local => &Value::Null,
            None => parameters
                .or_else(|| object("rope_scaling"))
                .unwrap_or(&Value::Null),
        }
    }

    fn scaling(&self, rope: &Value, max_positions: u64) -> Result<RopeScaling, PipelineError> {
        let kind = rope
            .get("rope_type")
            .or_else(|| rope.get("type"))
            .and_then(Value::as_str)
            .unwrap_or("default");
        // As Phi-3 called LongRoPE at first.
        let kind = match kind {
            "su" => "longrope",
            "yarn" if rope.get("short_factor").is_some() => "longrope",
            kind => kind,
        };
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
            "longrope" => {
                let original = original()?;
                let factor = number(rope, "factor")?.unwrap_or(max_positions as f64 / original);
                RopeScaling::LongRope {
                    short: factors(rope, "short_factor")?,
                    long: factors(rope, "long_factor")?,
                    original,
                    attention_factor: number(rope, "attention_factor")?
                        .unwrap_or(longrope_attention_factor(factor, original)),
                }
            }
            other => {
                return Err(problem(format!(
                    "rope scaling {other:?} is not supported; default, linear, dynamic, llama3, yarn and longrope are"
                )));
            }
        };
        Ok(scaling)
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
        let rope = self.rope_object("full_attention", false);
        let rotary = number(rope, "partial_rotary_factor")?
            .or(number(&self.json, "partial_rotary_factor")?)
            .unwrap_or(1.0);
        let layer = LayerSpec {
            window: None,
            rope: Some(0),
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            moe: false,
            attention_norm: true,
        };
        Ok(DecoderSpec {
            vocab_size: self.u64("vocab_size")?,
            hidden_size,
            // GPT-2's `n_inner` may be null.
            intermediate_size: whole(&self.json, "intermediate_size")?
                .unwrap_or(hidden_size.saturating_mul(4)),
            layers: DecoderSpec::equal_layers(layers, layer),
            heads,
            kv_heads: self.optional_u32("num_key_value_heads")?.unwrap_or(heads),
            head_dim,
            norm: NormSpec {
                kind: NormKind::Rms,
                eps: self.f32("rms_norm_eps")?.unwrap_or(1e-6),
                weight_offset: 0.0,
            },
            norm_placement: NormPlacement::Pre,
            qk_norm: QkNorm::None,
            activation: self.activation()?,
            gated: true,
            moe: None,
            rotary_dim: (f64::from(head_dim) * rotary) as u32,
            rope_interleaved: false,
            ropes: vec![self.rope("full_attention")?],
            max_positions,
            learned_positions: false,
            attention_softcap: 0.0,
            logit_softcap: 0.0,
            embedding_multiplier: 1.0,
            residual_multiplier: 1.0,
            logit_multiplier: 1.0,
            parallel_residual: false,
            tied: self.boolean("tie_word_embeddings")?.unwrap_or(false),
            encoder: None,
        })
    }
}
