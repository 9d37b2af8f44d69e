//! Gemma 2: Gemma with norms before and after, soft caps, and a window in every other layer.

use super::{
    super::spec::{HUGGING_FACE_BOTH_NORMS, NormPlacement},
    Architecture, gemma,
};

/// Scores are divided by the root of `query_pre_attn_scalar`. The first layer has a window.
pub const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    hugging_face: &["Gemma2ForCausalLM"],
    gguf: "gemma2",
    defaults: r#"{"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216,
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 8192,
        "tie_word_embeddings": true, "query_pre_attn_scalar": 256, "sliding_window": 4096,
        "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}"#,
    names: HUGGING_FACE_BOTH_NORMS,
    from_hugging_face: |config| {
        let mut spec = (gemma::GEMMA.from_hugging_face)(config)?;
        spec.norm_placement = NormPlacement::Both;
        let scalar = config.f32("query_pre_attn_scalar")?.unwrap_or(256.0);
        spec.set_attention_scale(1.0 / scalar.sqrt());
        spec.attention_softcap = config.f32("attn_logit_softcapping")?.unwrap_or(0.0);
        spec.logit_softcap = config.f32("final_logit_softcapping")?.unwrap_or(0.0);
        let window = config.optional_u32("sliding_window")?;
        config.set_windows(&mut spec, window, |layer| layer.is_multiple_of(2))?;
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = (gemma::GEMMA.from_gguf)(config)?;
        spec.norm_placement = NormPlacement::Both;
        spec.attention_softcap = config.f32("attn_logit_softcapping")?.unwrap_or(50.0);
        spec.logit_softcap = config.f32("final_logit_softcapping")?.unwrap_or(30.0);
        let window = config.u32("attention.sliding_window")?.unwrap_or(4096);
        spec.set_windows(Some(window), |layer| layer.is_multiple_of(2));
        // The file does not say it: the model of 27 B divides by the root of hidden size by heads.
        if spec.layers.len() == 46 {
            let scalar = spec.hidden_size as f32 / spec.heads as f32;
            spec.set_attention_scale(1.0 / scalar.sqrt());
        }
        Ok(spec)
    },
    ..gemma::GEMMA
};
