//! Llama 1 to 3 and what is built like it: TinyLlama, SmolLM 2, Vicuna, …

use super::{super::spec::HUGGING_FACE, Architecture};

/// The common decoder itself. GGUF stores its queries and keys permuted, for interleaved rotation,
/// and calls Mixtral so too.
pub const LLAMA: Architecture = Architecture {
    name: "llama",
    hugging_face: &["LlamaForCausalLM"],
    gguf: "llama",
    defaults: r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048}"#,
    keys: &[],
    names: HUGGING_FACE,
    from_hugging_face: |config| config.decoder(),
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        spec.rope_interleaved = true;
        // Of files that `wisp convert` made from Mistral's.
        spec.set_windows(config.u32("attention.sliding_window")?, |_| true);
        Ok(spec)
    },
};
