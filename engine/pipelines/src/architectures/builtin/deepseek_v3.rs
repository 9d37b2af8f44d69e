//! DeepSeek V3 and R1: multi-head latent attention, and GLM-4.5's experts in groups.

use super::{deepseek2, glm4_moe};
use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    rope::yarn_scale,
    spec::{DecoderSpec, LatentAttention},
};

/// The epsilon of the norms of low ranks in transformers, whatever `rms_norm_eps` is.
const LOW_RANK_EPS: f32 = 1e-6;

/// Layers beyond `num_hidden_layers`, which predict further tokens, are not used.
pub(super) fn architecture() -> Architecture {
    let architecture = Architecture::new("deepseek_v3")
        .config_classes(["DeepseekV3ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
            "num_hidden_layers": 61, "num_attention_heads": 128, "max_position_embeddings": 4096,
            "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128,
            "qk_nope_head_dim": 128, "rope_interleave": true, "moe_intermediate_size": 2048,
            "num_experts_per_tok": 8, "num_local_experts": 256, "n_shared_experts": 1,
            "routed_scaling_factor": 2.5, "first_k_dense_replace": 3, "norm_topk_prob": true,
            "n_group": 8, "topk_group": 4}"#,
        )
        .config_key("num_local_experts", "n_routed_experts")
        .spec_from_config(|config| {
            let mut spec = with_latent_attention(config)?;
            glm4_moe::set_experts(&mut spec, config)?;
            glm4_moe::set_groups(&mut spec, config, 2)?;
            Ok(spec)
        })
        .gguf_written_as("deepseek2")
        .gguf_plain_rope();
    deepseek2::with_gguf_keys(architecture)
}

/// Makes the spec of a Llama with multi-head latent attention.
pub(super) fn with_latent_attention(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    spec.latent = Some(LatentAttention {
        q_rank: config.optional_u64("q_lora_rank")?,
        kv_rank: config.u32("kv_lora_rank")?,
        value_dim: config.u32("v_head_dim")?,
        norm_eps: LOW_RANK_EPS,
    });
    spec.rotary_dim = config.u32("qk_rope_head_dim")?;
    spec.head_dim = config
        .u32("qk_nope_head_dim")?
        .saturating_add(spec.rotary_dim);
    spec.kv_heads = spec.heads;
    spec.rope_interleaved = config.bool_or("rope_interleave", true)?;
    let mut scale = 1.0 / f64::from(spec.head_dim).sqrt();
    let numbers = (
        config.rope_number("factor")?,
        config.rope_number("mscale_all_dim")?,
    );
    if let (Some(factor), Some(mscale)) = numbers {
        scale *= yarn_scale(factor, mscale).powi(2);
    }
    spec.set_attention_scale(scale as f32);
    Ok(spec)
}
