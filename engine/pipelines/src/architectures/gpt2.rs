//! GPT-2: learned positions, layer norms, a plain feed-forward, a fused projection, and weights that
//! Hugging Face stores `[in, out]`.

use super::{
    super::{
        DecoderSpec,
        spec::{HUGGING_FACE, TensorNames},
    },
    Architecture,
};
use wisp_graph::{Activation, NormKind};

/// Learned positions, layer norms and a plain feed-forward.
pub(super) fn make_plain(spec: &mut DecoderSpec) {
    spec.norm.kind = NormKind::Layer;
    spec.gated = false;
    spec.learned_positions = true;
    spec.ropes.clear();
    for layer in &mut spec.layers {
        layer.rope = None;
    }
}

/// The scores' scale may be left out, or divided by the layer's number.
pub const GPT2: Architecture = Architecture {
    name: "gpt2",
    hugging_face: &["GPT2LMHeadModel"],
    gguf: "gpt2",
    defaults: r#"{"vocab_size": 50257, "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "hidden_act": "gelu_new", "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true}"#,
    keys: &[
        ("hidden_size", "n_embd"),
        ("num_hidden_layers", "n_layer"),
        ("num_attention_heads", "n_head"),
        ("intermediate_size", "n_inner"),
        ("max_position_embeddings", "n_positions"),
        ("hidden_act", "activation_function"),
        ("rms_norm_eps", "layer_norm_epsilon"),
    ],
    names: TensorNames {
        // The first checkpoints have no root.
        roots: &["transformer.", ""],
        embedding: "wte",
        positions: "wpe",
        attention_norm: "h.{}.ln_1",
        q: "",
        qkv: "h.{}.attn.c_attn",
        o: "h.{}.attn.c_proj",
        mlp_norm: "h.{}.ln_2",
        up: "h.{}.mlp.c_fc",
        down: "h.{}.mlp.c_proj",
        final_norm: "ln_f",
        transposed: true,
        ..HUGGING_FACE
    },
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        make_plain(&mut spec);
        if config.boolean("scale_attn_weights")? == Some(false) {
            spec.set_attention_scale(1.0);
        }
        if config.boolean("scale_attn_by_inverse_layer_idx")? == Some(true) {
            for (i, layer) in spec.layers.iter_mut().enumerate() {
                layer.attention_scale /= (i + 1) as f32;
            }
        }
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        make_plain(&mut spec);
        spec.activation = Activation::GeluTanh;
        Ok(spec)
    },
};
