//! Qwen 3: Qwen 2 with a norm on each head's query and key.

use super::qwen2;
use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
    },
    spec::{DecoderSpec, QkNorm},
};

/// The width of a head is a field of its own. Windows are those of Qwen 2.
pub(super) fn architecture() -> Architecture {
    Architecture::new("qwen3")
        .config_classes(["Qwen3ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "head_dim": 128, "max_position_embeddings": 32768, "sliding_window": 4096,
            "max_window_layers": 28}"#,
        )
        .spec_from_config(|config| {
            let mut spec = qwen2::from_config(config)?;
            spec.qk_norm = QkNorm::PerHead;
            Ok(spec)
        })
        .gguf("qwen3")
        .spec_from_gguf(from_gguf)
}

pub(super) fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    spec.qk_norm = QkNorm::PerHead;
    Ok(spec)
}
