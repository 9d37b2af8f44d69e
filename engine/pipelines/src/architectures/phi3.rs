//! Phi-3 and 3.5: Llama with fused projections, which the names say, a window and LongRoPE.

use super::{super::spec::HUGGING_FACE, Architecture, mistral};

/// Early configurations call LongRoPE `su`.
pub const PHI3: Architecture = Architecture {
    name: "phi3",
    hugging_face: &["Phi3ForCausalLM"],
    gguf: "phi3",
    defaults: r#"{"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 4096,
        "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5}"#,
    names: HUGGING_FACE,
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        let window = config.u32("attention.sliding_window")?;
        spec.set_windows(window.filter(|window| *window > 0), |_| true);
        Ok(spec)
    },
    ..mistral::MISTRAL
};
