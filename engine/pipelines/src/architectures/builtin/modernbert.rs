//! ModernBERT: an encoder with rotary embeddings, a fused and gated feed-forward network, layer
//! norms without biases, and windows with a rotary base of their own in all but every third layer.

use wisp_graph::{Activation, NormKind};
use wisp_weights::gguf::Value;

use crate::{
    architectures::{architecture::Architecture, hf_config::LayerType},
    spec::{
        DecoderSpec, EncoderSpec, RopeScaling, RopeSettings, ScoreActivation, ScoreHead,
        TensorNames,
    },
};

/// GGUF's number of the pooling that takes the first token.
const FIRST_TOKEN: u32 = 2;

/// Of the heads for tasks, which some checkpoints have, only the one that scores texts by their first
/// token is used.
pub(super) fn architecture() -> Architecture {
    Architecture::new("modernbert")
        .config_classes([
            "ModernBertModel",
            "ModernBertForMaskedLM",
            "ModernBertForSequenceClassification",
            "ModernBertForTokenClassification",
            "ModernBertForQuestionAnswering",
        ])
        .config_defaults(
            r#"{"vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152,
            "num_hidden_layers": 22, "num_attention_heads": 12, "hidden_act": "gelu",
            "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 160000.0,
            "rope_local_base_freq": 10000.0, "local_attention": 128,
            "global_attn_every_n_layers": 3}"#,
        )
        .config_key("hidden_act", "hidden_activation")
        .config_key("rms_norm_eps", "norm_eps")
        .config_key("rope_theta", "global_rope_theta")
        .config_key("rope_local_base_freq", "local_rope_theta")
        .tensor_names(tensor_names())
        .encoder()
        .spec_from_config(|config| {
            let mut spec = config.decoder_spec()?;
            let window = window(config.u32_or("local_attention", 128)?);
            let every = config.u32_or("global_attn_every_n_layers", 3)? as usize;
            config.set_windows(&mut spec, window, |layer| !layer.is_multiple_of(every))?;
            let labels = config.score_labels()?;
            if labels.is_some() {
                config.require_text("classifier_pooling", "cls")?;
            }
            make_encoder(&mut spec, config.rope(LayerType::SlidingAttention)?, labels);
            Ok(spec)
        })
        .gguf("modern-bert")
        .gguf_tensor_names(TensorNames {
            // The fused projection has the name of the single one.
            gate: "".into(),
            ..TensorNames::gguf().clone()
        })
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            spec.activation = Activation::Gelu;
            if let Some(local_attention) = metadata.optional_u32("attention.sliding_window")? {
                let every = metadata.u32_or("attention.sliding_window_pattern", 3)? as usize;
                spec.set_windows(window(local_attention), |layer| {
                    !layer.is_multiple_of(every)
                });
            }
            let theta = metadata.f32_or("rope.freq_base_swa", 10_000.0)?;
            let local = RopeSettings::new(theta, RopeScaling::None);
            // The head of files without this key, or with another value, scores the mean of the tokens.
            let first = metadata.optional_u32("classifier.pooling_type")? == Some(FIRST_TOKEN);
            let labels = metadata.score_labels().filter(|_| first);
            make_encoder(&mut spec, local, labels);
            Ok(spec)
        })
        .gguf_key("classifier.pooling_type", |spec| {
            spec.encoder?.score.map(|_| Value::U32(FIRST_TOKEN))
        })
        .gguf_key("attention.sliding_window", |spec| {
            let window = spec.layers.iter().find_map(|layer| layer.window)?;
            Some(Value::U32(window.checked_sub(1)?.checked_mul(2)?))
        })
        .gguf_key("attention.sliding_window_pattern", |spec| {
            // The distance between layers without a window, the first of which is layer 0.
            let mut after_first = spec.layers.iter().skip(1);
            let every = after_first.position(|layer| layer.window.is_none());
            let every = every.map_or(spec.layers.len(), |between| between + 1);
            Some(Value::U32(u32::try_from(every).ok()?))
        })
        .gguf_key("rope.freq_base_swa", |spec| {
            Some(Value::F32(spec.ropes.get(1)?.theta))
        })
}

fn tensor_names() -> TensorNames {
    TensorNames {
        prefixes: vec!["".into(), "model.".into()],
        embedding: "embeddings.tok_embeddings".into(),
        embedding_norm: "embeddings.norm".into(),
        attention_norm: "layers.{}.attn_norm".into(),
        q: "".into(),
        qkv: "layers.{}.attn.Wqkv".into(),
        o: "layers.{}.attn.Wo".into(),
        mlp_norm: "layers.{}.mlp_norm".into(),
        gate: "".into(),
        gate_up: "layers.{}.mlp.Wi".into(),
        down: "layers.{}.mlp.Wo".into(),
        final_norm: "final_norm".into(),
        score_dense: "head.dense".into(),
        score_norm: "head.norm".into(),
        score_output: "classifier".into(),
        ..TensorNames::hugging_face()
    }
}

/// Returns the window of `local_attention`, which counts both sides of a token: a token sees half
/// of it on each side, and itself.
fn window(local_attention: u32) -> Option<u32> {
    Some(local_attention / 2 + 1)
}

/// Makes an encoder of a decoder whose windows are set.
fn make_encoder(spec: &mut DecoderSpec, local: RopeSettings, labels: Option<u64>) {
    spec.norm.kind = NormKind::Layer;
    spec.set_local_rope(local);
    // The embedding is normalized already.
    if let Some(first) = spec.layers.first_mut() {
        first.attention_norm = false;
    }
    spec.encoder = Some(EncoderSpec {
        token_types: 0,
        padding: None,
        score: labels.map(|labels| ScoreHead {
            labels,
            activation: Some(ScoreActivation::Gelu),
            norm: true,
            answers: None,
        }),
        ..EncoderSpec::bidirectional()
    });
}
