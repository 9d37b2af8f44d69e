//! Mistral: Llama with an attention window. GGUF files of it say `llama`.

use super::Architecture;

/// Every layer sees `sliding_window` positions.
pub const MISTRAL: Architecture = Architecture {
    name: "mistral",
    hugging_face: &["MistralForCausalLM"],
    gguf: "mistral",
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        let window = config.optional_u32("sliding_window")?;
        spec.windows = vec![window; spec.layers as usize];
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        spec.rope_interleaved = true;
        Ok(spec)
    },
};
