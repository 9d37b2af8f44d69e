//! Gemma: scaled embeddings, norms that add 1 to their weight, a GELU.

use super::{
    super::{DecoderSpec, spec::HUGGING_FACE},
    Architecture,
};
use wisp_graph::Activation;

/// What all Gemmas share. The factor is the root of the width; GGUF has the norms' 1 in the weights.
pub(super) fn scale_embeddings(spec: &mut DecoderSpec) {
    spec.embedding_multiplier = (spec.hidden_size as f32).sqrt();
}

/// A `hidden_activation` that is not null takes the place of `hidden_act`, which says `gelu` in the
/// first checkpoints and means the approximation.
pub const GEMMA: Architecture = Architecture {
    name: "gemma",
    hugging_face: &["GemmaForCausalLM"],
    gguf: "gemma",
    defaults: r#"{"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16,
        "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 8192,
        "tie_word_embeddings": true}"#,
    keys: &[("hidden_act", "hidden_activation")],
    names: HUGGING_FACE,
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        scale_embeddings(&mut spec);
        if spec.activation == Activation::Gelu {
            spec.activation = Activation::GeluTanh;
        }
        spec.norm.weight_offset = 1.0;
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        scale_embeddings(&mut spec);
        spec.activation = Activation::GeluTanh;
        Ok(spec)
    },
};
