//! Ministral 3, and the text models of Mistral 3: Mistral with queries that grow with the position
//! beyond the trained context.

use wisp_weights::gguf::Value;

use super::mistral;
use crate::{
    architectures::architecture::Architecture,
    rope::yarn_scale,
    spec::{DecoderSpec, QueryScaling, RopeScaling, TensorNames},
};

/// `llama_4_scaling_beta` says how fast queries grow; models without it (Mistral Small 3) have
/// queries of the same size. Multimodal checkpoints store the text model under other prefixes.
pub(super) fn architecture() -> Architecture {
    Architecture::new("ministral3")
        .config_classes(["Ministral3ForCausalLM", "Mistral3ForConditionalGeneration"])
        .config_defaults(
            r#"{"vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 34, "num_attention_heads": 32, "num_key_value_heads": 8,
            "head_dim": 128, "max_position_embeddings": 262144, "rms_norm_eps": 1e-5}"#,
        )
        .tensor_names(TensorNames {
            prefixes: ["model.", "model.language_model.", "language_model.model."]
                .map(Into::into)
                .into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(|config| {
            let mut spec = mistral::from_config(config)?;
            let beta = config.rope_number("llama_4_scaling_beta")?;
            scale_queries(&mut spec, beta.map(|beta| beta as f32));
            Ok(spec)
        })
        .gguf("mistral3")
        .gguf_interleaved_rope()
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            let window = metadata.optional_u32("attention.sliding_window")?;
            spec.set_windows(window, |_| true);
            // With this key, the factor on cosine and sine is smaller than YaRN implies.
            let multiplier = metadata.optional_f32("rope.scaling.yarn_log_multiplier")?;
            if let Some(rope) = spec.ropes.first_mut()
                && let RopeScaling::Yarn {
                    factor,
                    attention_factor,
                    ..
                } = &mut rope.scaling
                && let Some(multiplier) = multiplier.filter(|multiplier| *multiplier != 0.0)
            {
                *attention_factor /= yarn_scale(*factor, multiplier.into());
            }
            let beta = metadata.optional_f32("attention.temperature_scale")?;
            scale_queries(&mut spec, beta);
            Ok(spec)
        })
        .gguf_key("attention.temperature_scale", |spec| {
            Some(Value::F32(spec.query_scaling?.beta))
        })
}

/// Lets queries grow beyond the context that YaRN extends.
fn scale_queries(spec: &mut DecoderSpec, beta: Option<f32>) {
    let scaling = spec.ropes.first().map(|rope| &rope.scaling);
    if let (Some(beta), Some(RopeScaling::Yarn { original, .. })) = (beta, scaling) {
        spec.query_scaling = Some(QueryScaling {
            beta,
            context: *original,
            offset: 0,
            rotated: true,
        });
    }
}
