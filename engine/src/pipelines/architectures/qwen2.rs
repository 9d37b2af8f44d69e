//! Qwen 2 and 2.5: Llama with biases on queries, keys and values, which the checkpoint has.

use super::Architecture;

/// Layers from `max_window_layers` on see a window, if `use_sliding_window` says so.
pub const QWEN2: Architecture = Architecture {
    name: "qwen2",
    hugging_face: &["Qwen2ForCausalLM"],
    gguf: "qwen2",
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        if config.boolean("use_sliding_window")? == Some(true) {
            let window = config.optional_u32("sliding_window")?;
            let from = config.optional_u32("max_window_layers")?.unwrap_or(0);
            spec.windows = (0..spec.layers)
                .map(|layer| window.filter(|_| layer >= from))
                .collect();
        }
        Ok(spec)
    },
    from_gguf: |config| config.decoder(),
};
