//! The architectures that run through candle, as rows of a table.

use candle_core::{DType, Device, Error, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{
    falcon, glm4_new, helium, llama, mamba, mistral, olmo, phi, qwen2, qwen2_moe, stable_lm,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A model with its state: takes tokens `u32 [1, tokens]` and the position of the first one, and
/// returns the logits of the last one. Several tokens at a time are supported only at position 0.
pub(super) type Forward = Box<dyn FnMut(&Tensor, usize) -> Result<Tensor> + Send>;

/// An architecture that runs through candle.
pub struct CandleArchitecture {
    /// Its class name under `architectures` in Hugging Face's `config.json`.
    pub name: &'static str,
    /// The values of fields that a `config.json` may leave out, by transformers' configuration
    /// class, as far as candle reads them: a JSON object.
    pub(super) defaults: &'static str,
    /// Fields with another name in candle: its name, then that of `config.json`.
    pub(super) keys: &'static [(&'static str, &'static str)],
    /// Fields whose values candle's code assumes, and these values: a JSON object.
    pub(super) fixed: &'static str,
    /// Types of rope scaling that candle supports.
    pub(super) rope_types: &'static [&'static str],
    /// Tensors that a checkpoint may have under another name: candle's name, then the other one.
    pub(super) tensors: &'static [(&'static str, &'static str)],
    /// Builds the model.
    pub(super) build: fn(&Value, VarBuilder) -> Result<Forward>,
}

/// The embedding is the output layer where that is missing.
const TIED: &[(&str, &str)] = &[("lm_head.weight", "model.embed_tokens.weight")];

/// The fields that most rows share.
const PLAIN: CandleArchitecture = CandleArchitecture {
    name: "",
    defaults: "{}",
    keys: &[],
    fixed: "{}",
    rope_types: &[],
    tensors: TIED,
    build: |_, _| Err(Error::msg("no model")),
};

/// Builds a model of one of candle's modules whose `forward` takes the position.
macro_rules! positioned {
    ($module:ident :: $model:ident) => {
        |config, weights| {
            let config: $module::Config = parse(config)?;
            let mut model = $module::$model::new(&config, weights)?;
            Ok(Box::new(move |tokens, at| model.forward(tokens, at)))
        }
    };
}

/// Every architecture that runs through candle. Wisp has the first three itself, which shows that both
/// give the same tokens.
pub static CANDLE_ARCHITECTURES: &[CandleArchitecture] = &[
    CandleArchitecture {
        name: "LlamaForCausalLM",
        defaults: r#"{"rms_norm_eps": 1e-6, "max_position_embeddings": 2048}"#,
        fixed: r#"{"hidden_act": "silu", "attention_bias": false, "mlp_bias": false}"#,
        rope_types: &["llama3"],
        build: llama,
        ..PLAIN
    },
    CandleArchitecture {
        name: "Qwen2ForCausalLM",
        defaults: r#"{"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "hidden_act": "silu",
            "rope_theta": 10000.0, "tie_word_embeddings": false, "max_window_layers": 28,
            "sliding_window": 4294967295, "use_sliding_window": false}"#,
        build: positioned!(qwen2::ModelForCausalLM),
        ..PLAIN
    },
    CandleArchitecture {
        name: "MistralForCausalLM",
        defaults: r#"{"rms_norm_eps": 1e-6, "max_position_embeddings": 131072, "rope_theta": 10000.0,
            "num_key_value_heads": 8}"#,
        build: positioned!(mistral::Model),
        ..PLAIN
    },
    CandleArchitecture {
        name: "FalconForCausalLM",
        defaults: r#"{"layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "use_cache": true,
            "bos_token_id": 11, "eos_token_id": 11, "hidden_dropout": 0.0, "attention_dropout": 0.0,
            "alibi": false, "new_decoder_architecture": false, "multi_query": true,
            "parallel_attn": true, "bias": false, "max_position_embeddings": 2048,
            "tie_word_embeddings": true}"#,
        fixed: r#"{"activation": "gelu", "rope_theta": 10000.0, "alibi": false,
            "new_decoder_architecture": false, "multi_query": true}"#,
        tensors: &[("lm_head.weight", "transformer.word_embeddings.weight")],
        build: falcon,
        ..PLAIN
    },
    CandleArchitecture {
        name: "PhiForCausalLM",
        defaults: r#"{"hidden_act": "gelu_new", "max_position_embeddings": 2048, "rope_theta": 10000.0,
            "layer_norm_eps": 1e-5, "tie_word_embeddings": false, "partial_rotary_factor": 0.5,
            "qk_layernorm": false}"#,
        build: phi,
        ..PLAIN
    },
    CandleArchitecture {
        name: "StableLmForCausalLM",
        defaults: r#"{"hidden_act": "silu", "max_position_embeddings": 4096, "rope_theta": 10000.0,
            "layer_norm_eps": 1e-5, "num_key_value_heads": 32, "partial_rotary_factor": 0.25,
            "use_cache": true, "use_qkv_bias": false}"#,
        fixed: r#"{"use_parallel_residual": false, "qk_layernorm": false}"#,
        build: positioned!(stable_lm::Model),
        ..PLAIN
    },
    CandleArchitecture {
        name: "OlmoForCausalLM",
        defaults: r#"{"hidden_act": "silu", "max_position_embeddings": 2048, "rope_theta": 10000.0,
            "attention_bias": false, "tie_word_embeddings": false}"#,
        build: positioned!(olmo::Model),
        ..PLAIN
    },
    CandleArchitecture {
        name: "HeliumForCausalLM",
        defaults: r#"{"hidden_act": "silu", "max_position_embeddings": 4096, "rope_theta": 100000.0,
            "rms_norm_eps": 1e-8, "attention_bias": false, "mlp_bias": false, "head_dim": 128,
            "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2}"#,
        build: positioned!(helium::Model),
        ..PLAIN
    },
    CandleArchitecture {
        name: "Glm4ForCausalLM",
        defaults: r#"{"hidden_act": "silu", "max_position_embeddings": 131072, "rope_theta": 10000.0,
            "rms_norm_eps": 1.5625e-7, "partial_rotary_factor": 0.5, "head_dim": 128,
            "num_key_value_heads": 2, "attention_bias": false, "tie_word_embeddings": false}"#,
        build: positioned!(glm4_new::ModelForCausalLM),
        ..PLAIN
    },
    CandleArchitecture {
        name: "Qwen2MoeForCausalLM",
        defaults: r#"{"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "hidden_act": "silu",
            "rope_theta": 10000.0, "tie_word_embeddings": false, "max_window_layers": 28,
            "sliding_window": 4294967295, "use_sliding_window": false, "decoder_sparse_step": 1,
            "norm_topk_prob": false, "num_experts_per_tok": 4, "num_experts": 60,
            "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632}"#,
        build: positioned!(qwen2_moe::Model),
        ..PLAIN
    },
    CandleArchitecture {
        name: "MambaForCausalLM",
        defaults: r#"{"pad_vocab_size_multiple": 1, "tie_word_embeddings": true}"#,
        keys: &[("d_model", "hidden_size"), ("n_layer", "num_hidden_layers")],
        fixed: r#"{"state_size": 16, "conv_kernel": 4, "expand": 2, "use_bias": false,
            "use_conv_bias": true, "layer_norm_epsilon": 1e-5, "hidden_act": "silu",
            "tie_word_embeddings": true, "pad_vocab_size_multiple": 1}"#,
        tensors: &[("backbone.embedding.weight", "backbone.embeddings.weight")],
        build: mamba,
        ..PLAIN
    },
];

