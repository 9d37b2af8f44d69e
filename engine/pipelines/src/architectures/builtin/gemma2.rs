//! Gemma 2: Gemma with norms on both sides, soft caps, and a window in every other layer.

use wisp_weights::gguf::Value;

use super::gemma;
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, NormPlacement, TensorNames},
};

/// Attention scores are divided by the root of `query_pre_attn_scalar`. Even layers, counted from
/// 0, have a window.
pub(super) fn architecture() -> Architecture {
    gemma::architecture()
        .derived("gemma2")
        .config_classes(["Gemma2ForCausalLM"])
        .backbone_classes(["Gemma2Model"])
        .config_defaults(
            r#"{"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216,
            "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
            "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 8192,
            "tie_word_embeddings": true, "query_pre_attn_scalar": 256, "sliding_window": 4096,
            "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}"#,
        )
        .tensor_names(tensor_names())
        .spec_from_config(from_config)
        .gguf("gemma2")
        .spec_from_gguf(|metadata| {
            let mut spec = gemma::from_gguf(metadata)?;
            spec.norm_placement = NormPlacement::Sandwich;
            spec.attention_softcap = metadata.f32_or("attn_logit_softcapping", 50.0)?;
            spec.logit_softcap = metadata.f32_or("final_logit_softcapping", 30.0)?;
            let window = metadata.u32_or("attention.sliding_window", 4096)?;
            spec.set_windows(Some(window), |layer| layer.is_multiple_of(2));
            scale_largest_model(&mut spec, 46);
            Ok(spec)
        })
        .gguf_key("final_logit_softcapping", |spec| {
            Some(Value::F32(spec.logit_softcap))
        })
        .gguf_key("attn_logit_softcapping", |spec| {
            Some(Value::F32(spec.attention_softcap))
        })
}

/// The norm before the feed-forward network has a name of its own.
pub(super) fn tensor_names() -> TensorNames {
    TensorNames {
        mlp_norm: "layers.{}.pre_feedforward_layernorm".into(),
        ..TensorNames::hugging_face()
    }
}

pub(super) fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = gemma::from_config(config)?;
    spec.norm_placement = NormPlacement::Sandwich;
    spec.set_attention_scale(1.0 / config.f32_or("query_pre_attn_scalar", 256.0)?.sqrt());
    spec.attention_softcap = config.f32_or("attn_logit_softcapping", 0.0)?;
    spec.logit_softcap = config.f32_or("final_logit_softcapping", 0.0)?;
    let window = config.optional_u32("sliding_window")?;
    config.set_windows(&mut spec, window, |layer| layer.is_multiple_of(2))?;
    Ok(spec)
}

/// Sets the attention scale of the family's largest model, which has this many layers: it divides
/// by the root of hidden size by heads, but GGUF files do not say so.
pub(super) fn scale_largest_model(spec: &mut DecoderSpec, layers: usize) {
    if spec.layers.len() == layers {
        let scalar = spec.hidden_size as f32 / spec.heads as f32;
        spec.set_attention_scale(1.0 / scalar.sqrt());
    }
}
