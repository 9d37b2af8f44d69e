//! A `config.json` as candle's configurations read it, checked against the checkpoint.

use serde_json::{Map, Value};
use wisp_weights::{TensorInfo, WeightSource};

use super::{architectures::CandleArchitecture, error::CandleError};

/// Fields with sizes of tensors, under candle's names.
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

/// Fields with the number of layers, under candle's names. Each layer has tensors.
const LAYERS: &[&str] = &["n_layer", "num_hidden_layers"];

/// Fields with tokens, which candle does not need. Some checkpoints have lists where it expects one.
const TOKENS: &[&str] = &["bos_token_id", "eos_token_id", "pad_token_id"];

/// Returns the class names under `architectures`.
pub(super) fn classes(config: &Value) -> Vec<String> {
    let names = config.get("architectures").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(String::from).collect()
}

/// Returns the fields of a configuration of transformers 4 or 5 under candle's names, with the
/// defaults of its class.
///
/// # Errors
///
/// If a field has a value that candle's code does not support.
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
    for (key, value) in parse_fields(architecture.defaults)? {
        fields.entry(key).or_insert(value);
    }
    for (key, only) in parse_fields(architecture.fixed)? {
        match fields.get(&key) {
            Some(value) if !same(value, &only) => {
                return Err(refused(
                    architecture,
                    &key,
                    value,
                    format!("supports only {only}"),
                ));
            }
            _ => {}
        }
    }
    if let Some(scaling) = fields.remove("rope_scaling") {
        let kind = scaling.get("rope_type").or(scaling.get("type"));
        match kind.and_then(Value::as_str).unwrap_or("default") {
            "default" => {}
            kind if architecture.rope_types.contains(&kind) => {
                fields.insert("rope_scaling".into(), scaling);
            }
            _ => {
                return Err(refused(
                    architecture,
                    "rope_scaling",
                    &scaling,
                    "does not support it".into(),
                ));
            }
        }
    }
    Ok(fields)
}

/// Checks sizes before candle allocates by them, and the share of a head that rotates.
///
/// # Errors
///
/// If a size is 0 or greater than the checkpoint's tensors allow.
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
            "needs a share from 0 to 1".into(),
        )),
        _ => Ok(()),
    }
}

/// Checks that no layer has a window shorter than a sequence: candle's sliding windows are not those of
/// transformers.
///
/// # Errors
///
/// If a layer has.
pub(super) fn check_window(
    architecture: &CandleArchitecture,
    fields: &Map<String, Value>,
    max_length: u64,
) -> Result<(), CandleError> {
    match fields.get("sliding_window") {
        Some(value) if value.as_u64().is_none_or(|window| window < max_length) => {
            let expected = format!("has no such window: use `max_length = {value}` or less");
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

/// Compares values; 1 equals 1.0.
fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Parses the JSON object of a row.
fn parse_fields(json: &str) -> Result<Map<String, Value>, CandleError> {
    let parsed = serde_json::from_str(json);
    parsed.map_err(|error| CandleError::Candle(format!("a row of the table: {error}")))
}
