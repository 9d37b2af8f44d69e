//! Tiny random checkpoints of the architectures that run through candle.

use std::{collections::HashMap, path::Path};

use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};

/// A checkpoint: its `config.json` and its tensors.
#[derive(Clone)]
pub struct Tiny {
    pub config: Value,
    pub tensors: HashMap<String, Vec<usize>>,
}

const HIDDEN: usize = 24;
const INNER: usize = 40;
pub const VOCAB: usize = 61;
const LAYERS: usize = 2;

/// The architectures; the last ones Wisp has itself.
pub const NAMES: &[&str] = &[
    "FalconForCausalLM",
    "PhiForCausalLM",
    "StableLmForCausalLM",
    "OlmoForCausalLM",
    "HeliumForCausalLM",
    "Glm4ForCausalLM",
    "Qwen2MoeForCausalLM",
    "MambaForCausalLM",
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
];

type Shape = (&'static str, &'static [usize]);

/// The tensors of most blocks: four projections and a gated feed-forward network.
const PROJECTIONS: &[Shape] = &[
    ("self_attn.q_proj.weight", &[HIDDEN, HIDDEN]),
    ("self_attn.k_proj.weight", &[8, HIDDEN]),
    ("self_attn.v_proj.weight", &[8, HIDDEN]),
    ("self_attn.o_proj.weight", &[HIDDEN, HIDDEN]),
];
const GATED: &[Shape] = &[
    ("mlp.gate_proj.weight", &[INNER, HIDDEN]),
    ("mlp.up_proj.weight", &[INNER, HIDDEN]),
    ("mlp.down_proj.weight", &[HIDDEN, INNER]),
];
const BIASES: &[Shape] = &[
    ("self_attn.q_proj.bias", &[HIDDEN]),
    ("self_attn.k_proj.bias", &[8]),
    ("self_attn.v_proj.bias", &[8]),
];
const NORMS: &[Shape] = &[
    ("input_layernorm.weight", &[HIDDEN]),
    ("post_attention_layernorm.weight", &[HIDDEN]),
];
const NORM_BIASES: &[Shape] = &[
    ("input_layernorm.bias", &[HIDDEN]),
    ("post_attention_layernorm.bias", &[HIDDEN]),
];
const FALCON: &[Shape] = &[
    ("input_layernorm.weight", &[HIDDEN]),
    ("input_layernorm.bias", &[HIDDEN]),
    (
        "self_attention.query_key_value.weight",
        &[HIDDEN + 16, HIDDEN],
    ),
    ("self_attention.dense.weight", &[HIDDEN, HIDDEN]),
    ("mlp.dense_h_to_4h.weight", &[4 * HIDDEN, HIDDEN]),
    ("mlp.dense_4h_to_h.weight", &[HIDDEN, 4 * HIDDEN]),
];
const PHI: &[Shape] = &[
    ("input_layernorm.weight", &[HIDDEN]),
    ("input_layernorm.bias", &[HIDDEN]),
    ("self_attn.q_proj.weight", &[HIDDEN, HIDDEN]),
    ("self_attn.k_proj.weight", &[8, HIDDEN]),
    ("self_attn.v_proj.weight", &[8, HIDDEN]),
    ("self_attn.dense.weight", &[HIDDEN, HIDDEN]),
    ("self_attn.dense.bias", &[HIDDEN]),
    ("mlp.fc1.weight", &[INNER, HIDDEN]),
    ("mlp.fc1.bias", &[INNER]),
    ("mlp.fc2.weight", &[HIDDEN, INNER]),
    ("mlp.fc2.bias", &[HIDDEN]),
];
const GLM: &[Shape] = &[
    ("post_self_attn_layernorm.weight", &[HIDDEN]),
    ("post_mlp_layernorm.weight", &[HIDDEN]),
    ("mlp.gate_up_proj.weight", &[2 * INNER, HIDDEN]),
    ("mlp.down_proj.weight", &[HIDDEN, INNER]),
];
const MOE: &[Shape] = &[
    ("mlp.gate.weight", &[3, HIDDEN]),
    ("mlp.shared_expert_gate.weight", &[1, HIDDEN]),
    ("mlp.shared_expert.gate_proj.weight", &[20, HIDDEN]),
    ("mlp.shared_expert.up_proj.weight", &[20, HIDDEN]),
    ("mlp.shared_expert.down_proj.weight", &[HIDDEN, 20]),
    ("mlp.experts.0.gate_proj.weight", &[16, HIDDEN]),
    ("mlp.experts.0.up_proj.weight", &[16, HIDDEN]),
    ("mlp.experts.0.down_proj.weight", &[HIDDEN, 16]),
    ("mlp.experts.1.gate_proj.weight", &[16, HIDDEN]),
    ("mlp.experts.1.up_proj.weight", &[16, HIDDEN]),
    ("mlp.experts.1.down_proj.weight", &[HIDDEN, 16]),
    ("mlp.experts.2.gate_proj.weight", &[16, HIDDEN]),
    ("mlp.experts.2.up_proj.weight", &[16, HIDDEN]),
    ("mlp.experts.2.down_proj.weight", &[HIDDEN, 16]),
];
const MAMBA: &[Shape] = &[
    ("norm.weight", &[HIDDEN]),
    ("mixer.in_proj.weight", &[4 * HIDDEN, HIDDEN]),
    ("mixer.x_proj.weight", &[34, 2 * HIDDEN]),
    ("mixer.dt_proj.weight", &[2 * HIDDEN, 2]),
    ("mixer.dt_proj.bias", &[2 * HIDDEN]),
    ("mixer.A_log", &[2 * HIDDEN, 16]),
    ("mixer.D", &[2 * HIDDEN]),
    ("mixer.out_proj.weight", &[HIDDEN, 2 * HIDDEN]),
    ("mixer.conv1d.weight", &[2 * HIDDEN, 1, 4]),
    ("mixer.conv1d.bias", &[2 * HIDDEN]),
];
const BLOCKS: &str = "model.layers.";
const HEAD: Shape = ("lm_head.weight", &[VOCAB, HIDDEN]);
const EMBEDDING: Shape = ("model.embed_tokens.weight", &[VOCAB, HIDDEN]);
const NORM: Shape = ("model.norm.weight", &[HIDDEN]);

