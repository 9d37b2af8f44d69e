//! GLM-4.5: Llama with heads that rotate in part, biases and norms on queries and keys in some models,
//! and after some dense layers a mixture of experts with sigmoid scores, a bias that selects them, and
//! shared experts.

use wisp_weights::gguf::Value;

use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, ExpertGroups, ExpertScoring, QkNorm, SharedExpert, TensorNames, in_layer},
};

/// The first `first_k_dense_replace` layers have no experts. Layers beyond `num_hidden_layers`, which predict
/// further tokens, are not used.
pub(super) fn architecture() -> Architecture {
    Architecture::new("glm4_moe")
        .config_classes(["Glm4MoeForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944,
            "num_hidden_layers": 46, "num_attention_heads": 96, "num_key_value_heads": 8,
            "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "partial_rotary_factor": 0.5,
            "moe_intermediate_size": 1408, "num_experts_per_tok": 8, "num_local_experts": 128,
            "n_shared_experts": 1, "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
            "norm_topk_prob": true}"#,
        )
        .config_key("num_local_experts", "n_routed_experts")
        .spec_from_config(from_config)
        .gguf("glm4moe")
        .gguf_tensor_names(TensorNames {
            mlp_norm: TensorNames::gguf().attention_output_norm.clone(),
            ..TensorNames::gguf().clone()
        })
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            let groups = metadata.expert_groups(2)?;
            if metadata.has_weight(&in_layer(&TensorNames::gguf().q_norm, 0)) {
                spec.qk_norm = QkNorm::PerHead;
            }
            if let Some(moe) = &mut spec.moe {
                moe.scoring = ExpertScoring::Sigmoid;
                moe.groups = groups;
            }
            Ok(spec)
        })
        .gguf_key("leading_dense_block_count", |spec| {
            Some(Value::U32(spec.leading_dense_layers() as u32))
        })
}

fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    if config.bool_or("use_qk_norm", false)? {
        spec.qk_norm = QkNorm::PerHead;
    }
    set_experts(&mut spec, config)?;
    set_groups(&mut spec, config, 2)?;
    Ok(spec)
}

/// Sets the mixture of experts, and the layers that have it.
pub(super) fn set_experts(
    spec: &mut DecoderSpec,
    config: &HfConfig,
) -> Result<(), ArchitectureError> {
    let dense = config.u64("first_k_dense_replace")?;
    spec.set_expert_layers(|i| i as u64 >= dense);
    let normalize = config.bool_or("norm_topk_prob", true)?;
    let mut moe = config.moe("moe_intermediate_size", normalize)?;
    moe.scoring = ExpertScoring::Sigmoid;
    moe.selection_bias = true;
    moe.scale = config.f32_or("routed_scaling_factor", 1.0)?;
    let shared = config.u64("n_shared_experts")?;
    if shared > 0 {
        moe.shared = Some(SharedExpert {
            intermediate_size: shared.saturating_mul(moe.intermediate_size),
            gated: false,
        });
    }
    spec.moe = Some(moe);
    Ok(())
}

/// Sets the groups of experts, each of which is as good as the `best` experts in it together.
pub(super) fn set_groups(
    spec: &mut DecoderSpec,
    config: &HfConfig,
    best: u32,
) -> Result<(), ArchitectureError> {
    let groups = config.u32_or("n_group", 1)?;
    if let Some(moe) = spec.moe.as_mut().filter(|_| groups > 1) {
        moe.groups = Some(ExpertGroups {
            groups,
            chosen: config.u32_or("topk_group", 1)?,
            best,
        });
    }
    Ok(())
}
