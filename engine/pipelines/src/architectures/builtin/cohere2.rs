//! Cohere 2 (Command R7B, Command A): attention and feed-forward side by side after one layer norm, a
//! window and rotation, in neighbouring pairs, in three of four layers, and a factor on the logits.

use wisp_graph::NormKind;
use wisp_weights::gguf::Value;

use super::olmo3;
use crate::{
    architectures::architecture::Architecture,
    spec::{DecoderSpec, TensorNames},
};

/// Every `sliding_window_pattern`th layer has neither window nor rotation, unless `layer_types` says
/// otherwise. The embedding is always the output layer.
pub(super) fn architecture() -> Architecture {
    Architecture::new("cohere2")
        .config_classes(["Cohere2ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 256000, "hidden_size": 8192, "intermediate_size": 22528,
            "num_hidden_layers": 40, "num_attention_heads": 64, "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-5, "logit_scale": 0.0625, "sliding_window": 4096,
            "sliding_window_pattern": 4, "tie_word_embeddings": true}"#,
        )
        .config_key("rms_norm_eps", "layer_norm_eps")
        .tensor_names(TensorNames {
            mlp_norm: "".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(|config| {
            let mut spec = config.decoder_spec()?;
            let window = config.optional_u32("sliding_window")?;
            let every = config.u32("sliding_window_pattern")? as usize;
            config.set_windows(&mut spec, window, |layer| {
                !(layer + 1).is_multiple_of(every)
            })?;
            let scale = config.f32_or("logit_scale", 1.0)?;
            Ok(with_parallel_layers(spec, scale))
        })
        .gguf("cohere2")
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            metadata.set_windows(&mut spec, 4)?;
            let scale = metadata.f32_or("logit_scale", 1.0)?;
            Ok(with_parallel_layers(spec, scale))
        })
        .gguf_key("attention.sliding_window_pattern", olmo3::window_pattern)
        .gguf_key("logit_scale", |spec| {
            Some(Value::F32(spec.logit_multiplier))
        })
}

fn with_parallel_layers(mut spec: DecoderSpec, logit_multiplier: f32) -> DecoderSpec {
    spec.norm.kind = NormKind::Layer;
    spec.parallel_residual = true;
    spec.shared_norm = true;
    spec.rope_interleaved = true;
    spec.logit_multiplier = logit_multiplier;
    for layer in &mut spec.layers {
        layer.rope = layer.rope.filter(|_| layer.window.is_some());
    }
    spec
}
