//! SmolLM 3: Llama with layers whose queries and keys are not rotated.

use super::{super::spec::HUGGING_FACE, Architecture, hf_config::problem};

/// Those where `no_rope_layers` has a 0, or every `no_rope_layer_interval`th, which may have a window.
pub const SMOLLM3: Architecture = Architecture {
    name: "smollm3",
    hugging_face: &["SmolLM3ForCausalLM"],
    gguf: "smollm3",
    defaults: r#"{"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 11008,
        "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 4,
        "max_position_embeddings": 32768, "rope_theta": 2e6, "no_rope_layer_interval": 4,
        "tie_word_embeddings": true}"#,
    keys: &[],
    names: HUGGING_FACE,
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        let interval = config.u64("no_rope_layer_interval")?.max(1);
        let rotates: Vec<u64> = match config.list("no_rope_layers")? {
            Some(list) => list,
            None => (1..=spec.layers.len() as u64)
                .map(|layer| (!layer.is_multiple_of(interval)).into())
                .collect(),
        };
        if rotates.len() < spec.layers.len() {
            return Err(problem(format!(
                "`no_rope_layers` has {} entries for {} layers",
                rotates.len(),
                spec.layers.len()
            )));
        }
        for (layer, rotates) in spec.layers.iter_mut().zip(&rotates) {
            layer.rope = layer.rope.filter(|_| *rotates != 0);
        }
        let window = config.optional_window()?;
        config.set_windows(&mut spec, window, |layer| rotates[layer] == 0)?;
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        spec.rope_interleaved = true;
        for layer in spec.layers.iter_mut().skip(3).step_by(4) {
            layer.rope = None;
        }
        Ok(spec)
    },
};
