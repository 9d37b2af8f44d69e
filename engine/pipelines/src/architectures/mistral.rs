//! Mistral: Llama with an attention window. GGUF files of it say `llama`.

use super::{super::spec::HUGGING_FACE, Architecture};

/// Every layer sees `sliding_window` positions.
pub const MISTRAL: Architecture = Architecture {
    name: "mistral",
    hugging_face: &["MistralForCausalLM"],
    gguf: "mistral",
    defaults: r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "max_position_embeddings": 131072, "sliding_window": 4096}"#,
    keys: &[],
    names: HUGGING_FACE,
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        spec.set_windows(config.optional_u32("sliding_window")?, |_| true);
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        spec.rope_interleaved = true;
        // Of files that `wisp convert` made from Mistral's.
        spec.set_windows(config.u32("attention.sliding_window")?, |_| true);
        Ok(spec)
    },
};
