//! Nomic BERT: BERT with rotation instead of learned positions, and a gated feed-forward without biases.

use super::bert;
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, TensorNames},
};

/// Fields have the names of transformers, or those of the first checkpoints, which follow GPT-2.
pub(super) fn architecture() -> Architecture {
    Architecture::new("nomic_bert")
        .config_classes([
            "NomicBertModel",
            "NomicBertForMaskedLM",
            "NomicBertForSequenceClassification",
            "NomicBertForTokenClassification",
        ])
        .config_defaults(
            r#"{"vocab_size": 30528, "hidden_size": 768, "intermediate_size": 3072,
            "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 2048,
            "type_vocab_size": 2, "rms_norm_eps": 1e-12, "rope_theta": 1000.0}"#,
        )
        .config_key("hidden_size", "n_embd")
        .config_key("num_hidden_layers", "n_layer")
        .config_key("num_attention_heads", "n_head")
        .config_key("intermediate_size", "n_inner")
        .config_key("max_position_embeddings", "n_positions")
        .config_key("rms_norm_eps", "layer_norm_eps")
        .config_key("rms_norm_eps", "layer_norm_epsilon")
        .config_key("rope_theta", "rotary_emb_base")
        .config_key("partial_rotary_factor", "rotary_emb_fraction")
        .tensor_names(TensorNames {
            prefixes: ["", "nomic_bert.", "bert."].map(Into::into).into(),
            embedding: "embeddings.word_embeddings".into(),
            token_types: "embeddings.token_type_embeddings".into(),
            embedding_norm: "emb_ln".into(),
            q: "".into(),
            qkv: "encoder.layers.{}.attn.Wqkv".into(),
            o: "encoder.layers.{}.attn.out_proj".into(),
            attention_residual_norm: "encoder.layers.{}.norm1".into(),
            gate: "encoder.layers.{}.mlp.fc12".into(),
            up: "encoder.layers.{}.mlp.fc11".into(),
            down: "encoder.layers.{}.mlp.fc2".into(),
            mlp_residual_norm: "encoder.layers.{}.norm2".into(),
            score_dense: "nomic_bert.pooler.dense".into(),
            score_output: "classifier".into(),
            ..TensorNames::hugging_face()
        })
        .encoder()
        .spec_from_config(from_config)
        .gguf("nomic-bert")
        .spec_from_gguf(bert::from_gguf)
}

/// Variants that no checkpoint of this class is known to have are refused.
fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    config.require_text("activation_function", "swiglu")?;
    for key in ["prenorm", "use_rms_norm", "rotary_emb_interleaved"] {
        config.require_bool(key, false)?;
    }
    if config.u32_or("moe_every_n_layers", 0)? != 0 {
        return Err(config.error("`moe_every_n_layers`: experts are not supported in this class"));
    }
    if config.optional_f32("rotary_scaling_factor")?.is_some() {
        return Err(config.error("`rotary_scaling_factor` is not supported"));
    }
    bert::from_encoder_config(config)
}
