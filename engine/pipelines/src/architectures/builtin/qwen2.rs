//! Qwen 2 and 2.5, and the text models of Qwen 2 VL and 2.5 VL: Llama with biases on queries, keys and values, which the checkpoint has.

use std::borrow::Cow;

use crate::{
    architectures::{architecture::Architecture, error::ArchitectureError, hf_config::HfConfig},
    spec::{DecoderSpec, TensorNames},
};

/// Layers from `max_window_layers` on have a window if `use_sliding_window` is true.
pub(super) fn architecture() -> Architecture {
    Architecture::new("qwen2")
        .config_classes([
            "Qwen2ForCausalLM",
            "Qwen2VLForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
        ])
        .backbone_classes(["Qwen2Model"])
        .config_defaults(
            r#"{"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28}"#,
        )
        .tensor_names(TensorNames {
            prefixes: prefixes(),
            ..TensorNames::hugging_face()
        })
        .spec_from_config(from_config)
        .gguf("qwen2")
        .gguf_aliases(["qwen2vl"])
}

/// Returns the prefixes of tensors, of which those that name a language model are of models that also read images.
pub(super) fn prefixes() -> Vec<Cow<'static, str>> {
    let all = [
        "model.",
        "model.language_model.",
        "language_model.model.",
        "",
    ];
    all.map(Into::into).into()
}

pub(super) fn from_config(config: &HfConfig) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = config.decoder_spec()?;
    let first = config.u32_or("max_window_layers", 0)? as usize;
    config.set_windows(&mut spec, config.optional_window()?, |layer| layer >= first)?;
    Ok(spec)
}
