//! DeepSeek V2 and V3 in GGUF, which has one name for both.

use wisp_weights::gguf::Value;

use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
    },
    spec::{DecoderSpec, ExpertScoring, LatentAttention, RopeScaling, TensorNames, in_layer},
};

/// Adds the keys of latent attention, of experts, and of YaRN as the family uses it.
pub(super) fn with_gguf_keys(architecture: Architecture) -> Architecture {
    architecture
        .gguf_key("attention.q_lora_rank", |spec| {
            Some(Value::U32(spec.latent?.q_rank? as u32))
        })
        .gguf_key("attention.kv_lora_rank", |spec| {
            Some(Value::U32(spec.latent?.kv_rank as u32))
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

/// Makes the spec of a GGUF file, in which keys and values have one projection from their low rank.
pub(super) fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    let names = TensorNames::gguf();
    if !metadata.has_weight(&in_layer(&names.kv_b, 0)) {
        return Err(metadata.error(
            "it stores the projections of keys and values for attention to the low rank \
             (`attn_k_b` and `attn_v_b`), which is not supported; convert the original model with \
             `wisp convert`",
        ));
    }
    spec.latent = Some(LatentAttention {
        q_rank: metadata
            .optional_u32("attention.q_lora_rank")?
            .map(u64::from),
        kv_rank: metadata.u32("attention.kv_lora_rank")?.into(),
        value_dim: metadata.u32("attention.value_length")?,
    });
    spec.kv_heads = spec.heads;
    spec.rope_interleaved = true;
    let sigmoid = spec.moe.is_some_and(|moe| moe.selection_bias);
    let groups = metadata.expert_groups(if sigmoid { 2 } else { 1 })?;
    let gating = metadata.optional_u32("expert_gating_func")?;
    if let Some(moe) = &mut spec.moe {
        moe.groups = groups;
        // The first files lack the key and are of models with softmax scores.
        if gating.is_none() {
            moe.scoring = ExpertScoring::Softmax;
        }
    }
    let multiplier = metadata.optional_f32("rope.scaling.yarn_log_multiplier")?;
    if let Some(rope) = spec.ropes.first_mut()
        && let RopeScaling::Yarn {
            factor,
            attention_factor,
            ..
        } = &mut rope.scaling
    {
        // The family's factor on cosine and sine is 1, and scores have one instead.
        *attention_factor = 1.0;
        let scale = 1.0 + f64::from(multiplier.unwrap_or(0.0)) * factor.ln();
        let scale = scale.powi(2) / f64::from(spec.head_dim).sqrt();
        spec.set_attention_scale(scale as f32);
    }
    Ok(spec)
}
