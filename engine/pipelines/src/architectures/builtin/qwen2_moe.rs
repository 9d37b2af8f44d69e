//! Qwen 1.5 MoE and Qwen 2 MoE: Qwen 2 with a mixture of experts in some layers, and a shared expert
//! whose output a sigmoid scales.

use super::{qwen2, qwen3_moe};
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, SharedExpert, TensorNames},
};

/// Layers with experts are those of Qwen 3 MoE. The routing weights of the selected experts do not sum
/// to 1 unless `norm_topk_prob` is true.
pub(super) fn architecture() -> Architecture {
    Architecture::new("qwen2_moe")
        .config_classes(["Qwen2MoeForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
            "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
            "max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28,
            "decoder_sparse_step": 1, "moe_intermediate_size": 1408, "num_experts_per_tok": 4,
            "num_local_experts": 60, "shared_expert_intermediate_size": 5632}"#,
        )
        .config_key("num_local_experts", "num_experts")
        .tensor_names(tensor_names())
        .spec_from_config(|config| {
            let mut spec = qwen2::from_config(config)?;
            set_experts(&mut spec, config)?;
            Ok(spec)
        })
        .gguf("qwen2moe")
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            let normalize = metadata.bool_or("expert_weights_norm", false)?;
            if let Some(moe) = &mut spec.moe {
                moe.normalize = normalize;
            }
            Ok(spec)
        })
}

/// Returns what checkpoints with a gated shared expert call their tensors.
pub(super) fn tensor_names() -> TensorNames {
    TensorNames {
        shared_gate: "layers.{}.mlp.shared_expert.gate_proj".into(),
        shared_up: "layers.{}.mlp.shared_expert.up_proj".into(),
        shared_down: "layers.{}.mlp.shared_expert.down_proj".into(),
        shared_router: "layers.{}.mlp.shared_expert_gate".into(),
        ..TensorNames::hugging_face()
    }
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
