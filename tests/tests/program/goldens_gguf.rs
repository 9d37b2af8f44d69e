//! The tiny checkpoints as llama.cpp converts them to GGUF, with other tensor names and for some
//! architectures other weights. The results must equal those of the originals.

mod gemma;
mod names;

use std::{collections::BTreeMap, path::Path};

use names::NAMES;
use safetensors::SafeTensors;
use serde::Deserialize;
use serde_json::Value as Json;
use wisp_engine::weights::{
    Checkpoint, Encoding, WeightSource,
    gguf::{Array, Value},
};
use wisp_tests::{
    gguf_writer::GgufWriter,
    goldens::{directory, golden},
    on_every_device_and_class,
    program::{TestDevice, assert_rows_close, generate, logits},
    sample,
};

use crate::gpt_oss_gguf::of_gpt_oss;

/// How the conversion of an architecture differs from the others.
struct Conversion {
    golden: &'static str,
    architecture: &'static str,
    /// True if rows of queries and keys are reordered for interleaved rotation.
    permuted: bool,
    /// True if 1 is added to the weights of norms.
    adds_one: bool,
    /// True if `post_attention_layernorm` is the norm after attention, not the one before the
    /// feed-forward network.
    post_norms: bool,
    /// Keys that only this architecture has, and their fields in `config.json`.
    keys: &'static [(&'static str, &'static str)],
}

const PLAIN: Conversion = Conversion {
    golden: "",
    architecture: "",
    permuted: false,
    adds_one: false,
    post_norms: false,
    keys: &[],
};

