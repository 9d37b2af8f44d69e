//! OLMo 3: OLMo 2 with a window in three of four layers, whose rotation is not scaled.

use wisp_weights::gguf::Value;

use super::olmo2;
use crate::{
    architectures::{architecture::Architecture, hf_config::LayerType},
    spec::DecoderSpec,
};

/// Every fourth layer has no window, unless `layer_types` says otherwise. GGUF files name `olmo2`.
pub(super) fn architecture() -> Architecture {
    olmo2::architecture()
        .derived("olmo3")
        .config_classes(["Olmo3ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-5, "sliding_window": 4096, "rope_theta": 500000.0}"#,
        )
        .spec_from_config(|config| {
            let mut spec = olmo2::with_norms(config.decoder_spec()?);
            let window = config.optional_u32("sliding_window")?;
            config.set_windows(&mut spec, window, |layer| !(layer + 1).is_multiple_of(4))?;
            spec.set_local_rope(config.rope(LayerType::SlidingAttention)?);
            Ok(spec)
        })
        .gguf_key("attention.sliding_window_pattern", window_pattern)
}

/// Returns GGUF's distance between layers without a window, the first of which ends the first stretch;
/// `None` for a model without windows.
pub(super) fn window_pattern(spec: &DecoderSpec) -> Option<Value> {
    spec.layers.iter().find(|layer| layer.window.is_some())?;
    let without = spec.layers.iter().position(|layer| layer.window.is_none());
    let every = without.unwrap_or(spec.layers.len()) + 1;
    Some(Value::U32(u32::try_from(every).ok()?))
}
