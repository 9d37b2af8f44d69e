//! Mixtral: Mistral with a mixture of experts in every layer.

use super::mistral;
use crate::{architectures::architecture::Architecture, spec::TensorNames};

/// The routing weights of the selected experts always sum to 1. GGUF files name `llama`.
pub(super) fn architecture() -> Architecture {
    mistral::architecture()
        .derived("mixtral")
        .config_classes(["MixtralForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
            "num_local_experts": 8, "num_experts_per_tok": 2}"#,
        )
        .tensor_names(tensor_names())
        .spec_from_config(|config| {
            let mut spec = mistral::from_config(config)?;
            spec.moe = Some(config.moe("intermediate_size", true)?);
            spec.set_expert_layers(|_| true);
            Ok(spec)
        })
}

/// Returns what Mixtral's checkpoints call their tensors.
pub(super) fn tensor_names() -> TensorNames {
    TensorNames {
        router: "layers.{}.block_sparse_moe.gate".into(),
        expert_gate: "layers.{}.block_sparse_moe.experts.{}.w1".into(),
        expert_up: "layers.{}.block_sparse_moe.experts.{}.w3".into(),
        expert_down: "layers.{}.block_sparse_moe.experts.{}.w2".into(),
        ..TensorNames::hugging_face()
    }
}
