//! Gemma 3, its text: Gemma 2 with norms of queries and keys in place of soft caps, five layers
//! with a window to one without, and frequencies of their own for both kinds.

use super::{
    super::{
        DecoderSpec,
        rope::RopeScaling,
        spec::{HUGGING_FACE_BOTH_NORMS, NormPlacement, QkNorm, RopeSettings, TensorNames},
    },
    Architecture, gemma, gemma2,
};

/// Layers with a window use the second rotary embedding.
fn use_local_rope(spec: &mut DecoderSpec, local: RopeSettings) {
    spec.qk_norm = QkNorm::PerHead;
    spec.set_local_rope(local);
}

/// Checkpoints that see images have the text model under a name of its own.
pub const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    hugging_face: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
    gguf: "gemma3",
    defaults: r#"{"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 131072,
        "tie_word_embeddings": true, "query_pre_attn_scalar": 256, "sliding_window": 4096,
        "sliding_window_pattern": 6, "rope_theta": 1e6, "rope_local_base_freq": 1e4}"#,
    keys: &[
        ("hidden_act", "hidden_activation"),
        ("sliding_window_pattern", "_sliding_window_pattern"),
    ],
    names: TensorNames {
        roots: &["model.", "model.language_model.", "language_model.model."],
        ..HUGGING_FACE_BOTH_NORMS
    },
    from_hugging_face: |config| {
        let mut spec = (gemma2::GEMMA2.from_hugging_face)(config)?;
        let window = config.optional_u32("sliding_window")?;
        let pattern = config.optional_u32("sliding_window_pattern")?.unwrap_or(6) as usize;
        config.set_windows(&mut spec, window, |layer| {
            !(layer + 1).is_multiple_of(pattern)
        })?;
        // The class has the field, but its attention does not use it.
        spec.attention_softcap = 0.0;
        use_local_rope(&mut spec, config.rope("sliding_attention")?);
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = (gemma::GEMMA.from_gguf)(config)?;
        spec.norm_placement = NormPlacement::Both;
        spec.logit_softcap = config.f32("final_logit_softcapping")?.unwrap_or(0.0);
        let window = config.u32("attention.sliding_window")?.filter(|w| *w > 0);
        spec.set_windows(window, |layer| !(layer + 1).is_multiple_of(6));
        let theta = config.f32("rope.freq_base_swa")?.unwrap_or(10_000.0);
        let scaling = RopeScaling::None;
        use_local_rope(&mut spec, RopeSettings { theta, scaling });
        // As Gemma 2's largest.
        if spec.layers.len() == 62 {
            let scalar = spec.hidden_size as f32 / spec.heads as f32;
            spec.set_attention_scale(1.0 / scalar.sqrt());
        }
        Ok(spec)
    },
};
