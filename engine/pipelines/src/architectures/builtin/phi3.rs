//! Phi-3 and 3.5: Mistral with fused projections and LongRoPE.

use super::mistral;
use crate::architectures::architecture::Architecture;

/// The fused projections have the common names of such.
pub(super) fn architecture() -> Architecture {
    Architecture::new("phi3")
        .config_classes(["Phi3ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192,
            "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 4096,
            "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5}"#,
        )
        .spec_from_config(mistral::from_config)
        .gguf("phi3")
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            let window = metadata.optional_u32("attention.sliding_window")?;
            spec.set_windows(window, |_| true);
            Ok(spec)
        })
}
