//! Checks that a spec is consistent, before anything is sized by it.

use std::ops::RangeInclusive;

use wisp_shaders::params;

use super::{
    decoder_spec::{
        DecoderSpec, HeadSizes, LatentAttention, LayerSpec, MAX_LAYERS, NormPlacement, QkNorm,
    },
    error::SpecError,
    feed_forward::{ExpertGroups, FeedForward},
    mixer::{Mamba2Spec, Mixer},
};
use crate::rope::RopeScaling;

/// The largest size of any kind. Products of two sizes then fit 64 bits.
pub(super) const MAX_SIZE: u64 = 1 << 28;

/// The most query heads of a layer.
const MAX_HEADS: u64 = 4096;

/// The widest head, of keys and of values, that the attention kernels support.
const MAX_HEAD_DIM: u64 = params::MAX_VALUE_DIM as u64;

/// The widest head of a recurrent state, and the most rows of one, that the kernels support.
const MAX_STATE_DIM: u64 = 256;

/// The widest filter of a short convolution.
const MAX_CONV_WIDTH: u64 = 64;

/// The most versions of the residual stream.
const MAX_VERSIONS: u64 = 16;

/// The most experts of a layer.
const MAX_EXPERTS: u64 = 4096;

/// Multipliers, scales and soft caps with which a model computes anything: beyond them f32 overflows
/// or every number vanishes.
const FACTORS: RangeInclusive<f64> = 1e-6..=1e6;

impl DecoderSpec {
    /// Checks that the sizes are consistent and within what the kernels support.
    ///
    /// # Errors
    ///
    /// If they are not.
    pub fn check(&self) -> Result<(), SpecError> {
        for (what, size, max) in [
            ("the vocabulary's size", self.vocab_size, MAX_SIZE),
            ("the hidden size", self.hidden_size, MAX_SIZE),
            ("the intermediate size", self.intermediate_size, MAX_SIZE),
            ("the number of heads", self.heads.into(), MAX_HEADS),
            ("the number of KV heads", self.kv_heads.into(), MAX_HEADS),
            ("the width of a head", self.head_dim.into(), MAX_HEAD_DIM),
            ("the context length", self.max_positions, MAX_SIZE),
        ] {
            check_size(what, size, max)?;
        }
        // `DecoderSpec::llama` makes no more layers than it takes to be refused here.
        if self.layers.len() > MAX_LAYERS {
            return Err(SpecError::TooManyLayers { max: MAX_LAYERS });
        }
        check_layers(self.layers.len() as u64)?;
        self.check_heads()?;
        if let Some(score) = self.encoder.and_then(|encoder| encoder.score) {
            check_size("the number of labels", score.labels, MAX_SIZE)?;
            for token in score.answers.into_iter().flatten() {
                check_size(
                    "the token of an answer",
                    u64::from(token) + 1,
                    self.vocab_size,
                )?;
            }
        }
        self.check_mixers()?;
        self.check_ropes()?;
        self.check_latent()?;
        self.check_shared_caches()?;
        self.check_residuals()?;
        self.check_numbers()?;
        self.check_experts()
    }

    fn check_heads(&self) -> Result<(), SpecError> {
        let own = self.layers.iter().filter_map(|layer| layer.head_sizes);
        let model = HeadSizes {
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
        };
        for HeadSizes { kv_heads, head_dim } in own.chain([model]) {
            let what = "the number of a layer's KV heads";
            check_size(what, kv_heads.into(), MAX_HEADS)?;
            let what = "the width of a layer's heads";
            check_size(what, head_dim.into(), MAX_HEAD_DIM)?;
            let heads = self.heads;
            if !heads.is_multiple_of(kv_heads) {
                return Err(SpecError::UnevenHeads { heads, kv_heads });
            }
        }
        // Encoders share one cache, and latent attention has heads of the model's sizes.
        let has_own = self.layers.iter().any(|layer| layer.head_sizes.is_some());
        match has_own && (self.encoder.is_some() || self.latent.is_some()) {
            true => Err(SpecError::OwnHeads),
            false => Ok(()),
        }
    }

    fn check_mixers(&self) -> Result<(), SpecError> {
        for layer in &self.layers {
            match layer.mixer {
                Mixer::Attention | Mixer::None => {}
                _ if self.encoder.is_some() => return Err(SpecError::RecurrentEncoder),
                Mixer::ShortConv { width } => check_width(width)?,
                Mixer::DeltaNet(net) => {
                    check_width(net.width)?;
                    check_matrices([net.k_heads, net.v_heads, net.k_dim, net.v_dim])?;
                }
                Mixer::Mamba2(mamba) | Mixer::AttentionAndMamba2(mamba) => check_mamba(mamba)?,
            }
        }
        Ok(())
    }

