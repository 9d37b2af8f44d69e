//! Llama 1 to 3 and what is built like it: TinyLlama, SmolLM 2, Vicuna, …

use super::Architecture;

/// The common decoder itself. GGUF stores its queries and keys permuted, for interleaved rotation.
pub const LLAMA: Architecture = Architecture {
    name: "llama",
    hugging_face: &["LlamaForCausalLM"],
    gguf: "llama",
    from_hugging_face: |config| config.decoder(),
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        spec.rope_interleaved = true;
        Ok(spec)
    },
};
