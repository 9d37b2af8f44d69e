//! Qwen 3, and the text model of Qwen 3 VL: Qwen 2 with a norm on each head's query and key.

use super::qwen2;
use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
        hf_config::HfConfig,
    },
    spec::{DecoderSpec, EncoderSpec, QkNorm, ScoreHead, TensorNames},
};

/// The width of a head is a field of its own. Windows are those of Qwen 2.
pub(super) fn architecture() -> Architecture {
    Architecture::new("qwen3")
        .config_classes(["Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration"])
        .backbone_classes(["Qwen3Model"])
        .config_defaults(
            r#"{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "head_dim": 128, "max_position_embeddings": 32768, "sliding_window": 4096,
            "max_window_layers": 28}"#,
        )
        .tensor_names(TensorNames {
            prefixes: qwen2::prefixes(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(from_config)
        .gguf("qwen3")
        .gguf_aliases(["qwen3vl"])
        .spec_from_gguf(from_gguf)
}

/// Qwen 3 with a linear layer that scores the last token.
pub(super) fn classifier() -> Architecture {
    architecture()
        .derived("qwen3_classifier")
        .encoder()
        .config_classes(["Qwen3ForSequenceClassification"])
        .spec_from_config(|config| {
            let mut spec = from_config(config)?;
            spec.encoder = Some(EncoderSpec {
                score: config.score_labels()?.map(ScoreHead::linear),
                ..EncoderSpec::causal()
            });
            Ok(spec)
        })
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = qwen2::from_config(config)?;
    spec.qk_norm = QkNorm::PerHead;
    Ok(spec)
}

pub(super) fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    spec.qk_norm = QkNorm::PerHead;
    Ok(spec)
}
