//! Gemma: Llama with scaled embeddings, norms that add 1 to their weight, and a GELU.

use wisp_graph::Activation;

use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
        hf_config::HfConfig,
    },
    spec::DecoderSpec,
};

pub(super) fn architecture() -> Architecture {
    Architecture::new("gemma")
        .config_classes(["GemmaForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576,
            "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16,
            "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 8192,
            "tie_word_embeddings": true}"#,
        )
        .config_key("hidden_act", "hidden_activation")
        .spec_from_config(from_config)
        .gguf("gemma")
        .spec_from_gguf(from_gguf)
}

pub(super) fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    scale_embeddings(&mut spec);
    // The first checkpoints have `hidden_act: gelu` without `hidden_activation`, and mean the
    // approximation.
    if spec.activation == Activation::Gelu {
        spec.activation = Activation::GeluTanh;
    }
    spec.norm.weight_offset = 1.0;
    Ok(spec)
}

/// In GGUF the weights of the norms include the 1.
pub(super) fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    scale_embeddings(&mut spec);
    spec.activation = Activation::GeluTanh;
    Ok(spec)
}

fn scale_embeddings(spec: &mut DecoderSpec) {
    spec.embedding_multiplier = (spec.hidden_size as f32).sqrt();
}
