//! DeepSeek V2: DeepSeek V3 with the softmax of its router, and without a bias that selects experts.

use super::{deepseek_v3, deepseek2, glm4_moe};
use crate::{architectures::architecture::Architecture, spec::ExpertScoring};

/// The Lite models have no low rank of queries and no groups.
pub(super) fn architecture() -> Architecture {
    let architecture = Architecture::new("deepseek_v2")
        .config_classes(["DeepseekV2ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
            "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128,
            "qk_nope_head_dim": 128, "moe_intermediate_size": 1407, "num_experts_per_tok": 2,
            "num_local_experts": 64, "n_shared_experts": 2, "routed_scaling_factor": 1.0,
            "first_k_dense_replace": 0, "topk_method": "greedy"}"#,
        )
        .config_key("num_local_experts", "n_routed_experts")
        .spec_from_config(|config| {
            let mut spec = deepseek_v3::with_latent_attention(config)?;
            glm4_moe::set_experts(&mut spec, config)?;
            if let Some(moe) = &mut spec.moe {
                moe.scoring = ExpertScoring::Softmax;
                moe.selection_bias = false;
                moe.normalize = false;
            }
            match config.optional_text("topk_method").unwrap_or("greedy") {
                "greedy" => {}
                "group_limited_greedy" => glm4_moe::set_groups(&mut spec, config, 1)?,
                other => {
                    return Err(config.error(format!(
                        "`topk_method` is {other:?}; greedy and group_limited_greedy are supported"
                    )));
                }
            }
            Ok(spec)
        })
        .gguf("deepseek2")
        .spec_from_gguf(deepseek2::from_gguf);
    deepseek2::with_gguf_keys(architecture)
}
