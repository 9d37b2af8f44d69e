//! Granite 3: Llama with multipliers.

use wisp_weights::gguf::Value;

use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
        hf_config::HfConfig,
    },
    spec::DecoderSpec,
};

/// `logits_scaling` divides. GGUF stores queries and keys in the same order as Llama's.
pub(super) fn architecture() -> Architecture {
    let architecture = Architecture::new("granite")
        .config_classes(["GraniteForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
            "embedding_multiplier": 1.0, "residual_multiplier": 1.0, "attention_multiplier": 1.0,
            "logits_scaling": 1.0}"#,
        )
        .spec_from_config(with_multipliers)
        .gguf("granite")
        .gguf_interleaved_rope()
        .spec_from_gguf(with_gguf_multipliers);
    with_gguf_keys(architecture)
}

/// Adds the keys of the multipliers.
pub(super) fn with_gguf_keys(architecture: Architecture) -> Architecture {
    architecture
        .gguf_key("embedding_scale", |spec| {
            Some(Value::F32(spec.embedding_multiplier))
        })
        .gguf_key("residual_scale", |spec| {
            Some(Value::F32(spec.residual_multiplier))
        })
        .gguf_key("logit_scale", |spec| {
            Some(Value::F32(1.0 / spec.logit_multiplier))
        })
        .gguf_key("attention.scale", |spec| {
            Some(Value::F32(spec.layers.first()?.attention_scale))
        })
}

/// Makes a spec with the multipliers of a GGUF file.
pub(super) fn with_gguf_multipliers(
    metadata: &GgufMetadata<'_>,
) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    spec.embedding_multiplier = metadata.f32_or("embedding_scale", 1.0)?;
    spec.residual_multiplier = metadata.f32_or("residual_scale", 1.0)?;
    spec.logit_multiplier = 1.0 / metadata.f32_or("logit_scale", 1.0)?;
    if let Some(scale) = metadata.optional_f32("attention.scale")? {
        spec.set_attention_scale(scale);
    }
    Ok(spec)
}

/// Makes a spec with the multipliers of a `config.json`.
pub(super) fn with_multipliers(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    spec.embedding_multiplier = config.f32_or("embedding_multiplier", 1.0)?;
    spec.residual_multiplier = config.f32_or("residual_multiplier", 1.0)?;
    spec.logit_multiplier = 1.0 / config.f32_or("logits_scaling", 1.0)?;
    spec.set_attention_scale(config.f32_or("attention_multiplier", 1.0)?);
    Ok(spec)
}
