//! Nemotron 3 in GGUF, which has a name of its own for models with experts, and Nemotron-H there.

use wisp_weights::gguf::{Array, Value};

use super::lfm2;
use crate::{
    architectures::{
        architecture::Architecture, error::ArchitectureError, gguf_metadata::GgufMetadata,
    },
    spec::{
        Activation, DecoderSpec, ExpertScoring, FeedForward, FeedForwardGate, Mixer, TensorNames,
    },
};

/// The name of GGUF's architecture with experts.
pub(super) const NAME: &str = "nemotron_h_moe";

/// Adds the GGUF files of a name.
pub(super) fn with_gguf(architecture: Architecture, name: &'static str) -> Architecture {
    architecture
        .gguf(name)
        .gguf_tensor_names(TensorNames {
            mlp_norm: TensorNames::gguf().attention_norm.clone(),
            ..TensorNames::gguf().clone()
        })
        .spec_from_gguf(from_gguf)
        .gguf_key("attention.head_count_kv", lfm2::layer_kv_heads)
        // Other programs require this key, whatever the kind of norms.
        .gguf_key("attention.layer_norm_epsilon", |spec| {
            Some(Value::F32(spec.norm.eps))
        })
        .gguf_key("feed_forward_length", |spec| {
            let expert = spec.moe.map_or(0, |moe| moe.intermediate_size);
            let widths = spec.layers.iter().map(|layer| match layer.feed_forward {
                FeedForward::None => 0,
                FeedForward::Dense => spec.intermediate_size as i32,
                FeedForward::Experts | FeedForward::DenseAndExperts => expert as i32,
            });
            Some(Value::Array(Array::I32(widths.collect())))
        })
}

/// Layers with KV heads have attention, those with a width are feed-forward networks, and others have a Mamba 2 mixer.
fn from_gguf(metadata: &GgufMetadata<'_>) -> Result<DecoderSpec, ArchitectureError> {
    let mut spec = metadata.decoder_spec()?;
    spec.ropes.clear();
    (spec.activation, spec.gate) = (Activation::Relu, FeedForwardGate::Own);
    let layers = spec.layers.len();
    let mamba = metadata.mamba2(layers)?;
    let kv_heads = metadata.layer_kv_heads().unwrap_or_default();
    let widths = metadata.layer_numbers("feed_forward_length", layers)?;
    let kinds = kv_heads.into_iter().zip(widths);
    let mut dense = None;
    for (layer, kind) in spec.layers.iter_mut().zip(kinds) {
        let experts = layer.feed_forward;
        (layer.mixer, layer.feed_forward) = match kind {
            (1.., _) => (Mixer::Attention, FeedForward::None),
            (0, 1..) => (Mixer::None, experts),
            (0, 0) => (Mixer::Mamba2(mamba), FeedForward::None),
        };
        layer.rope = None;
        if layer.feed_forward == FeedForward::Dense {
            dense = Some(kind.1.into());
        }
    }
    let expert = spec.moe.map_or(0, |moe| moe.intermediate_size);
    spec.intermediate_size = dense.unwrap_or(expert);
    let groups = metadata.expert_groups(2)?;
    if let Some(moe) = &mut spec.moe {
        // Files of llama.cpp do not say so.
        moe.scoring = ExpertScoring::Sigmoid;
        moe.groups = groups;
    }
    Ok(spec)
}
