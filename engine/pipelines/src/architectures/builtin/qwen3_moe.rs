//! Qwen 3 MoE: Qwen 3 with a mixture of experts in some layers.

use super::{qwen2, qwen3};
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, GateUpOrder, QkNorm, TensorNames},
};

/// Every `decoder_sparse_step`th layer has experts, except `mlp_only_layers`. All layers have the
/// same window, if any.
pub(super) fn architecture() -> Architecture {
    Architecture::new("qwen3_moe")
        .config_classes(["Qwen3MoeForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
            "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 4,
            "max_position_embeddings": 32768, "sliding_window": 4096, "decoder_sparse_step": 1,
            "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_local_experts": 128}"#,
        )
        .config_key("num_local_experts", "num_experts")
        .tensor_names(TensorNames {
            prefixes: qwen2::prefixes(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(|config| {
            let mut spec = config.decoder_spec()?;
            spec.qk_norm = QkNorm::PerHead;
            spec.set_windows(config.optional_window()?, |_| true);
            set_experts(&mut spec, config)?;
            Ok(spec)
        })
        .gguf("qwen3moe")
        .gguf_aliases(["qwen3vlmoe"])
        .spec_from_gguf(qwen3::from_gguf)
}

/// The text model of Qwen 3 VL with experts, whose weights published checkpoints store transposed. Routing weights always sum to 1.
pub(super) fn with_vision() -> Architecture {
    architecture()
        .derived("qwen3_vl_moe")
        .config_classes(["Qwen3VLMoeForConditionalGeneration"])
        .config_defaults(
            r#"{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
            "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
            "max_position_embeddings": 128000, "decoder_sparse_step": 1, "norm_topk_prob": true,
            "moe_intermediate_size": 1408, "num_experts_per_tok": 4, "num_local_experts": 60}"#,
        )
        .tensor_names(TensorNames {
            prefixes: qwen2::prefixes(),
            expert_gate: "".into(),
            expert_up: "".into(),
            gate_up_order: GateUpOrder::Stacked,
            expert_down: "layers.{}.mlp.experts.down_proj".into(),
            ..TensorNames::hugging_face()
        })
}

/// Sets the mixture of experts, and the layers that have it.
pub(super) fn set_experts(
    spec: &mut DecoderSpec,
    config: &HfConfig,
) -> Result<(), ArchitectureError> {
    let step = config.u64("decoder_sparse_step")?;
    if step == 0 {
        return Err(config.error("`decoder_sparse_step` is 0"));
    }
    let dense = config.optional_list("mlp_only_layers")?.unwrap_or_default();
    spec.set_expert_layers(|i| {
        let i = i as u64;
        (i + 1).is_multiple_of(step) && !dense.contains(&i)
    });
    let normalize = config.bool_or("norm_topk_prob", false)?;
    spec.moe = Some(config.moe("moe_intermediate_size", normalize)?);
    Ok(())
}