/// Returns the prefix of the blocks, the tensors of each, the tensors outside of them, and further
/// fields of `config.json`.
fn parts(name: &str) -> (&'static str, Vec<&'static [Shape]>, Vec<Shape>, Value) {
    let plain = vec![EMBEDDING, NORM, HEAD];
    match name {
        "FalconForCausalLM" => {
            let rest = vec![
                ("transformer.word_embeddings.weight", EMBEDDING.1),
                ("transformer.ln_f.weight", NORM.1),
                ("transformer.ln_f.bias", NORM.1),
            ];
            ("transformer.h.", vec![FALCON], rest, json!({}))
        }
        "PhiForCausalLM" => {
            let rest = vec![
                EMBEDDING,
                HEAD,
                ("lm_head.bias", &[VOCAB]),
                ("model.final_layernorm.weight", NORM.1),
                ("model.final_layernorm.bias", NORM.1),
            ];
            (BLOCKS, vec![PHI, BIASES], rest, json!({}))
        }
        "StableLmForCausalLM" => {
            let rest = vec![EMBEDDING, NORM, ("model.norm.bias", NORM.1), HEAD];
            let more = json!({"use_qkv_bias": true});
            let blocks = vec![PROJECTIONS, GATED, BIASES, NORMS, NORM_BIASES];
            (BLOCKS, blocks, rest, more)
        }
        "OlmoForCausalLM" => {
            let more = json!({"clip_qkv": 0.3});
            (
                BLOCKS,
                vec![PROJECTIONS, GATED],
                vec![EMBEDDING, HEAD],
                more,
            )
        }
        "Glm4ForCausalLM" => (BLOCKS, vec![PROJECTIONS, NORMS, GLM], plain, json!({})),
        "Qwen2MoeForCausalLM" => {
            let more = json!({"num_experts": 3, "num_experts_per_tok": 2,
                "moe_intermediate_size": 16, "shared_expert_intermediate_size": 20});
            (BLOCKS, vec![PROJECTIONS, BIASES, NORMS, MOE], plain, more)
        }
        "MambaForCausalLM" => {
            let rest = vec![
                ("backbone.embeddings.weight", EMBEDDING.1),
                ("backbone.norm_f.weight", NORM.1),
            ];
            ("backbone.layers.", vec![MAMBA], rest, json!({}))
        }
        "Qwen2ForCausalLM" => (
            BLOCKS,
            vec![PROJECTIONS, GATED, BIASES, NORMS],
            plain,
            json!({}),
        ),
        // Llama, Mistral and Helium.
        _ => (BLOCKS, vec![PROJECTIONS, GATED, NORMS], plain, json!({})),
    }
}

/// Makes the checkpoint of an architecture.
pub fn tiny(name: &str) -> Tiny {
    let (blocks, block, rest, more) = parts(name);
    let mut tensors = HashMap::new();
    for (tensor, shape) in rest {
        tensors.insert(tensor.to_string(), shape.to_vec());
    }
    for layer in 0..LAYERS {
        for (tensor, shape) in block.iter().copied().flatten() {
            tensors.insert(format!("{blocks}{layer}.{tensor}"), shape.to_vec());
        }
    }
    let mut config = json!({
        "architectures": [name], "hidden_size": HIDDEN, "intermediate_size": INNER,
        "vocab_size": VOCAB, "num_hidden_layers": LAYERS, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64,
        "eos_token_id": [2, 3], "sliding_window": null,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    });
    if let (Value::Object(config), Value::Object(more)) = (&mut config, more) {
        config.extend(more);
    }
    Tiny { config, tensors }
}

impl Tiny {
    /// Writes the checkpoint. The weights depend only on the tensors' names.
    pub fn write(&self, directory: &Path) {
        let values = |name: &str, shape: &[usize]| {
            let mut state = name
                .bytes()
                .fold(1u32, |h, b| (h ^ u32::from(b)).wrapping_mul(16777619));
            let next = (0..shape.iter().product()).map(move |_| {
                state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            });
            let is_norm = name.contains("norm") && name.ends_with("weight");
            let scaled = next.map(|x: f32| if is_norm { 1.0 + 0.2 * x } else { 0.5 * x });
            scaled.flat_map(f32::to_le_bytes).collect::<Vec<u8>>()
        };
        let bytes: Vec<_> = self
            .tensors
            .iter()
            .map(|(name, shape)| (name, shape, values(name, shape)))
            .collect();
        let views = bytes.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap();
            (name.as_str(), view)
        });
        let file = directory.join("model.safetensors");
        safetensors::serialize_to_file(views, None, &file).unwrap();
        std::fs::write(directory.join("config.json"), self.config.to_string()).unwrap();
    }
}
