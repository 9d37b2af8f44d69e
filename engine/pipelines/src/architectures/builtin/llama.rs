//! Llama 1 to 3, and models with the same architecture: TinyLlama, SmolLM 2, Vicuna, …

use crate::architectures::architecture::Architecture;

/// The common decoder. GGUF files of Mistral and Mixtral name this architecture, too.
pub(super) fn architecture() -> Architecture {
    Architecture::new("llama")
        .config_classes(["LlamaForCausalLM"])
        .backbone_classes(["LlamaModel"])
        .config_defaults(
            r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048}"#,
        )
        .gguf("llama")
        .gguf_interleaved_rope()
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            // Files that were converted from Mistral have a window in every layer.
            let window = metadata.optional_u32("attention.sliding_window")?;
            spec.set_windows(window, |_| true);
            Ok(spec)
        })
}
