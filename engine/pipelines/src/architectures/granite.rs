//! Granite 3: Llama with multipliers.

use super::{super::spec::HUGGING_FACE, Architecture};

/// `logits_scaling` divides. GGUF stores queries and keys permuted, as Llama's.
pub const GRANITE: Architecture = Architecture {
    name: "granite",
    hugging_face: &["GraniteForCausalLM"],
    gguf: "granite",
    defaults: r#"{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
        "embedding_multiplier": 1.0, "residual_multiplier": 1.0, "attention_multiplier": 1.0,
        "logits_scaling": 1.0}"#,
    keys: &[],
    names: HUGGING_FACE,
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        spec.embedding_multiplier = config.f32("embedding_multiplier")?.unwrap_or(1.0);
        spec.residual_multiplier = config.f32("residual_multiplier")?.unwrap_or(1.0);
        spec.logit_multiplier = 1.0 / config.f32("logits_scaling")?.unwrap_or(1.0);
        spec.set_attention_scale(config.f32("attention_multiplier")?.unwrap_or(1.0));
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        spec.rope_interleaved = true;
        spec.embedding_multiplier = config.f32("embedding_scale")?.unwrap_or(1.0);
        spec.residual_multiplier = config.f32("residual_scale")?.unwrap_or(1.0);
        spec.logit_multiplier = 1.0 / config.f32("logit_scale")?.unwrap_or(1.0);
        if let Some(scale) = config.f32("attention.scale")? {
            spec.set_attention_scale(scale);
        }
        Ok(spec)
    },
};
