//! GPT-2: learned positions, layer norms, a feed-forward network without gate, a fused projection of
//! queries, keys and values, and weights that Hugging Face's layout stores `[in, out]`.

use wisp_graph::{Activation, NormKind};

use crate::{
    architectures::architecture::Architecture,
    spec::{DecoderSpec, FeedForwardGate, TensorNames},
};

/// `scale_attn_weights` and `scale_attn_by_inverse_layer_idx` change the attention scale.
pub(super) fn architecture() -> Architecture {
    Architecture::new("gpt2")
        .config_classes(["GPT2LMHeadModel"])
        .config_defaults(
            r#"{"vocab_size": 50257, "hidden_size": 768, "num_hidden_layers": 12,
            "num_attention_heads": 12, "hidden_act": "gelu_new", "max_position_embeddings": 1024,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": true}"#,
        )
        .config_key("hidden_size", "n_embd")
        .config_key("num_hidden_layers", "n_layer")
        .config_key("num_attention_heads", "n_head")
        .config_key("intermediate_size", "n_inner")
        .config_key("max_position_embeddings", "n_positions")
        .config_key("hidden_act", "activation_function")
        .config_key("rms_norm_eps", "layer_norm_epsilon")
        .tensor_names(TensorNames {
            // The first checkpoints have no prefix.
            prefixes: vec!["transformer.".into(), "".into()],
            embedding: "wte".into(),
            positions: "wpe".into(),
            attention_norm: "h.{}.ln_1".into(),
            q: "".into(),
            qkv: "h.{}.attn.c_attn".into(),
            o: "h.{}.attn.c_proj".into(),
            mlp_norm: "h.{}.ln_2".into(),
            up: "h.{}.mlp.c_fc".into(),
            down: "h.{}.mlp.c_proj".into(),
            final_norm: "ln_f".into(),
            transposed: true,
            ..TensorNames::hugging_face()
        })
        .spec_from_config(|config| {
            let mut spec = config.decoder_spec()?;
            use_gpt2_layers(&mut spec);
            if !config.bool_or("scale_attn_weights", true)? {
                spec.set_attention_scale(1.0);
            }
            if config.bool_or("scale_attn_by_inverse_layer_idx", false)? {
                for (i, layer) in spec.layers.iter_mut().enumerate() {
                    layer.attention_scale /= (i + 1) as f32;
                }
            }
            Ok(spec)
        })
        .gguf("gpt2")
        .spec_from_gguf(|metadata| {
            let mut spec = metadata.decoder_spec()?;
            use_gpt2_layers(&mut spec);
            spec.activation = Activation::GeluTanh;
            Ok(spec)
        })
}

/// Uses learned positions, layer norms and a feed-forward network without gate, as BERT does too.
pub(super) fn use_gpt2_layers(spec: &mut DecoderSpec) {
    spec.norm.kind = NormKind::Layer;
    spec.gate = FeedForwardGate::None;
    spec.use_learned_positions();
}
