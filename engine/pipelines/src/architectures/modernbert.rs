//! ModernBERT: an encoder with rotation, a fused and gated feed-forward, layer norms without biases, and
//! windows with frequencies of their own in all but every third layer.

use super::{
    super::{
        DecoderSpec,
        rope::RopeScaling,
        spec::{EncoderSpec, HUGGING_FACE, RopeSettings, TensorNames},
    },
    Architecture,
};
use wisp_graph::{Activation, NormKind};

/// `local_attention` counts both sides of a token, which itself sees half of it to each.
fn window(local_attention: u32) -> Option<u32> {
    Some(local_attention / 2 + 1)
}

/// To be called when the layers have their windows.
fn make_encoder(spec: &mut DecoderSpec, local: RopeSettings) {
    spec.norm.kind = NormKind::Layer;
    spec.set_local_rope(local);
    // The embedding is normalised already.
    if let Some(first) = spec.layers.first_mut() {
        first.attention_norm = false;
    }
    spec.encoder = Some(EncoderSpec {
        token_types: 0,
        padding: None,
    });
}

/// Heads for a task, which some checkpoints have, are not used.
pub const MODERNBERT: Architecture = Architecture {
    name: "modernbert",
    hugging_face: &[
        "ModernBertModel",
        "ModernBertForMaskedLM",
        "ModernBertForSequenceClassification",
        "ModernBertForTokenClassification",
        "ModernBertForQuestionAnswering",
    ],
    gguf: "modern-bert",
    defaults: r#"{"vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152,
        "num_hidden_layers": 22, "num_attention_heads": 12, "hidden_act": "gelu",
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 160000.0,
        "rope_local_base_freq": 10000.0, "local_attention": 128, "global_attn_every_n_layers": 3}"#,
    keys: &[
        ("hidden_act", "hidden_activation"),
        ("rms_norm_eps", "norm_eps"),
        ("rope_theta", "global_rope_theta"),
        ("rope_local_base_freq", "local_rope_theta"),
    ],
    names: TensorNames {
        roots: &["", "model."],
        embedding: "embeddings.tok_embeddings",
        embedding_norm: "embeddings.norm",
        attention_norm: "layers.{}.attn_norm",
        q: "",
        qkv: "layers.{}.attn.Wqkv",
        o: "layers.{}.attn.Wo",
        mlp_norm: "layers.{}.mlp_norm",
        gate: "",
        gate_up: "layers.{}.mlp.Wi",
        down: "layers.{}.mlp.Wo",
        final_norm: "final_norm",
        ..HUGGING_FACE
    },
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        let window = window(config.optional_u32("local_attention")?.unwrap_or(128));
        let every = config.optional_u32("global_attn_every_n_layers")?;
        let every = every.unwrap_or(3) as usize;
        config.set_windows(&mut spec, window, |layer| !layer.is_multiple_of(every))?;
        make_encoder(&mut spec, config.rope("sliding_attention")?);
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        spec.activation = Activation::Gelu;
        if let Some(local_attention) = config.u32("attention.sliding_window")? {
            let every = config.u32("attention.sliding_window_pattern")?.unwrap_or(3) as usize;
            spec.set_windows(window(local_attention), |layer| {
                !layer.is_multiple_of(every)
            });
        }
        let theta = config.f32("rope.freq_base_swa")?.unwrap_or(10_000.0);
        let scaling = RopeScaling::None;
        make_encoder(&mut spec, RopeSettings { theta, scaling });
        Ok(spec)
    },
};
