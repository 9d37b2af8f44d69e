//! EmbeddingGemma: Gemma 3 as an encoder, whose tokens attend to later ones as well.

use wisp_weights::gguf::Value;

use super::{gemma2, gemma3};
use crate::{
    architectures::architecture::Architecture,
    spec::{DecoderSpec, EncoderSpec, TensorNames},
};

/// `sliding_window` counts positions of both sides together.
pub(super) fn architecture() -> Architecture {
    gemma3::architecture()
        .derived("embedding_gemma")
        .encoder()
        .config_classes(["Gemma3TextModel"])
        .tensor_names(TensorNames {
            prefixes: ["", "model."].map(Into::into).into(),
            ..gemma2::tensor_names()
        })
        .spec_from_config(|config| {
            let spec = gemma3::from_config(config)?;
            let bidirectional = config.bool_or("use_bidirectional_attention", false)?;
            Ok(encoder(spec, bidirectional))
        })
        .gguf("gemma-embedding")
        .spec_from_gguf(|metadata| Ok(encoder(gemma3::from_gguf(metadata)?, true)))
        .gguf_key("attention.sliding_window", |spec| {
            let window = spec.layers.iter().find_map(|layer| layer.window)?;
            Some(Value::U32(window.checked_sub(1)?.checked_mul(2)?))
        })
}

/// Makes an encoder of Gemma 3, with causal attention unless tokens attend to later ones as well.
fn encoder(mut spec: DecoderSpec, bidirectional: bool) -> DecoderSpec {
    spec.encoder = Some(EncoderSpec {
        causal: !bidirectional,
        ..EncoderSpec::causal()
    });
    if bidirectional {
        for layer in &mut spec.layers {
            layer.window = layer.window.map(|window| window / 2 + 1);
        }
    }
    spec
}
