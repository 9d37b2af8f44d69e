//! SmolLM 3: Llama with layers whose queries and keys are not rotated.

use crate::architectures::architecture::Architecture;

/// Layers for which `no_rope_layers` has a 0, or else every `no_rope_layer_interval`th, do not
/// rotate and may have a window. GGUF does not say which layers these are; its readers take every
/// fourth.
pub(super) fn architecture() -> Architecture {
    Architecture::new("smollm3")
        .config_classes(["SmolLM3ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 11008,
            "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 4,
            "max_position_embeddings": 32768, "rope_theta": 2e6, "no_rope_layer_interval": 4,
            "tie_word_embeddings": true}"#,
        )
        .spec_from_config(|config| {
            let mut spec = config.decoder_spec()?;
            let layers = spec.layers.len();
            let interval = config.u64("no_rope_layer_interval")?.max(1);
            let every_interval = (1..=layers as u64).map(|layer| !layer.is_multiple_of(interval));
            let rotates: Vec<bool> = match config.optional_list("no_rope_layers")? {
                Some(list) => list.into_iter().map(|rotates| rotates != 0).collect(),
                None => every_interval.collect(),
            };
            if rotates.len() < layers {
                return Err(config.error(format!(
                    "`no_rope_layers` has {} entries for {layers} layers",
                    rotates.len(),
                )));
            }
            for (layer, rotates) in spec.layers.iter_mut().zip(&rotates) {
                layer.rope = layer.rope.filter(|_| *rotates);
            }
            let window = config.optional_window()?;
            config.set_windows(&mut spec, window, |layer| !rotates[layer])?;
            Ok(spec)
        })
        .gguf("smollm3")
        .gguf_interleaved_rope()
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            for layer in spec.layers.iter_mut().skip(3).step_by(4) {
                layer.rope = None;
            }
            Ok(spec)
        })
}
