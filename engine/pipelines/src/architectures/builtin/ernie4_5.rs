//! ERNIE 4.5: Llama with rotation in neighbouring pairs, and biases, which the checkpoint has.

use crate::{architectures::architecture::Architecture, spec::DecoderSpec};

/// The biases are in the checkpoint if `use_bias` is true.
pub(super) fn architecture() -> Architecture {
    Architecture::new("ernie4_5")
        .config_classes(["Ernie4_5ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 103424, "hidden_size": 1024, "intermediate_size": 3072,
            "num_hidden_layers": 18, "num_attention_heads": 16, "num_key_value_heads": 2,
            "head_dim": 128, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0, "tie_word_embeddings": true}"#,
        )
        .spec_from_config(|config| Ok(with_rotated_neighbours(config.decoder_spec()?)))
        .gguf("ernie4_5")
        .spec_from_gguf(|metadata| Ok(with_rotated_neighbours(metadata.decoder_spec()?)))
}

pub(super) fn with_rotated_neighbours(mut spec: DecoderSpec) -> DecoderSpec {
    spec.rope_interleaved = true;
    spec
}
