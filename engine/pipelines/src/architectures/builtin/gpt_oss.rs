//! gpt-oss: Llama with biases, a sink for each query head, a window in every other layer, and a mixture of
//! experts in every layer whose gated product is limited.

use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{ClampedSwiglu, DecoderSpec, GateUpOrder, RopeScaling, TensorNames},
};

/// The first layer has a window. The experts of the published checkpoints are in MXFP4.
pub(super) fn architecture() -> Architecture {
    Architecture::new("gpt_oss")
        .config_classes(["GptOssForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
            "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
            "head_dim": 64, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
            "rope_theta": 150000.0, "sliding_window": 128, "num_local_experts": 128,
            "num_experts_per_tok": 4, "swiglu_alpha": 1.702, "swiglu_limit": 7.0}"#,
        )
        .tensor_names(TensorNames {
            router: "layers.{}.mlp.router".into(),
            expert_gate: "".into(),
            expert_up: "".into(),
            expert_gate_up: "layers.{}.mlp.experts.gate_up_proj".into(),
            gate_up_order: GateUpOrder::Interleaved,
            expert_down: "layers.{}.mlp.experts.down_proj".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(from_config)
        .gguf("gpt-oss")
        .gguf_tensor_names(TensorNames {
            mlp_norm: "blk.{}.post_attention_norm".into(),
            ..TensorNames::gguf().clone()
        })
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            let window = metadata.optional_u32("attention.sliding_window")?;
            spec.set_windows(window, |layer| layer.is_multiple_of(2));
            // No key says so.
            for rope in &mut spec.ropes {
                if let RopeScaling::Yarn { truncate, .. } = &mut rope.scaling {
                    *truncate = false;
                }
            }
            let (alpha, limit) = (1.702, 7.0);
            Ok(with_sinks(spec, ClampedSwiglu { alpha, limit }))
        })
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    let window = config.optional_u32("sliding_window")?;
    config.set_windows(&mut spec, window, |layer| layer.is_multiple_of(2))?;
    spec.moe = Some(config.moe("intermediate_size", true)?);
    let alpha = config.f32_or("swiglu_alpha", 1.702)?;
    let limit = config.f32_or("swiglu_limit", 7.0)?;
    Ok(with_sinks(spec, ClampedSwiglu { alpha, limit }))
}

fn with_sinks(mut spec: DecoderSpec, gate: ClampedSwiglu) -> DecoderSpec {
    spec.set_expert_layers(|_| true);
    for layer in &mut spec.layers {
        layer.sinks = true;
    }
    if let Some(moe) = &mut spec.moe {
        moe.clamped = Some(gate);
    }
    spec
}