const MOE: &[(&str, &str)] = &[
    ("expert_count", "num_local_experts"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
];

const QWEN2_MOE: &[(&str, &str)] = &[
    ("expert_count", "num_experts"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
];

const LFM2: &[(&str, &str)] = &[("shortconv.l_cache", "conv_L_cache")];

const LFM2_MOE: &[(&str, &str)] = &[
    ("shortconv.l_cache", "conv_L_cache"),
    ("expert_count", "num_experts"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_weights_scale", "routed_scaling_factor"),
];

/// The exceptional layers of the period of windows are those that readers assume, or else in a key.
const WINDOW: &[(&str, &str)] = &[
    ("attention.sliding_window", "sliding_window"),
    ("attention.sliding_window_pattern", "sliding_window_pattern"),
];

#[rustfmt::skip]
const CONVERSIONS: &[Conversion] = &[
    Conversion { golden: "llama", architecture: "llama", permuted: true, ..PLAIN },
    Conversion { golden: "mixtral", architecture: "llama", permuted: true, keys: MOE, ..PLAIN },
    Conversion { golden: "qwen2", architecture: "qwen2", ..PLAIN },
    Conversion { golden: "qwen3", architecture: "qwen3", ..PLAIN },
    Conversion { golden: "qwen3-moe", architecture: "qwen3moe", keys: MOE, ..PLAIN },
    Conversion { golden: "gemma", architecture: "gemma", adds_one: true, ..PLAIN },
    Conversion {
        golden: "gemma2", architecture: "gemma2", adds_one: true, post_norms: true,
        keys: &[
            ("attention.sliding_window", "sliding_window"),
            ("attn_logit_softcapping", "attn_logit_softcapping"),
            ("final_logit_softcapping", "final_logit_softcapping"),
        ],
        ..PLAIN
    },
    Conversion {
        golden: "gemma3", architecture: "gemma3", adds_one: true, post_norms: true,
        keys: &[("attention.sliding_window", "sliding_window")],
        ..PLAIN
    },
    Conversion { golden: "gemma3n", architecture: "gemma3n", post_norms: true, ..PLAIN },
    Conversion { golden: "gemma4", architecture: "gemma4", post_norms: true, ..PLAIN },
    Conversion {
        golden: "gemma4-moe", architecture: "gemma4", post_norms: true,
        keys: &[
            ("expert_count", "num_experts"),
            ("expert_used_count", "top_k_experts"),
            ("expert_feed_forward_length", "moe_intermediate_size"),
        ],
        ..PLAIN
    },
    Conversion { golden: "phi3", architecture: "phi3", ..PLAIN },
    Conversion { golden: "olmo2", architecture: "olmo2", post_norms: true, ..PLAIN },
    Conversion {
        golden: "granite", architecture: "granite", permuted: true,
        keys: &[
            ("embedding_scale", "embedding_multiplier"),
            ("residual_scale", "residual_multiplier"),
            ("attention.scale", "attention_multiplier"),
            ("logit_scale", "logits_scaling"),
        ],
        ..PLAIN
    },
    Conversion { golden: "olmo3", architecture: "olmo2", post_norms: true, keys: WINDOW, ..PLAIN },
    Conversion { golden: "exaone4", architecture: "exaone4", post_norms: true, keys: WINDOW, ..PLAIN },
    Conversion { golden: "glm4", architecture: "glm4", ..PLAIN },
    Conversion { golden: "ministral3", architecture: "mistral3", permuted: true, ..PLAIN },
    Conversion {
        golden: "cohere2", architecture: "cohere2",
        keys: &[("attention.sliding_window", "sliding_window"), ("logit_scale", "logit_scale")],
        ..PLAIN
    },
    Conversion { golden: "ernie4-5", architecture: "ernie4_5", ..PLAIN },
    Conversion {
        golden: "ernie4-5-moe", architecture: "ernie4_5-moe",
        keys: &[
            ("expert_count", "moe_num_experts"),
            ("expert_used_count", "moe_k"),
            ("expert_feed_forward_length", "moe_intermediate_size"),
        ],
        ..PLAIN
    },
    Conversion { golden: "hunyuan-dense", architecture: "hunyuan-dense", ..PLAIN },
    Conversion { golden: "qwen2-moe", architecture: "qwen2moe", keys: QWEN2_MOE, ..PLAIN },
    Conversion {
        golden: "gpt-oss", architecture: "gpt-oss", post_norms: true,
        keys: &[
            ("attention.sliding_window", "sliding_window"),
            ("expert_count", "num_local_experts"),
            ("expert_used_count", "num_experts_per_tok"),
            ("expert_feed_forward_length", "intermediate_size"),
        ],
        ..PLAIN
    },
    Conversion { golden: "phi4-mini", architecture: "phi3", ..PLAIN },
    Conversion { golden: "lfm2", architecture: "lfm2", keys: LFM2, ..PLAIN },
    Conversion { golden: "lfm2-moe", architecture: "lfm2moe", keys: LFM2_MOE, ..PLAIN },
    Conversion { golden: "starcoder2", architecture: "starcoder2", ..PLAIN },
    Conversion { golden: "gpt2", architecture: "gpt2", ..PLAIN },
    Conversion { golden: "gpt-neox", architecture: "gptneox", ..PLAIN },
];

/// A tensor of floats.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub shape: Vec<u64>,
    pub values: Vec<f32>,
}

impl Tensor {
    fn width(&self) -> usize {
        self.values.len() / self.shape[0] as usize
    }

    /// Returns the rows in another order.
    fn reordered(&self, order: impl Iterator<Item = usize>) -> Tensor {
        let width = self.width();
        let row = |row: usize| &self.values[row * width..][..width];
        Tensor {
            shape: self.shape.clone(),
            values: order.flat_map(row).copied().collect(),
        }
    }

    fn transposed(&self) -> Tensor {
        let (rows, cols) = (self.shape[0] as usize, self.shape[1] as usize);
        let values = (0..rows * cols).map(|i| self.values[i % rows * cols + i / rows]);
        Tensor {
            shape: vec![self.shape[1], self.shape[0]],
            values: values.collect(),
        }
    }
}

/// Returns the name in GGUF, without the number of an expert.
fn gguf_name(conversion: &Conversion, name: &str) -> String {
    let (stem, kind) = name.rsplit_once('.').unwrap();
    let kind = if kind == "weight" { kind } else { "bias" };
    let parts: Vec<&str> = stem.split('.').collect();
    let numbers: Vec<&str> = parts
        .iter()
        .copied()
        .filter(|part| part.parse::<u32>().is_ok())
        .collect();
    let stem: Vec<&str> = parts
        .into_iter()
        .filter(|part| part.parse::<u32>().is_err())
        .collect();
    let stem = stem.join(".");
    let ends = |ending: &str| stem == ending || stem.ends_with(&format!(".{ending}"));
    let known = NAMES.iter().find(|(ending, _)| ends(ending)).unwrap();
    let new = match conversion.post_norms && ends("post_attention_layernorm") {
        true => "post_attention_norm",
        false => known.1,
    };
    match numbers.first() {
        Some(layer) => format!("blk.{layer}.{new}.{kind}"),
        None => format!("{new}.{kind}"),
    }
}

fn number(config: &Json, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| config[*name].as_u64())
}

/// Converts a weight as llama.cpp does.
fn converted(conversion: &Conversion, config: &Json, name: &str, tensor: Tensor) -> Tensor {
    let heads = number(config, &["num_attention_heads", "n_head"]).unwrap() as usize;
    let rows = tensor.shape[0] as usize;
    let is_key = name.contains("k_proj");
    if conversion.permuted && (is_key || name.contains("q_proj")) {
        let kv_heads = config["num_key_value_heads"].as_u64().unwrap() as usize;
        let dim = rows / if is_key { kv_heads } else { heads };
        // Pair i of a head becomes two neighbouring rows.
        let order = (0..rows).map(|row| {
            let (head, i) = (row / dim, row % dim);
            head * dim + i % 2 * (dim / 2) + i / 2
        });
        return tensor.reordered(order);
    }
    if conversion.adds_one && name.ends_with("norm.weight") {
        let values = tensor.values.iter().map(|value| value + 1.0).collect();
        return Tensor { values, ..tensor };
    }
    if conversion.golden == "gpt2" && name.contains(".h.") && tensor.shape.len() == 2 {
        return tensor.transposed();
    }
    if name.contains("query_key_value") {
        let dim = rows / heads / 3;
        let order = (0..rows).map(|row| {
            let (part, head, i) = (row / (heads * dim), row / dim % heads, row % dim);
            (head * 3 + part) * dim + i
        });
        return tensor.reordered(order);
    }
    tensor
}

/// Returns the base of the frequencies. Hunyuan's `alpha` enlarges it.
fn rope_base(rope: &Json, head_dim: u64) -> Option<f64> {
    let dim = head_dim as f64;
    let alpha = rope["alpha"].as_f64().unwrap_or(1.0);
    Some(rope["rope_theta"].as_f64()? * alpha.powf(dim / (dim - 2.0)))
}

/// Returns the width of the feed-forward network. LFM2's is adjusted.
fn feed_forward_width(config: &Json) -> Option<u64> {
    let width = number(config, &["intermediate_size"])?;
    if config["block_auto_adjust_ff_dim"] != true {
        return Some(width);
    }
    let factor = config["block_ffn_dim_multiplier"].as_f64()?;
    let scaled = (factor * (2 * width / 3) as f64) as u64;
    Some(scaled.next_multiple_of(config["block_multiple_of"].as_u64()?))
}

/// Converts the checkpoint of a golden to GGUF.
fn gguf(conversion: &Conversion, directory: &Path) -> Vec<u8> {
    let config = std::fs::read(directory.join("config.json")).unwrap();
    let config: Json = serde_json::from_slice(&config).unwrap();
    let file = std::fs::read(directory.join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    // Sorted by name, so that experts are in order (there are fewer than ten).
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    let mut names = file.names();
    names.sort();
    for name in names {
        let view = file.tensor(name).unwrap();
        let tensor = Tensor {
            shape: view.shape().iter().map(|size| *size as u64).collect(),
            values: bytemuck::pod_collect_to_vec(view.data()),
        };
        if let Some(parts) = of_gpt_oss(name, &tensor) {
            tensors.extend(parts);
            continue;
        }
        let mut tensor = converted(conversion, &config, name, tensor);
        // The bias by which ERNIE's experts are selected is a matrix of one row.
        if name.contains("conv.conv.weight") {
            tensor.shape.remove(1);
        }
        if tensor.shape.len() > 1 && tensor.shape[0] == 1 {
            tensor.shape.remove(0);
        }
        let name_in_gguf = gemma::name(name).unwrap_or_else(|| gguf_name(conversion, name));
        let is_one_of_several = name.contains(".experts.") || name.contains(".altup_");
        if !is_one_of_several || tensor.shape.len() != 2 {
            tensors.insert(name_in_gguf, tensor);
            continue;
        }
        let stack = tensors.entry(name_in_gguf).or_insert_with(|| Tensor {
            shape: vec![0, tensor.shape[0], tensor.shape[1]],
            values: Vec::new(),
        });
        stack.shape[0] += 1;
        stack.values.extend(tensor.values);
    }
    let mut writer = metadata(conversion, &config);
    for (name, tensor) in &tensors {
        let bytes: &[u8] = bytemuck::cast_slice(&tensor.values);
        writer = writer.tensor(name, Encoding::F32, &tensor.shape, bytes);
    }
    writer.write()
}

fn metadata(conversion: &Conversion, config: &Json) -> GgufWriter {
    let heads = number(config, &["num_attention_heads", "n_head"]).unwrap();
    let hidden = number(config, &["hidden_size", "n_embd"]).unwrap();
    let head_dim = number(config, &["head_dim"]).unwrap_or(hidden / heads);
    let kv_heads = number(config, &["num_key_value_heads"]);
    let whole = [
        (
            "block_count",
            number(config, &["num_hidden_layers", "n_layer"]),
        ),
        ("embedding_length", Some(hidden)),
        (
            "feed_forward_length",
            feed_forward_width(config).or(Some(4 * hidden)),
        ),
        ("attention.head_count", Some(heads)),
        (
            "attention.head_count_kv",
            kv_heads.filter(|_| conversion.keys.first() != LFM2.first()),
        ),
        ("attention.key_length", Some(head_dim)),
        (
            "context_length",
            number(config, &["max_position_embeddings", "n_positions"]),
        ),
    ];
    let mut writer = GgufWriter::new(3, false).key(
        "general.architecture",
        Value::String(conversion.architecture.into()),
    );
    let own = gemma::keys(conversion.architecture, config);
    let key = |key: &str| format!("{}.{key}", conversion.architecture);
    for (name, value) in whole {
        if let Some(value) = value.filter(|_| !own.contains_key(name)) {
            writer = writer.key(&key(name), Value::U32(value as u32));
        }
    }
    if conversion.keys.first() == LFM2.first() {
        // Layers without attention have no KV heads.
        let layers = config["layer_types"].as_array().unwrap().iter();
        let heads = layers.map(|layer| match layer.as_str() {
            Some("full_attention") => kv_heads.unwrap() as i32,
            _ => 0,
        });
        let heads = Value::Array(Array::I32(heads.collect()));
        writer = writer.key(&key("attention.head_count_kv"), heads);
    }
    if conversion.golden == "lfm2-moe" {
        writer = writer.key(&key("expert_gating_func"), Value::U32(2));
    }
    let rope = &config["rope_parameters"];
    let full = rope.get("full_attention").unwrap_or(rope);
    let norms = [
        ("attention.layer_norm_rms_epsilon", &config["rms_norm_eps"]),
        ("attention.layer_norm_rms_epsilon", &config["norm_eps"]),
        (
            "attention.layer_norm_epsilon",
            &config["layer_norm_epsilon"],
        ),
        ("attention.layer_norm_epsilon", &config["layer_norm_eps"]),
        ("attention.layer_norm_epsilon", &config["norm_epsilon"]),
        ("rope.freq_base", &Json::from(rope_base(full, head_dim))),
    ];
    for (name, value) in norms {
        if let Some(value) = value.as_f64() {
            writer = writer.key(&key(name), Value::F32(value as f32));
        }
    }
    let part = full["partial_rotary_factor"].as_f64();
    if let Some(part) = part.filter(|_| !own.contains_key("rope.dimension_count")) {
        let rotated = (head_dim as f64 * part) as u32;
        writer = writer.key(&key("rope.dimension_count"), Value::U32(rotated));
    }
    for (name, value) in own {
        writer = writer.key(&key(name), value);
    }
    writer = gemma::frequencies(writer, conversion.architecture, config);
    writer = scaling(writer, conversion.architecture, full);
    for (name, field) in conversion.keys {
        let value = match &config[*field] {
            Json::Null => continue,
            value if value.is_u64() => Value::U32(value.as_u64().unwrap() as u32),
            value => Value::F32(value.as_f64().unwrap() as f32),
        };
        writer = writer.key(&key(name), value);
    }
    writer
}

/// Writes the scaling of the rotary embedding, and the factor on queries, as llama.cpp does.
fn scaling(mut writer: GgufWriter, architecture: &str, rope: &Json) -> GgufWriter {
    let original = || rope["original_max_position_embeddings"].as_u64().unwrap() as u32;
    let mut keys = Vec::new();
    match rope["rope_type"].as_str() {
        Some("yarn") => {
            keys.extend([
                ("rope.scaling.type", Value::String("yarn".into())),
                (
                    "rope.scaling.original_context_length",
                    Value::U32(original()),
                ),
            ]);
            let floats = [
                ("rope.scaling.factor", "factor"),
                ("rope.scaling.yarn_log_multiplier", "mscale_all_dim"),
                ("attention.temperature_scale", "llama_4_scaling_beta"),
            ];
            for (key, field) in floats {
                if let Some(value) = rope[field].as_f64() {
                    keys.push((key, Value::F32(value as f32)));
                }
            }
        }
        Some("longrope") => {
            keys.push((
                "rope.scaling.original_context_length",
                Value::U32(original()),
            ));
            for length in ["short", "long"] {
                let factors = rope[format!("{length}_factor")].as_array().unwrap();
                let factors: Vec<f32> =
                    factors.iter().map(|x| x.as_f64().unwrap() as f32).collect();
                let name = format!("rope_factors_{length}.weight");
                let bytes: &[u8] = bytemuck::cast_slice(&factors);
                writer = writer.tensor(&name, Encoding::F32, &[factors.len() as u64], bytes);
            }
        }
        _ => {}
    }
    for (name, value) in keys {
        writer = writer.key(&format!("{architecture}.{name}"), value);
    }
    writer
}

/// The results of transformers.
#[derive(Deserialize)]
struct Golden {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
    greedy: Vec<u32>,
}

fn gguf_logits_and_tokens_match_transformers(place: TestDevice) {
    for conversion in CONVERSIONS {
        let Some(directory) = directory(conversion.golden) else {
            continue;
        };
        if !sample::runs_on(conversion.golden, place) {
            continue;
        }
        let text = std::fs::read_to_string(directory.join("golden.json")).unwrap();
        let golden: Golden = serde_json::from_str(&text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, gguf(conversion, &directory)).unwrap();
        let what = format!("{} in GGUF on {place:?}", conversion.golden);
        let got = logits(Some(&path), place, &golden.tokens, &[]);
        let off = assert_rows_close(&what, &got, &golden.logits);
        let got = generate(Some(&path), place, &golden.tokens, golden.greedy.len(), &[]);
        assert_eq!(got.tokens, golden.greedy, "{what}");
        println!("{what}: within {off:.1e}");
    }
}

on_every_device_and_class!(by case: gguf_logits_and_tokens_match_transformers);

/// The first files of Mixtral have a tensor for each expert.
#[test]
fn experts_in_tensors_of_their_own_match_transformers() {
    let mut conversions = CONVERSIONS.iter();
    let conversion = conversions.find(|conversion| conversion.golden == "mixtral");
    let conversion = conversion.unwrap();
    let Some((directory, golden)) = golden::<Golden>(conversion.golden) else {
        return;
    };
    let config = std::fs::read(directory.join("config.json")).unwrap();
    let mut writer = metadata(conversion, &serde_json::from_slice(&config).unwrap());
    let stacked = Checkpoint::from_bytes("model.gguf", gguf(conversion, &directory)).unwrap();
    for tensor in stacked.tensors() {
        let bytes = stacked.bytes(&tensor.name, 0..tensor.len).unwrap();
        let Some((stem, _)) = tensor.name.split_once("_exps.") else {
            writer = writer.tensor(&tensor.name, Encoding::F32, &tensor.shape, &bytes);
            continue;
        };
        let size = bytes.len() / tensor.shape[0] as usize;
        for (expert, bytes) in bytes.chunks(size).enumerate() {
            let name = format!("{stem}.{expert}.weight");
            writer = writer.tensor(&name, Encoding::F32, &tensor.shape[1..], bytes);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, writer.write()).unwrap();
    let got = logits(Some(&path), TestDevice::Host, &golden.tokens, &[]);
    assert_rows_close("experts apart", &got, &golden.logits);
}
