//! DeepSeek V2 and V3 in GGUF, which has one name for both.

use wisp_weights::gguf::Value;

use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
    },
    spec::{DecoderSpec, ExpertScoring, LatentAttention, RopeScaling},
};

/// Adds the keys of latent attention, of experts, and of YaRN as the family uses it.
pub(super) fn with_gguf_keys(architecture: Architecture) -> Architecture {
    architecture
        .gguf_key("attention.q_lora_rank", |spec| {
            // Other programs require the key, and take 0 for a projection in one step.
            Some(Value::U32(spec.latent?.q_rank.unwrap_or(0) as u32))
        })
        .gguf_key("attention.kv_lora_rank", |spec| {
            Some(Value::U32(spec.latent?.kv_rank))
        })
        .gguf_key("attention.value_length", |spec| {
            Some(Value::U32(spec.latent?.value_dim))
        })
        .gguf_key("leading_dense_block_count", |spec| {
            Some(Value::U32(spec.leading_dense_layers() as u32))
        })
        .gguf_key("expert_gating_func", |spec| {
            let is_softmax = spec.moe?.scoring == ExpertScoring::Softmax;
            Some(Value::U32(if is_softmax { 1 } else { 2 }))
        })
        .gguf_key("rope.scaling.attn_factor", |_| None)
        .gguf_key("rope.scaling.yarn_log_multiplier", |spec| {
            let scale = spec.layers.first()?.attention_scale * (spec.head_dim as f32).sqrt();
            match &spec.ropes.first()?.scaling {
                // The inverse of the scale that this multiplier makes.
                RopeScaling::Yarn { factor, .. } if *factor > 1.0 => {
                    let multiplier = (f64::from(scale).sqrt() - 1.0) / factor.ln();
                    Some(Value::F32(multiplier as f32))
                }
                _ => None,
            }
        })
}

/// Makes the spec of a GGUF file. Where the projections of keys and values from their low rank are apart (`attn_k_b`,
/// `attn_v_b`), the sizes of heads have keys of their own, and the usual ones are those of attention to the low rank.
pub(super) fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    if metadata.f32_or("attention.temperature_scale", 0.0)? != 0.0 {
        return Err(metadata.error(
            "`attention.temperature_scale`: queries that grow with the position are not supported with \
             latent attention",
        ));
    }
    let mut spec = metadata.decoder_spec()?;
    if let Some(head_dim) = metadata.optional_u32("attention.key_length_mla")? {
        spec.head_dim = head_dim;
        spec.set_attention_scale(1.0 / (head_dim as f32).sqrt());
    }
    let q_rank = metadata.optional_u32("attention.q_lora_rank")?;
    let value_dim = metadata.optional_u32("attention.value_length_mla")?;
    spec.latent = Some(LatentAttention {
        q_rank: q_rank.filter(|rank| *rank > 0).map(u64::from),
        kv_rank: metadata.u32("attention.kv_lora_rank")?,
        value_dim: match value_dim {
            Some(value_dim) => value_dim,
            None => metadata.u32("attention.value_length")?,
        },
        norm_eps: spec.norm.eps,
    });
    spec.kv_heads = spec.heads;
    spec.rope_interleaved = true;
    let has_bias = spec.moe.is_some_and(|moe| moe.selection_bias);
    let groups = metadata.expert_groups(if has_bias { 2 } else { 1 })?;
    let normalize = metadata.bool_or("expert_weights_norm", false)?;
    let gating = metadata.u32_or("expert_gating_func", 0)?;
    if let Some(moe) = &mut spec.moe {
        moe.groups = groups;
        moe.normalize = normalize;
        // The first files lack the key, or have 0: those of GLM-4.7-Flash have a bias and sigmoid scores, and those of
        // DeepSeek V2 neither.
        if gating == 0 && has_bias {
            moe.scoring = ExpertScoring::Sigmoid;
        }
    }
    let multiplier = metadata.f32_or("rope.scaling.yarn_log_multiplier", 0.0)?;
    if let Some(rope) = spec.ropes.first_mut()
        && let RopeScaling::Yarn {
            factor,
            attention_factor,
            ..
        } = &mut rope.scaling
    {
        // The family's factor on cosine and sine is 1, and scores have one instead.
        *attention_factor = 1.0;
        let scale = 1.0 + f64::from(multiplier) * factor.ln();
        let scale = scale.powi(2) / f64::from(spec.head_dim).sqrt();
        spec.set_attention_scale(scale as f32);
    }
    Ok(spec)
}
