//! GLM-4: Llama with norms on both sides of attention and feed-forward, heads that rotate in part,
//! in neighbouring pairs, and biases on queries, keys and values.

use crate::{
    architectures::architecture::Architecture,
    spec::{DecoderSpec, NormPlacement, TensorNames},
};

/// The biases are in the checkpoint if `attention_bias` is true.
pub(super) fn architecture() -> Architecture {
    Architecture::new("glm4")
        .config_classes(["Glm4ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 13696,
            "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2,
            "head_dim": 128, "max_position_embeddings": 131072, "rms_norm_eps": 1.5625e-7,
            "partial_rotary_factor": 0.5}"#,
        )
        .tensor_names(TensorNames {
            attention_output_norm: "layers.{}.post_self_attn_layernorm".into(),
            mlp_output_norm: "layers.{}.post_mlp_layernorm".into(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(|config| Ok(with_norms(config.decoder_spec()?)))
        .gguf("glm4")
        .spec_from_gguf(|metadata| Ok(with_norms(metadata.decoder_spec()?)))
}

fn with_norms(mut spec: DecoderSpec) -> DecoderSpec {
    spec.norm_placement = NormPlacement::Sandwich;
    spec.rope_interleaved = true;
    spec
}
