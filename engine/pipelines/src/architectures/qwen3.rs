//! Qwen 3: Qwen 2 with a norm of each head's query and key.

use super::{super::spec::QkNorm, Architecture, qwen2};

/// Heads have a width of their own. Windows as in Qwen 2.
pub const QWEN3: Architecture = Architecture {
    name: "qwen3",
    hugging_face: &["Qwen3ForCausalLM"],
    gguf: "qwen3",
    defaults: r#"{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
        "head_dim": 128, "max_position_embeddings": 32768, "sliding_window": 4096,
        "max_window_layers": 28}"#,
    from_hugging_face: |config| {
        let mut spec = (qwen2::QWEN2.from_hugging_face)(config)?;
        spec.qk_norm = QkNorm::PerHead;
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        spec.qk_norm = QkNorm::PerHead;
        Ok(spec)
    },
    ..qwen2::QWEN2
};
