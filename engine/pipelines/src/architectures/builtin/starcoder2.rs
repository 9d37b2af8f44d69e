//! StarCoder 2: Llama with layer norms, a feed-forward network without gate, biases and a window.

use wisp_graph::{Activation, NormKind};

use crate::{
    architectures::architecture::Architecture,
    spec::{DecoderSpec, FeedForwardGate, TensorNames},
};

/// The biases are in the checkpoint if `use_bias` is true.
pub(super) fn architecture() -> Architecture {
    Architecture::new("starcoder2")
        .config_classes(["Starcoder2ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 49152, "hidden_size": 3072, "intermediate_size": 12288,
            "num_hidden_layers": 30, "num_attention_heads": 24, "num_key_value_heads": 2,
            "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": true}"#,
        )
        .config_key("rms_norm_eps", "norm_epsilon")
        .tensor_names(TensorNames {
            up: "layers.{}.mlp.c_fc".into(),
            down: "layers.{}.mlp.c_proj".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(|config| {
            let window = config.optional_u32("sliding_window")?;
            Ok(with_layer_norms(config.decoder_spec()?, window))
        })
        .gguf("starcoder2")
        .spec_from_gguf(|metadata| {
            let window = metadata.optional_u32("attention.sliding_window")?;
            let mut spec = with_layer_norms(metadata.decoder_spec()?, window);
            spec.activation = Activation::GeluTanh;
            Ok(spec)
        })
}

fn with_layer_norms(mut spec: DecoderSpec, window: Option<u32>) -> DecoderSpec {
    spec.norm.kind = NormKind::Layer;
    spec.gate = FeedForwardGate::None;
    spec.set_windows(window, |_| true);
    spec
}