    fn check_ropes(&self) -> Result<(), SpecError> {
        // The factor is part of the rotation, so elements that do not rotate would not get it.
        let scaled = self.query_scaling.is_some_and(|scaling| scaling.rotated);
        for (layer, settings) in self.layers.iter().enumerate() {
            let Some(index) = settings.rope else {
                continue;
            };
            let count = self.ropes.len();
            let Some(rotary_dim) = self.rotary_dim_of(index) else {
                return Err(SpecError::MissingRope { index, count });
            };
            let head_dim = self.head_sizes(layer).head_dim;
            if rotary_dim == 0 || self.rotated(index) > head_dim {
                return Err(SpecError::RotaryDim {
                    rotary_dim,
                    head_dim,
                });
            }
            if scaled && self.rotated(index) != head_dim {
                return Err(SpecError::PartialQueryScaling);
            }
        }
        Ok(())
    }

    /// Checks that layers read caches of earlier layers alike.
    fn check_shared_caches(&self) -> Result<(), SpecError> {
        for (index, layer) in self.layers.iter().enumerate() {
            let Some(shared) = layer.shared_kv else {
                continue;
            };
            let earlier = self.layers.get(shared).filter(|_| shared < index);
            let fits = earlier.is_some_and(|earlier| {
                let cache = |layer: &LayerSpec| (layer.window, layer.chunked, layer.head_sizes);
                earlier.has_cache() && cache(earlier) == cache(layer)
            });
            if !fits || self.latent.is_some() || self.encoder.is_some() {
                return Err(SpecError::SharedCache {
                    layer: index,
                    owner: shared,
                });
            }
        }
        Ok(())
    }

    fn check_residuals(&self) -> Result<(), SpecError> {
        if let Some(alt_up) = self.alt_up {
            let what = "the number of versions of the residual stream";
            check_size(what, alt_up.inputs.into(), MAX_VERSIONS)?;
            let what = "the version of the residual stream that layers compute, counted from 1";
            let active = u64::from(alt_up.active) + 1;
            check_size(what, active, alt_up.inputs.into())?;
        }
        let rank = self.laurel_rank.unwrap_or(1);
        check_size("the rank of the branch beside attention", rank, MAX_SIZE)?;
        if let Some(embeddings) = self.layer_embeddings {
            let (width, vocab) = (embeddings.width, embeddings.vocab_size);
            check_size("the width of layers' embeddings", width, MAX_SIZE / 4096)?;
            check_size("the tokens that layers embed", vocab, MAX_SIZE)?;
        }
        for layer in &self.layers {
            let width = layer.intermediate_size.unwrap_or(1);
            check_size("a layer's intermediate size", width, MAX_SIZE)?;
            if let Some(cutoff) = layer.activation_cutoff {
                check_number("the cutoff of activations", cutoff, -100.0..=100.0)?;
            }
        }
        let is_plain =
            !self.parallel_residual && self.norm_placement != NormPlacement::PostResidual;
        let side_by_side = FeedForward::DenseAndExperts;
        let mut layers = self.layers.iter();
        let has_parts = self.alt_up.is_some()
            || self.laurel_rank.is_some()
            || self.layer_embeddings.is_some()
            || layers.any(|layer| layer.feed_forward == side_by_side);
        match is_plain || !has_parts {
            true => Ok(()),
            false => Err(SpecError::ResidualParts),
        }
    }

    fn check_latent(&self) -> Result<(), SpecError> {
        let Some(latent) = self.latent else {
            return Ok(());
        };
        check_size("the rank of queries", latent.q_rank.unwrap_or(1), MAX_SIZE)?;
        let LatentAttention {
            kv_rank,
            value_dim,
            norm_eps,
            ..
        } = latent;
        check_number("the epsilon of low ranks' norms", norm_eps, 0.0..=1.0)?;
        check_size("the rank of keys and values", kv_rank.into(), MAX_SIZE)?;
        check_size("the width of values", value_dim.into(), MAX_HEAD_DIM)?;
        let (head_dim, rotary_dim) = (self.head_dim, self.rotary_dim);
        let sizes_fit = kv_rank <= params::MAX_VALUE_DIM
            && kv_rank.saturating_add(rotary_dim) <= params::MAX_HEAD_DIM
            && (1..head_dim).contains(&rotary_dim)
            && rotary_dim.is_multiple_of(2)
            && self.heads == self.kv_heads;
        let is_plain = self.qk_norm == QkNorm::None && !self.v_norm && !self.attention_gate;
        match sizes_fit && is_plain {
            true => Ok(()),
            false => Err(SpecError::Latent {
                kv_rank,
                value_dim,
                head_dim,
                rotary_dim,
            }),
        }
    }

