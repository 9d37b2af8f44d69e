//! Qwen3-Next: layers with a gated delta net beside layers with attention, whose output is gated. All have
//! experts and a gated shared expert.

use super::{qwen2_moe, qwen3_moe};
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, DeltaNetSpec, Mixer, QkNorm, SharedExpert},
};

/// Without `layer_types`, every `full_attention_interval`th layer has attention.
pub(super) fn architecture() -> Architecture {
    Architecture::new("qwen3_next")
        .config_classes(["Qwen3NextForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
            "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
            "max_position_embeddings": 32768, "head_dim": 256, "partial_rotary_factor": 0.25,
            "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
            "linear_num_key_heads": 16, "linear_num_value_heads": 32, "full_attention_interval": 4,
            "decoder_sparse_step": 1, "moe_intermediate_size": 512, "num_experts_per_tok": 10,
            "shared_expert_intermediate_size": 512, "num_local_experts": 512, "norm_topk_prob": true}"#,
        )
        .config_key("num_local_experts", "num_experts")
        .tensor_names(qwen2_moe::tensor_names())
        .spec_from_config(|config| {
            let mut spec = with_delta_nets(config)?;
            set_experts(&mut spec, config)?;
            Ok(spec)
        })
}

/// Makes a spec of layers with delta nets and layers with gated attention.
pub(super) fn with_delta_nets(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    spec.norm.weight_offset = 1.0;
    spec.qk_norm = QkNorm::PerHead;
    spec.attention_gate = true;
    let layers = spec.layers.len();
    let kinds = &["full_attention", "linear_attention"];
    let types = match config.layer_types(kinds, layers)? {
        Some(types) => types,
        None => {
            let interval = config.u64("full_attention_interval")?.max(1);
            let is_linear = |layer: u64| !layer.is_multiple_of(interval);
            (1..=layers as u64)
                .map(|layer| usize::from(is_linear(layer)))
                .collect()
        }
    };
    let net = DeltaNetSpec {
        k_heads: config.u32("linear_num_key_heads")?,
        v_heads: config.u32("linear_num_value_heads")?,
        k_dim: config.u32("linear_key_head_dim")?,
        v_dim: config.u32("linear_value_head_dim")?,
        width: config.u32("linear_conv_kernel_dim")?,
    };
    let layers = spec.layers.iter_mut().zip(types);
    for (layer, _) in layers.filter(|(_, kind)| *kind == 1) {
        layer.mixer = Mixer::DeltaNet(net);
        layer.rope = None;
    }
    Ok(spec)
}

/// Sets the experts of Qwen 3 MoE, and a gated shared expert.
pub(super) fn set_experts(
    spec: &mut DecoderSpec,
    config: &HfConfig,
) -> Result<(), ArchitectureError> {
    qwen3_moe::set_experts(spec, config)?;
    if let Some(moe) = &mut spec.moe {
        moe.shared = Some(SharedExpert {
            intermediate_size: config.u64("shared_expert_intermediate_size")?,
            gated: true,
        });
    }
    Ok(())
}
