//! Gemma 3's text model: Gemma 2 with norms on queries and keys instead of soft caps, five layers
//! with a window for each without, and a rotary base of their own for layers with a window.

use wisp_weights::gguf::Value;

use super::{gemma, gemma2};
use crate::{
    architectures::{
        architecture::Architecture,
        error::ArchitectureError,
        gguf_metadata::GgufMetadata,
        hf_config::{HfConfig, LayerType},
    },
    spec::{DecoderSpec, NormPlacement, QkNorm, RopeScaling, RopeSettings, TensorNames},
};

/// Multimodal checkpoints store the text model under other prefixes.
pub(super) fn architecture() -> Architecture {
    gemma::architecture()
        .derived("gemma3")
        .config_classes(["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"])
        .config_defaults(
            r#"{"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
            "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
            "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 131072,
            "tie_word_embeddings": true, "query_pre_attn_scalar": 256, "sliding_window": 4096,
            "sliding_window_pattern": 6, "rope_theta": 1e6, "rope_local_base_freq": 1e4}"#,
        )
        .config_key("sliding_window_pattern", "_sliding_window_pattern")
        .tensor_names(TensorNames {
            prefixes: ["model.", "model.language_model.", "language_model.model."]
                .map(Into::into)
                .into(),
            ..gemma2::tensor_names()
        })
        .spec_from_config(from_config)
        .gguf("gemma3")
        .spec_from_gguf(from_gguf)
        .gguf_key("final_logit_softcapping", |spec| {
            Some(Value::F32(spec.logit_softcap))
        })
        .gguf_key("rope.freq_base_swa", |spec| {
            Some(Value::F32(spec.ropes.get(1)?.theta))
        })
}

pub(super) fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = gemma2::from_config(config)?;
    let window = config.optional_u32("sliding_window")?;
    let pattern = config.u32_or("sliding_window_pattern", 6)? as usize;
    config.set_windows(&mut spec, window, |layer| {
        !(layer + 1).is_multiple_of(pattern)
    })?;
    // The class has the field, but its attention does not use it.
    spec.attention_softcap = 0.0;
    use_local_rope(&mut spec, config.rope(LayerType::SlidingAttention)?);
    Ok(spec)
}

pub(super) fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = gemma::from_gguf(metadata)?;
    spec.norm_placement = NormPlacement::Sandwich;
    spec.logit_softcap = metadata.f32_or("final_logit_softcapping", 0.0)?;
    let window = metadata.optional_u32("attention.sliding_window")?;
    spec.set_windows(window, |layer| !(layer + 1).is_multiple_of(6));
    let theta = metadata.f32_or("rope.freq_base_swa", 10_000.0)?;
    use_local_rope(&mut spec, RopeSettings::new(theta, RopeScaling::None));
    gemma2::scale_largest_model(&mut spec, 62);
    Ok(spec)
}

/// Layers with a window use the second rotary embedding.
fn use_local_rope(spec: &mut DecoderSpec, local: RopeSettings) {
    spec.qk_norm = QkNorm::PerHead;
    spec.set_local_rope(local);
}
