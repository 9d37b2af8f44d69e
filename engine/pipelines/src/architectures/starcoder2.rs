//! StarCoder 2: layer norms, a plain feed-forward, biases, a window.

use super::{
    super::{
        DecoderSpec,
        spec::{HUGGING_FACE, TensorNames},
    },
    Architecture,
};
use wisp_graph::{Activation, NormKind};

fn make_plain(spec: &mut DecoderSpec) {
    spec.norm.kind = NormKind::Layer;
    spec.gated = false;
}

/// The checkpoint has the biases, if `use_bias` says so.
pub const STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    hugging_face: &["Starcoder2ForCausalLM"],
    gguf: "starcoder2",
    defaults: r#"{"vocab_size": 49152, "hidden_size": 3072, "intermediate_size": 12288,
        "num_hidden_layers": 30, "num_attention_heads": 24, "num_key_value_heads": 2,
        "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true}"#,
    keys: &[("rms_norm_eps", "norm_epsilon")],
    names: TensorNames {
        up: "layers.{}.mlp.c_fc",
        down: "layers.{}.mlp.c_proj",
        ..HUGGING_FACE
    },
    from_hugging_face: |config| {
        let mut spec = config.decoder()?;
        make_plain(&mut spec);
        spec.set_windows(config.optional_u32("sliding_window")?, |_| true);
        Ok(spec)
    },
    from_gguf: |config| {
        let mut spec = config.decoder()?;
        make_plain(&mut spec);
        spec.activation = Activation::GeluTanh;
        spec.set_windows(config.u32("attention.sliding_window")?, |_| true);
        Ok(spec)
    },
};
