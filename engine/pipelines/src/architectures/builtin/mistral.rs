//! Mistral: Llama with a sliding window in every layer.

use super::llama;
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::DecoderSpec,
};

/// Every layer sees `sliding_window` positions. Converted GGUF files name `llama`, which other
/// programs read.
pub(super) fn architecture() -> Architecture {
    llama::architecture()
        .derived("mistral")
        .config_classes(["MistralForCausalLM"])
        .backbone_classes(["MistralModel"])
        .config_defaults(
            r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "max_position_embeddings": 131072, "sliding_window": 4096}"#,
        )
        .spec_from_config(from_config)
        .gguf("mistral")
        .gguf_written_as("llama")
        .gguf_interleaved_rope()
}

pub(super) fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    spec.set_windows(config.optional_u32("sliding_window")?, |_| true);
    Ok(spec)
}
