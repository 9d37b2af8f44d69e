//! Phi-3.5 MoE: Mixtral with layer norms, biases, and the sparse mixer's router.

use wisp_weights::gguf::Value;

use super::mixtral;
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, ExpertScoring, NormKind, RopeScaling},
};

/// The router's noise in all published models.
const NOISE: f32 = 0.01;

/// Wisp's own key for it.
const NOISE_KEY: &str = "router_jitter_noise";

/// Wisp's own key for the factor on cosine and sine of short texts. The format's key has that of long ones.
const SHORT_FACTOR_KEY: &str = "rope.scaling.short_attn_factor";

/// The router selects two experts, whatever `num_experts_per_tok` says. Factors on cosine and sine replace those of
/// LongRoPE.
pub(super) fn architecture() -> Architecture {
    Architecture::new("phimoe")
        .config_classes(["PhimoeForCausalLM", "PhiMoEForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 32064, "hidden_size": 4096, "intermediate_size": 6400,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
            "num_experts_per_tok": 2, "num_local_experts": 16, "router_jitter_noise": 0.01}"#,
        )
        .tensor_names(mixtral::tensor_names())
        .spec_from_config(from_config)
        .gguf("phimoe")
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            spec.norm.kind = NormKind::Layer;
            let window = metadata.optional_u32("attention.sliding_window")?;
            spec.set_windows(window, |_| true);
            let short_factor = metadata.optional_f32(SHORT_FACTOR_KEY)?;
            if let Some(rope) = spec.ropes.first_mut()
                && let RopeScaling::LongRope {
                    attention_factors: [for_short, for_long],
                    ..
                } = &mut rope.scaling
            {
                *for_short = short_factor.map_or(*for_long, f64::from);
            }
            let noise = metadata.f32_or(NOISE_KEY, NOISE)?;
            if let Some(moe) = &mut spec.moe {
                moe.experts_per_token = 2;
                moe.scoring = ExpertScoring::SparseMixer(2.0 * noise);
                moe.normalize = false;
            }
            Ok(spec)
        })
        .gguf_key(NOISE_KEY, |spec| match spec.moe?.scoring {
            ExpertScoring::SparseMixer(twice) => Some(Value::F32(twice / 2.0)),
            _ => None,
        })
        .gguf_key(SHORT_FACTOR_KEY, |spec| match spec.ropes.first()?.scaling {
            RopeScaling::LongRope {
                attention_factors: [for_short, _],
                ..
            } => Some(Value::F32(for_short as f32)),
            _ => None,
        })
        // Other programs require this key, whatever the kind of norms.
        .gguf_key("attention.layer_norm_rms_epsilon", |spec| {
            Some(Value::F32(spec.norm.eps))
        })
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    spec.norm.kind = NormKind::Layer;
    let window = config.optional_u32("sliding_window")?;
    spec.set_windows(window, |_| true);
    let mut moe = config.moe("intermediate_size", false)?;
    moe.experts_per_token = 2;
    let noise = config.f32_or("router_jitter_noise", NOISE)?;
    moe.scoring = ExpertScoring::SparseMixer(2.0 * noise);
    spec.moe = Some(moe);
    spec.set_expert_layers(|_| true);
    if let Some(rope) = spec.ropes.first_mut()
        && let RopeScaling::LongRope {
            attention_factors: [for_short, for_long],
            ..
        } = &mut rope.scaling
    {
        *for_short = config.rope_number("short_mscale")?.unwrap_or(*for_short);
        *for_long = config.rope_number("long_mscale")?.unwrap_or(*for_long);
    }
    Ok(spec)
}