    fn check_numbers(&self) -> Result<(), SpecError> {
        check_number("the norms' epsilon", self.norm.eps, 0.0..=1.0)?;
        for (what, value) in [
            ("the embedding multiplier", self.embedding_multiplier),
            ("the residual multiplier", self.residual_multiplier),
            ("the logit multiplier", self.logit_multiplier),
        ]
        .into_iter()
        .chain(self.layer_multipliers.named())
        {
            check_number(what, value, FACTORS)?;
        }
        for (what, cap) in [
            ("the soft cap of attention scores", self.attention_softcap),
            ("the soft cap of logits", self.logit_softcap),
        ] {
            if cap != 0.0 {
                check_number(what, cap, FACTORS)?;
            }
        }
        for layer in &self.layers {
            check_number("a layer's attention scale", layer.attention_scale, FACTORS)?;
            if layer.window == Some(0) {
                let (what, max) = ("a layer's window", u32::MAX.into());
                return Err(SpecError::Size { what, size: 0, max });
            }
        }
        if let Some(scaling) = self.query_scaling {
            check_number("the growth of queries", scaling.beta, 0.0..=1e6)?;
            let what = "the context of the growth of queries";
            check_number(what, scaling.context, 1.0..=1e15)?;
            if !scaling.rotated && !self.head_dim.is_multiple_of(2) {
                return Err(SpecError::PartialQueryScaling);
            }
        }
        for rope in &self.ropes {
            check_number("the rotary base", rope.theta, 1.0..=1e30)?;
            // GGUF divides the frequencies of elements that do not rotate by 1e30.
            let greatest = match rope.scaling {
                RopeScaling::Factors(_) => 1e31,
                _ => 1e15,
            };
            for (what, value) in rope.scaling.numbers() {
                check_number(what, value, 1e-9..=greatest)?;
            }
        }
        Ok(())
    }

    fn check_experts(&self) -> Result<(), SpecError> {
        let has_experts = |layer: &LayerSpec| layer.feed_forward.has_experts();
        let Some(moe) = &self.moe else {
            return match self.layers.iter().any(has_experts) {
                true => Err(SpecError::MissingExperts),
                false => Ok(()),
            };
        };
        check_size("the number of experts", moe.experts.into(), MAX_EXPERTS)?;
        if moe.experts_per_token == 0 || moe.experts_per_token > moe.experts {
            return Err(SpecError::ExpertsPerToken {
                experts_per_token: moe.experts_per_token,
                experts: moe.experts,
            });
        }
        if let Some(ExpertGroups {
            groups,
            chosen,
            best,
        }) = moe.groups
        {
            let (experts, experts_per_token) = (moe.experts, moe.experts_per_token);
            let size = experts / groups.max(1);
            let fits = groups > 0
                && experts.is_multiple_of(groups)
                && (1..=groups).contains(&chosen)
                && (1..=size).contains(&best)
                && u64::from(experts_per_token) <= u64::from(chosen) * u64::from(size);
            if !fits {
                return Err(SpecError::ExpertGroups {
                    experts_per_token,
                    experts,
                    chosen,
                    groups,
                });
            }
        }
        check_number("the factor on routing weights", moe.scale, FACTORS)?;
        if let Some(gate) = moe.clamped {
            check_number("the factor on gates of experts", gate.alpha, FACTORS)?;
            check_number("the limit of gates of experts", gate.limit, FACTORS)?;
        }
        let what = "the width of what experts read";
        check_size(what, moe.latent_size.unwrap_or(1), MAX_SIZE)?;
        if let Some(shared) = moe.shared {
            let what = "the width of the shared expert";
            check_size(what, shared.intermediate_size, MAX_SIZE)?;
        }
        check_size("an expert's width", moe.intermediate_size, MAX_SIZE)
    }
}

/// Checks the number of layers that a file claims, before a spec has as many.
pub(crate) fn check_layers(layers: u64) -> Result<(), SpecError> {
    check_size("the number of layers", layers, MAX_LAYERS as u64)
}

