//! `config.json` as candle's configurations read it.

use serde_json::{Map, Value};

use super::{architectures::CandleArchitecture, error::CandleError};
use wisp_weights::{TensorInfo, WeightSource};

/// Sizes that a checkpoint's tensors have, under candle's names.
const SIZES: &[&str] = &[
    "d_model",
    "head_dim",
    "hidden_size",
    "intermediate_size",
    "moe_intermediate_size",
    "num_attention_heads",
    "num_experts",
    "num_experts_per_tok",
    "num_key_value_heads",
    "shared_expert_intermediate_size",
    "vocab_size",
];

/// How many layers there are, under candle's names: each has tensors.
const LAYERS: &[&str] = &["n_layer", "num_hidden_layers"];

/// Tokens are not candle's business, and some checkpoints have lists of them.
const TOKENS: &[&str] = &["bos_token_id", "eos_token_id", "pad_token_id"];

/// The names under `architectures`.
pub(super) fn architectures(config: &Value) -> Vec<String> {
    let names = config.get("architectures").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(String::from).collect()
}

/// A configuration under candle's names, of transformers 4 or 5, with the defaults of its class.
///
/// # Errors
///
/// If it asks for what candle's code does not do.
pub(super) fn completed(
    architecture: &CandleArchitecture,
    config: &Value,
) -> Result<Map<String, Value>, CandleError> {
    let mut fields = object(config.clone());
    fields.retain(|key, value| !value.is_null() && !TOKENS.contains(&key.as_str()));
    if let Some(Value::Object(rope)) = fields.remove("rope_parameters") {
        for key in ["rope_theta", "partial_rotary_factor"] {
            fields.extend(rope.get(key).map(|value| (key.into(), value.clone())));
        }
        fields.insert("rope_scaling".into(), Value::Object(rope));
    }
    for (own, common) in architecture.keys {
        if let Some(value) = fields.remove(*common) {
            fields.insert(own.to_string(), value);
        }
    }
    if fields.get("use_sliding_window") == Some(&Value::Bool(false)) {
        fields.remove("sliding_window");
    }
    for (key, value) in text(architecture.defaults)? {
        fields.entry(key).or_insert(value);
    }
    for (key, only) in text(architecture.fixed)? {
        match fields.get(&key) {
            Some(value) if !same(value, &only) => {
                return Err(refused(
                    architecture,
                    &key,
                    value,
                    format!("takes {only} for granted"),
                ));
            }
            _ => {}
        }
    }
    if let Some(scaling) = fields.remove("rope_scaling") {
        let kind = scaling.get("rope_type").or(scaling.get("type"));
        match kind.and_then(Value::as_str).unwrap_or("default") {
            "default" => {}
            kind if architecture.ropes.contains(&kind) => {
                fields.insert("rope_scaling".into(), scaling);
            }
            _ => {
                return Err(refused(
                    architecture,
                    "rope_scaling",
                    &scaling,
                    "does not scale so".into(),
                ));
            }
        }
    }
    Ok(fields)
}

/// Checks the sizes before candle allocates by them, and that the parts of a rotation are a share.
///
/// # Errors
///
/// If one is 0, or greater than what the checkpoint can hold.
pub(super) fn check_sizes(
    architecture: &CandleArchitecture,
    fields: &Map<String, Value>,
    checkpoint: &dyn WeightSource,
) -> Result<(), CandleError> {
    let tensors = checkpoint.tensors();
    let largest = |tensor: &TensorInfo| tensor.shape.iter().copied().max();
    let layers = tensors.len() as u64;
    let size = tensors.iter().filter_map(largest).max().unwrap_or(0);
    let limits = [(SIZES, size.max(layers)), (LAYERS, layers)];
    for (keys, most) in limits {
        for key in keys {
            match fields.get(*key) {
                Some(value) if !value.as_u64().is_some_and(|n| (1..=most).contains(&n)) => {
                    let expected = format!("needs 1 to {most}, by the checkpoint's tensors");
                    return Err(refused(architecture, key, value, expected));
                }
                _ => {}
            }
        }
    }
    match fields.get("partial_rotary_factor") {
        Some(value) if !value.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n)) => Err(refused(
            architecture,
            "partial_rotary_factor",
            value,
            "needs a share".into(),
        )),
        _ => Ok(()),
    }
}

/// Checks that no layer looks back less far than a sequence is long: candle's sliding windows are not
/// transformers'.
///
/// # Errors
///
/// If one does.
pub(super) fn check_window(
    architecture: &CandleArchitecture,
    fields: &Map<String, Value>,
    max_length: u64,
) -> Result<(), CandleError> {
    match fields.get("sliding_window") {
        Some(value) if value.as_u64().is_none_or(|window| window < max_length) => {
            let expected = format!("has no such window: use --max-length {value} or less");
            Err(refused(architecture, "sliding_window", value, expected))
        }
        _ => Ok(()),
    }
}

fn refused(
    architecture: &CandleArchitecture,
    key: &str,
    value: &Value,
    expected: String,
) -> CandleError {
    CandleError::Field {
        architecture: architecture.name,
        key: key.into(),
        value: value.to_string(),
        expected,
    }
}

/// Equal, whether a number is written as a whole one or not.
fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The fields of a row's JSON.
fn text(json: &str) -> Result<Map<String, Value>, CandleError> {
    let parsed = serde_json::from_str(json);
    parsed.map_err(|error| CandleError::Candle(format!("a row of the table: {error}")))
}