/// True if candle has one of the architectures of these class names.
pub fn is_supported(names: &[String]) -> bool {
    find(names).is_some()
}

/// Returns the row of the first name that has one.
pub(super) fn find(names: &[String]) -> Option<&'static CandleArchitecture> {
    let row = |name: &String| CANDLE_ARCHITECTURES.iter().find(|row| row.name == name);
    names.iter().find_map(row)
}

fn parse<T: DeserializeOwned>(config: &Value) -> Result<T> {
    T::deserialize(config).map_err(|error| Error::msg(format!("config.json: {error}")))
}

fn llama(config: &Value, weights: VarBuilder) -> Result<Forward> {
    let config = parse::<llama::LlamaConfig>(config)?.into_config(false);
    // Candle panics if a block's tensor is missing or has another shape.
    let (h, inner) = (config.hidden_size, config.intermediate_size);
    let head = h / config.num_attention_heads;
    let kv = config.num_key_value_heads * head;
    for layer in 0..config.num_hidden_layers {
        let block = weights.pp(format!("model.layers.{layer}"));
        for (name, shape) in [
            (
                "self_attn.q_proj.weight",
                (head * config.num_attention_heads, h),
            ),
            ("self_attn.k_proj.weight", (kv, h)),
            ("self_attn.v_proj.weight", (kv, h)),
            (
                "self_attn.o_proj.weight",
                (h, head * config.num_attention_heads),
            ),
            ("mlp.gate_proj.weight", (inner, h)),
            ("mlp.up_proj.weight", (inner, h)),
            ("mlp.down_proj.weight", (h, inner)),
        ] {
            block.get(shape, name)?;
        }
        block.get(h, "input_layernorm.weight")?;
        block.get(h, "post_attention_layernorm.weight")?;
    }
    let mut cache = llama::Cache::new(true, DType::F32, &config, &Device::Cpu)?;
    let model = llama::Llama::load(weights, &config)?;
    Ok(Box::new(move |tokens, at| {
        model.forward(tokens, at, &mut cache)
    }))
}

fn falcon(config: &Value, weights: VarBuilder) -> Result<Forward> {
    let config: falcon::Config = parse(config)?;
    config.validate()?;
    let mut model = falcon::Falcon::load(weights, config)?;
    Ok(Box::new(move |tokens, _| model.forward(tokens)))
}

fn phi(config: &Value, weights: VarBuilder) -> Result<Forward> {
    let mut model = phi::Model::new(&parse(config)?, weights)?;
    Ok(Box::new(move |tokens, _| model.forward(tokens)))
}

/// Candle's Mamba takes one token at a time.
fn mamba(config: &Value, weights: VarBuilder) -> Result<Forward> {
    let config: mamba::Config = parse(config)?;
    let model = mamba::Model::new(&config, weights.pp("backbone"))?;
    let mut state = mamba::State::new(1, &config, DType::F32, &Device::Cpu)?;
    Ok(Box::new(move |tokens, _| {
        let tokens = tokens.flatten_all()?;
        let mut logits = Err(Error::msg("no tokens"));
        for at in 0..tokens.elem_count() {
            logits = Ok(model.forward(&tokens.narrow(0, at, 1)?, &mut state)?);
        }
        logits
    }))
}
