//! Qwen 2 and 2.5: Llama with biases on queries, keys and values, which the checkpoint has.

use super::{super::spec::HUGGING_FACE, Architecture};

/// Layers from `max_window_layers` on see a window, if `use_sliding_window` says so.
pub const QWEN2: Architecture = Architecture {
    name: "qwen2",
    hugging_face: &["Qwen2ForCausalLM"],
    gguf: "qwen2",
    defaults: r#"{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
        "max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28}"#,
    keys: &[],
    names: HUGGING_FACE,
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        let from = config.optional_u32("max_window_layers")?.unwrap_or(0) as usize;
        config.set_windows(&mut spec, config.optional_window()?, |layer| layer >= from)?;
        Ok(spec)
    },
    from_gguf: |config| config.decoder(),
};
