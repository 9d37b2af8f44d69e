//! The factors of a model by which conversion multiplies its weights, where GGUF has no keys for them.

use crate::spec::{DecoderSpec, LayerMultipliers, LayerSpec, Mixer};

/// A tensor whose rows have factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaled {
    Embedding,
    Query,
    KeyOrValue,
    AttentionOutput,
    MambaInput,
    MambaOutput,
    Gate,
    Down,
    Output,
}

impl Scaled {
    /// Returns the factors on the rows of the weight or of the bias, for each the end of its rows.
    pub fn factors(self, spec: &DecoderSpec, layer: usize, is_bias: bool) -> Vec<(u64, f32)> {
        let all = spec.layer_multipliers;
        let Some(layer) = spec.layers.get(layer) else {
            return Vec::new();
        };
        // A factor on the input of a projection does not change its bias.
        let [attention_in, mamba_in] =
            [all.attention_in, all.mamba_in].map(|factor| if is_bias { 1.0 } else { factor });
        let factor = match self {
            Scaled::Embedding => spec.embedding_multiplier,
            Scaled::Query => attention_in * layer.attention_scale / usual_scale(spec),
            Scaled::KeyOrValue => attention_in,
            Scaled::AttentionOutput => all.attention_out,
            Scaled::MambaInput => return mamba_rows(layer, mamba_in),
            Scaled::MambaOutput => all.mamba_out,
            Scaled::Gate => all.gate,
            Scaled::Down => all.down,
            Scaled::Output => spec.logit_multiplier,
        };
        vec![(u64::MAX, factor)]
    }
}

/// Returns the factors on the rows of Mamba's input projection.
fn mamba_rows(layer: &LayerSpec, input: f32) -> Vec<(u64, f32)> {
    let Some(mamba) = layer.mixer.mamba2() else {
        return Vec::new();
    };
    let (inner, states) = (mamba.inner(), (mamba.channels() - mamba.inner()) / 2);
    let mut end = 0;
    let sizes = [inner, inner, states, states, mamba.heads.into()];
    let rows = sizes.into_iter().zip(mamba.multipliers);
    rows.map(|(size, factor)| {
        end += size;
        (end, input * factor)
    })
    .collect()
}

/// Returns the factor on attention scores that GGUF assumes.
fn usual_scale(spec: &DecoderSpec) -> f32 {
    1.0 / (spec.head_dim as f32).sqrt()
}

/// Removes the factors from a spec. An output layer that is the embedding becomes one of its own if their factors
/// differ.
pub(super) fn remove(spec: &mut DecoderSpec) {
    spec.tied &= spec.embedding_multiplier == spec.logit_multiplier;
    spec.embedding_multiplier = 1.0;
    spec.logit_multiplier = 1.0;
    spec.layer_multipliers = LayerMultipliers::ONE;
    spec.set_attention_scale(usual_scale(spec));
    for layer in &mut spec.layers {
        if let Mixer::Mamba2(mamba) | Mixer::AttentionAndMamba2(mamba) = &mut layer.mixer {
            mamba.multipliers = [1.0; 5];
        }
    }
}
