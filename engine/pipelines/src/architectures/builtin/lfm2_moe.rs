//! LFM2 MoE: LFM2 with a mixture of experts after some dense layers: sigmoid scores, and a bias that
//! selects experts.

use wisp_weights::gguf::Value;

use super::lfm2;
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, ExpertScoring, TensorNames},
};

/// The first `num_dense_layers` layers have no experts.
pub(super) fn architecture() -> Architecture {
    Architecture::new("lfm2_moe")
        .config_classes(["Lfm2MoeForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 7168,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "max_position_embeddings": 128000, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
            "conv_L_cache": 3, "moe_intermediate_size": 1792, "num_dense_layers": 2,
            "num_experts_per_tok": 4, "num_local_experts": 32, "use_expert_bias": true,
            "routed_scaling_factor": 1.0, "norm_topk_prob": true, "tie_word_embeddings": true}"#,
        )
        .config_key("rms_norm_eps", "norm_eps")
        .config_key("num_local_experts", "num_experts")
        .config_key("tie_word_embeddings", "tie_embedding")
        .tensor_names(TensorNames {
            router: "layers.{}.feed_forward.gate".into(),
            selection_bias: "layers.{}.feed_forward.expert_bias".into(),
            expert_gate: "layers.{}.feed_forward.experts.{}.w1".into(),
            expert_up: "layers.{}.feed_forward.experts.{}.w3".into(),
            expert_down: "layers.{}.feed_forward.experts.{}.w2".into(),
            ..lfm2::tensor_names()
        })
        .spec_from_config(|config| {
            let mut spec = lfm2::with_mixers(config)?;
            set_experts(&mut spec, config)?;
            Ok(spec)
        })
        .gguf("lfm2moe")
        .gguf_tensor_names(lfm2::gguf_tensor_names())
        .spec_from_gguf(lfm2::with_gguf_mixers)
        .gguf_key("attention.head_count_kv", lfm2::layer_kv_heads)
        .gguf_key("shortconv.l_cache", lfm2::conv_width)
        .gguf_key("leading_dense_block_count", |spec| {
            Some(Value::U32(spec.leading_dense_layers() as u32))
        })
}

fn set_experts(spec: &mut DecoderSpec, config: &HfConfig) -> Result<(), ArchitectureError> {
    let dense = config.u64("num_dense_layers")?;
    spec.set_expert_layers(|i| i as u64 >= dense);
    let normalize = config.bool_or("norm_topk_prob", true)?;
    let mut moe = config.moe("moe_intermediate_size", normalize)?;
    moe.scoring = ExpertScoring::Sigmoid;
    moe.selection_bias = config.bool_or("use_expert_bias", true)?;
    moe.scale = config.f32_or("routed_scaling_factor", 1.0)?;
    spec.moe = Some(moe);
    Ok(())
}
