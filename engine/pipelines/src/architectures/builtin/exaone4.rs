//! EXAONE 4: OLMo 2 with a norm on each head's query and key, and in larger models layers with a
//! window beside layers without window and rotation.

use super::olmo3;
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, NormPlacement, QkNorm},
};

/// In models with windows only the layers that have one rotate. `sliding_window_pattern` is the
/// distance between layers without, or a text with a letter for each layer: L with a window, G
/// without.
pub(super) fn architecture() -> Architecture {
    Architecture::new("exaone4")
        .config_classes(["Exaone4ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 16384,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "sliding_window": 4096}"#,
        )
        .spec_from_config(|config| {
            let mut spec = with_norms(config.decoder_spec()?);
            let windowed = windowed_layers(config, spec.layers.len())?;
            let window = config.optional_u32("sliding_window")?;
            config.set_windows(&mut spec, window, |layer| windowed[layer])?;
            keep_windowed_rotation(&mut spec, window);
            Ok(spec)
        })
        .gguf("exaone4")
        .spec_from_gguf(|metadata| {
            let mut spec = with_norms(metadata.decoder_spec()?);
            metadata.set_windows(&mut spec, 4)?;
            let window = metadata.optional_u32("attention.sliding_window")?;
            keep_windowed_rotation(&mut spec, window);
            Ok(spec)
        })
        .gguf_key("attention.sliding_window_pattern", olmo3::window_pattern)
}

fn with_norms(mut spec: DecoderSpec) -> DecoderSpec {
    spec.norm_placement = NormPlacement::Output;
    spec.qk_norm = QkNorm::PerHead;
    spec
}

/// Returns which layers have a window in a configuration without `layer_types`.
fn windowed_layers(config: &HfConfig, layers: usize) -> Result<Vec<bool>, ArchitectureError> {
    let key = "sliding_window_pattern";
    if let Some(letters) = config.optional_text(key) {
        let repeated = letters.bytes().cycle().take(layers);
        let mut windowed: Vec<bool> = repeated.map(|letter| letter == b'L').collect();
        windowed.resize(layers, false);
        if let Some(last) = windowed.last_mut() {
            *last = false;
        }
        return Ok(windowed);
    }
    let every = config.u32_or(key, 4)? as usize;
    let windowed = (1..=layers).map(|layer| !layer.is_multiple_of(every));
    Ok(windowed.collect())
}

fn keep_windowed_rotation(spec: &mut DecoderSpec, window: Option<u32>) {
    let has_windows = window.is_some_and(|window| window > 0);
    for layer in &mut spec.layers {
        layer.rope = layer
            .rope
            .filter(|_| !has_windows || layer.window.is_some());
    }
}
