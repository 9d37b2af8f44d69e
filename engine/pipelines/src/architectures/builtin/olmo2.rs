//! OLMo 2: Llama with norms on the outputs of attention and feed-forward instead of their inputs,
//! and a norm over all queries and all keys.

use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
    },
    spec::{DecoderSpec, NormPlacement, QkNorm, RopeScaling, RopeSettings},
};

/// A GGUF file with a window is an OLMo 3.
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
            let mut spec = with_norms(metadata.decoder_spec()?);
            if metadata.optional_u32("attention.sliding_window")?.is_some() {
                set_gguf_windows(&mut spec, metadata)?;
            }
            Ok(spec)
        })
}

pub(super) fn with_norms(mut spec: DecoderSpec) -> DecoderSpec {
    spec.norm_placement = NormPlacement::Output;
    spec.qk_norm = QkNorm::AllHeads;
    spec
}

/// Sets the windows of an OLMo 3 in GGUF, whose layers share the base of the frequencies.
fn set_gguf_windows(
    spec: &mut DecoderSpec,
    metadata: &GgufMetadata<'_>,
) -> Result<(), ArchitectureError> {
    metadata.set_windows(spec, 4)?;
    let theta = spec.ropes.first().map_or(10_000.0, |rope| rope.theta);
    spec.set_local_rope(RopeSettings::new(theta, RopeScaling::None));
    Ok(())
}
