//! GPT-NeoX and Pythia: layer norms, a parallel residual, a feed-forward network without gate, a
//! projection of queries, keys and values that is fused head by head, and heads that rotate in part.

use wisp_graph::{Activation, NormKind};
use wisp_weights::gguf::Value;

use crate::{
    architectures::architecture::Architecture,
    spec::{DecoderSpec, FeedForwardGate, QkvLayout, TensorNames},
};

/// GGUF stores all queries, then all keys, then all values.
pub(super) fn architecture() -> Architecture {
    Architecture::new("gpt_neox")
        .config_classes(["GPTNeoXForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 50432, "hidden_size": 6144, "intermediate_size": 24576,
            "num_hidden_layers": 44, "num_attention_heads": 64, "hidden_act": "gelu",
            "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "partial_rotary_factor": 0.25}"#,
        )
        .config_key("rms_norm_eps", "layer_norm_eps")
        .config_key("partial_rotary_factor", "rotary_pct")
        .config_key("rope_theta", "rotary_emb_base")
        .tensor_names(TensorNames {
            prefixes: vec!["gpt_neox.".into()],
            embedding: "embed_in".into(),
            q: "".into(),
            qkv: "layers.{}.attention.query_key_value".into(),
            qkv_layout: QkvLayout::PerHead,
            o: "layers.{}.attention.dense".into(),
            up: "layers.{}.mlp.dense_h_to_4h".into(),
            down: "layers.{}.mlp.dense_4h_to_h".into(),
            final_norm: "final_layer_norm".into(),
            output: "embed_out".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(|config| {
            let parallel = config.bool_or("use_parallel_residual", true)?;
            Ok(with_neox_layers(config.decoder_spec()?, parallel))
        })
        .gguf("gptneox")
        .spec_from_gguf(|metadata| {
            let parallel = metadata.bool_or("use_parallel_residual", true)?;
            let mut spec = with_neox_layers(metadata.decoder_spec()?, parallel);
            spec.activation = Activation::Gelu;
            Ok(spec)
        })
        .gguf_key("use_parallel_residual", |spec| {
            Some(Value::Bool(spec.parallel_residual))
        })
}

fn with_neox_layers(mut spec: DecoderSpec, parallel: bool) -> DecoderSpec {
    spec.norm.kind = NormKind::Layer;
    spec.gate = FeedForwardGate::None;
    spec.parallel_residual = parallel;
    spec
}