fn check_number(
    what: &'static str,
    value: impl Into<f64>,
    range: RangeInclusive<f64>,
) -> Result<(), SpecError> {
    let value = value.into();
    match range.contains(&value) {
        true => Ok(()),
        false => Err(SpecError::Number {
            what,
            value,
            range: range.into_inner(),
        }),
    }
}

/// Checks the sizes of a recurrence that keeps a matrix for each head.
fn check_matrices([groups, heads, rows, cols]: [u32; 4]) -> Result<(), SpecError> {
    for (what, size, max) in [
        (
            "the number of a mixer's key heads or groups",
            groups,
            MAX_HEADS,
        ),
        ("the number of a mixer's heads", heads, MAX_HEADS),
        ("the number of a state's rows", rows, MAX_STATE_DIM),
        ("the width of a mixer's head", cols, MAX_STATE_DIM),
    ] {
        check_size(what, size.into(), max)?;
    }
    match heads.is_multiple_of(groups) {
        true => Ok(()),
        false => Err(SpecError::UnevenHeads {
            heads,
            kv_heads: groups,
        }),
    }
}

fn check_mamba(mamba: Mamba2Spec) -> Result<(), SpecError> {
    check_width(mamba.width)?;
    let Mamba2Spec {
        groups,
        heads,
        state_dim,
        head_dim,
        ..
    } = mamba;
    check_matrices([groups, heads, state_dim, head_dim])?;
    for factor in mamba.multipliers {
        check_number("a factor on Mamba's projections", factor, FACTORS)?;
    }
    let [least, greatest] = mamba.step_limit;
    check_number("the least step of Mamba", least, 0.0..=1e6)?;
    let range = f64::from(least).max(1e-6)..=f64::INFINITY;
    check_number("the greatest step of Mamba", greatest, range)
}

/// Checks how many tokens an element of a short convolution depends on.
fn check_width(width: u32) -> Result<(), SpecError> {
    let before = u64::from(width).saturating_sub(1);
    let what = "the width of a short convolution, less 1";
    check_size(what, before, MAX_CONV_WIDTH - 1)
}

fn check_size(what: &'static str, size: u64, max: u64) -> Result<(), SpecError> {
    match size {
        1.. if size <= max => Ok(()),
        _ => Err(SpecError::Size { what, size, max }),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::decoder_spec::DecoderSizes, *};

    fn spec(layers: u32, head_dim: u32) -> DecoderSpec {
        DecoderSpec::llama(DecoderSizes {
            layers,
            head_dim,
            ..DecoderSizes::SMALL
        })
    }

    #[test]
    fn sizes_outside_their_range_are_named() {
        spec(1, 16).check().unwrap();
        let message = |spec: DecoderSpec| spec.check().unwrap_err().to_string();
        let layers = message(spec(u32::MAX, 16));
        assert!(layers.contains("more than 4096 layers"), "{layers}");
        let head_dim = message(spec(1, 513));
        assert!(head_dim.contains("width of a head is 513"), "{head_dim}");
        let mut none = spec(1, 16);
        none.max_positions = 0;
        assert!(message(none).contains("context length is 0"));
    }

    #[test]
    fn numbers_with_which_nothing_can_be_computed_are_named() {
        type Set = fn(&mut DecoderSpec, f32);
        let wrong: [(&str, Set); 8] = [
            ("epsilon", |spec, x| spec.norm.eps = x),
            ("embedding multiplier", |spec, x| {
                spec.embedding_multiplier = x
            }),
            ("residual multiplier", |spec, x| {
                spec.residual_multiplier = x
            }),
            ("logit multiplier", |spec, x| spec.logit_multiplier = x),
            ("attention scores", |spec, x| spec.attention_softcap = x),
            ("cap of logits", |spec, x| spec.logit_softcap = x),
            ("attention scale", DecoderSpec::set_attention_scale),
            ("rotary base", |spec, x| spec.ropes[0].theta = x),
        ];
        for (name, set) in wrong {
            for value in [f32::NAN, f32::INFINITY, -f32::INFINITY, -1.0] {
                let mut spec = spec(1, 16);
                set(&mut spec, value);
                let message = spec.check().unwrap_err().to_string();
                assert!(message.contains(name), "{name} {value}: {message}");
            }
        }
        let mut windowed = spec(1, 16);
        windowed.layers[0].window = Some(0);
        assert!(windowed.check().is_err());
    }

    #[test]
    fn odd_heads_cannot_rotate_whole() {
        let error = spec(1, 15).check().unwrap_err();
        let expected = SpecError::RotaryDim {
            rotary_dim: 15,
            head_dim: 15,
        };
        assert_eq!(error, expected);
    }
}
