//! OLMo 2: Llama with norms on the outputs of attention and feed-forward instead of their inputs,
//! and a norm over all queries and all keys.

use crate::{
    architectures::architecture::Architecture,
    spec::{DecoderSpec, NormPlacement, QkNorm},
};

pub(super) fn architecture() -> Architecture {
    Architecture::new("olmo2")
        .config_classes(["Olmo2ForCausalLM"])
        .config_defaults(
            r#"{"vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-5}"#,
        )
        .spec_from_config(|config| Ok(with_norms(config.decoder_spec()?)))
        .gguf("olmo2")
        .spec_from_gguf(|metadata| {
            if metadata.optional_u32("attention.sliding_window")?.is_some() {
                return Err(metadata.error("it has a sliding window: OLMo 3 is not supported"));
            }
            Ok(with_norms(metadata.decoder_spec()?))
        })
}

fn with_norms(mut spec: DecoderSpec) -> DecoderSpec {
    spec.norm_placement = NormPlacement::Output;
    spec.qk_norm = QkNorm::AllHeads;
    spec
}
