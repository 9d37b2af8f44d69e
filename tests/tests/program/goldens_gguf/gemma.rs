//! Gemma 3n and Gemma 4 as llama.cpp converts them to GGUF: lists with a value for each layer, and names without suffix.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use wisp_engine::weights::{
    Encoding,
    gguf::{Array, Value},
};
use wisp_tests::gguf_writer::GgufWriter;

/// The names of a layer's tensors that have no suffix in Hugging Face's layout, and their whole names in GGUF.
const WHOLE_NAMES: &[(&str, &str)] = &[
    ("layer_scalar", "layer_output_scale.weight"),
    ("router.scale", "ffn_gate_inp.scale"),
    ("router.per_expert_scale", "ffn_down_exps.scale"),
    ("experts.gate_up_proj", "ffn_gate_up_exps.weight"),
    ("experts.down_proj", "ffn_down_exps.weight"),
    ("altup.correct_output_scale", "altup_correct_scale.weight"),
];

/// Matrices of which each further version of the residual stream has one, and the tensors that stack them.
const STACKED: &[(&str, &str)] = &[
    ("model.altup_projections.", "altup_proj.weight"),
    (
        "model.altup_unembed_projections.",
        "altup_unembd_proj.weight",
    ),
];

/// Returns the whole name in GGUF of a tensor that only these models have; `None` for others.
pub(super) fn name(name: &str) -> Option<String> {
    if let Some((_, stack)) = STACKED.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return Some((*stack).into());
    }
    let (layer, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (_, new) = WHOLE_NAMES.iter().find(|(whole, _)| *whole == part)?;
    Some(format!("blk.{layer}.{new}"))
}

/// Returns the keys that these models have otherwise than others, or alone.
pub(super) fn keys(architecture: &str, config: &Json) -> BTreeMap<&'static str, Value> {
    let mut keys = BTreeMap::new();
    if !["gemma3n", "gemma4"].contains(&architecture) {
        return keys;
    }
    let number = |field: &str| config[field].as_u64().unwrap_or(0) as u32;
    let kinds = config["layer_types"].as_array().unwrap();
    let is_local: Vec<bool> = kinds
        .iter()
        .map(|kind| kind == "sliding_attention")
        .collect();
    let local_base = &config["rope_parameters"]["sliding_attention"]["rope_theta"];
    keys.extend([
        (
            "attention.sliding_window_pattern",
            Value::Array(Array::Bool(is_local.clone())),
        ),
        (
            "attention.sliding_window",
            Value::U32(number("sliding_window")),
        ),
        (
            "attention.shared_kv_layers",
            Value::U32(number("num_kv_shared_layers")),
        ),
        (
            "embedding_length_per_layer_input",
            Value::U32(number("hidden_size_per_layer_input")),
        ),
        (
            "rope.freq_base_swa",
            Value::F32(local_base.as_f64().unwrap() as f32),
        ),
        (
            "final_logit_softcapping",
            Value::F32(config["final_logit_softcapping"].as_f64().unwrap() as f32),
        ),
        ("feed_forward_length", widths(config, is_local.len())),
    ]);
    match architecture {
        "gemma3n" => keys.extend(gemma3n(config)),
        _ => keys.extend(gemma4(config, &is_local)),
    }
    keys
}

/// Returns the width of each layer's feed-forward network.
fn widths(config: &Json, layers: usize) -> Value {
    let shared = config["num_kv_shared_layers"].as_u64().unwrap() as usize;
    let is_double = config["use_double_wide_mlp"] == true;
    let width = |layer: usize| match config["intermediate_size"].as_u64() {
        None => config["intermediate_size"][layer].as_i64().unwrap() as i32,
        Some(width) if is_double && layer >= layers - shared => 2 * width as i32,
        Some(width) => width as i32,
    };
    Value::Array(Array::I32((0..layers).map(width).collect()))
}

fn gemma3n(config: &Json) -> Vec<(&'static str, Value)> {
    let number = |field: &str| Value::U32(config[field].as_u64().unwrap() as u32);
    let sparsities = config["activation_sparsity_pattern"].as_array().unwrap();
    // The quantiles of the normal distribution.
    let quantile = |sparsity: &Json| match sparsity.as_f64().unwrap() {
        0.0 => f32::NEG_INFINITY,
        0.5 => 0.0,
        0.7 => 0.524_400_5,
        other => panic!("the quantile of {other} is missing here"),
    };
    let quantiles = sparsities.iter().map(quantile).collect();
    vec![
        ("altup.num_inputs", number("altup_num_inputs")),
        ("altup.active_idx", number("altup_active_idx")),
        (
            "activation_sparsity_scale",
            Value::Array(Array::F32(quantiles)),
        ),
    ]
}

/// Returns the heads of layers without a window, which have their sizes in `per_layer_config`.
fn global_heads(config: &Json) -> (u32, Option<u32>) {
    let layers = config["per_layer_config"].as_object().unwrap();
    let layer = layers.values().next().unwrap();
    let kv_heads = layer["num_key_value_heads"].as_u64();
    let head_dim = layer["head_dim"].as_u64().unwrap();
    (head_dim as u32, kv_heads.map(|heads| heads as u32))
}

fn gemma4(config: &Json, is_local: &[bool]) -> Vec<(&'static str, Value)> {
    let (global_dim, global_kv_heads) = global_heads(config);
    let local_dim = config["head_dim"].as_u64().unwrap() as u32;
    let local_kv_heads = config["num_key_value_heads"].as_u64().unwrap() as u32;
    let kv_heads = match global_kv_heads {
        None => Value::U32(local_kv_heads),
        Some(global) => {
            let heads = is_local.iter().map(|is_local| match is_local {
                true => local_kv_heads as i32,
                false => global as i32,
            });
            Value::Array(Array::I32(heads.collect()))
        }
    };
    vec![
        ("attention.head_count_kv", kv_heads),
        ("attention.key_length", Value::U32(global_dim)),
        ("attention.value_length", Value::U32(global_dim)),
        ("attention.key_length_swa", Value::U32(local_dim)),
        ("attention.value_length_swa", Value::U32(local_dim)),
        ("rope.dimension_count", Value::U32(global_dim)),
        ("rope.dimension_count_swa", Value::U32(local_dim)),
    ]
}

/// Writes the divisors of frequencies, which are huge for elements that do not rotate.
pub(super) fn frequencies(writer: GgufWriter, architecture: &str, config: &Json) -> GgufWriter {
    if architecture != "gemma4" {
        return writer;
    }
    let (global_dim, _) = global_heads(config);
    let rope = &config["rope_parameters"]["full_attention"];
    let part = rope["partial_rotary_factor"].as_f64().unwrap();
    let rotated = (f64::from(global_dim) * part / 2.0) as u32;
    let divisor = |pair: u32| if pair < rotated { 1.0 } else { 1e30 };
    let divisors: Vec<f32> = (0..global_dim / 2).map(divisor).collect();
    let bytes: &[u8] = bytemuck::cast_slice(&divisors);
    writer.tensor(
        "rope_freqs.weight",
        Encoding::F32,
        &[divisors.len() as u64],
        bytes,
    )
}
