//! Compares specs, to find whether they describe the same model except for rounding.

use crate::{
    rope::RopeScaling,
    spec::{DecoderSpec, LayerSpec},
};

/// A property of specs, and whether two have the same.
type Property = (&'static str, bool);

/// Returns the first property in which two specs differ by more than rounding; `None` if there is
/// no such property.
pub(super) fn difference(a: &DecoderSpec, b: &DecoderSpec) -> Option<&'static str> {
    let properties = [
        structure(a, b),
        layers(a, b),
        positions_and_factors(a, b),
        encoder(a, b),
    ];
    let mut different = properties.into_iter().flatten().filter(|(_, same)| !same);
    different.next().map(|(what, _)| what)
}

/// Compares what all layers have in common.
fn structure(a: &DecoderSpec, b: &DecoderSpec) -> Vec<Property> {
    let heads = |spec: &DecoderSpec| (spec.heads, spec.kv_heads, spec.head_dim);
    let low_rank_eps = |spec: &DecoderSpec| spec.latent.map_or(0.0, |latent| latent.norm_eps);
    vec![
        (
            "epsilon of the norms in latent attention",
            close(low_rank_eps(a), low_rank_eps(b)),
        ),
        ("latent attention", a.latent == b.latent),
        ("vocabulary", a.vocab_size == b.vocab_size),
        ("width", a.hidden_size == b.hidden_size),
        (
            "mixers of layers",
            same_layers(a, b, |a, b| a.mixer == b.mixer),
        ),
        ("number of layers", a.layers.len() == b.layers.len()),
        ("heads", heads(a) == heads(b)),
        ("kind of norms", a.norm.kind == b.norm.kind),
        ("epsilon of norms", close(a.norm.eps, b.norm.eps)),
        ("placement of norms", a.norm_placement == b.norm_placement),
        ("norms of queries and keys", a.qk_norm == b.qk_norm),
        ("gate of attention", a.attention_gate == b.attention_gate),
        ("activation", a.activation == b.activation),
        ("gate of the feed-forward", a.gate == b.gate),
        ("experts", a.moe == b.moe),
    ]
}

/// Compares what layers have of their own.
fn layers(a: &DecoderSpec, b: &DecoderSpec) -> Vec<Property> {
    let layers = |same: fn(&LayerSpec, &LayerSpec) -> bool| same_layers(a, b, same);
    vec![
        (
            "heads of layers",
            (0..a.layers.len()).all(|i| a.head_sizes(i) == b.head_sizes(i)),
        ),
        (
            "values that are keys",
            layers(|a, b| a.values_are_keys == b.values_are_keys),
        ),
        ("factors of layers", a.layer_scalars == b.layer_scalars),
        ("norms of values", a.v_norm == b.v_norm),
        ("versions of the residual stream", a.alt_up == b.alt_up),
        ("branch beside attention", a.laurel_rank == b.laurel_rank),
        (
            "embeddings of layers",
            a.layer_embeddings == b.layer_embeddings,
        ),
        (
            "shared keys and values",
            layers(|a, b| a.shared_kv == b.shared_kv),
        ),
        (
            "feed-forward",
            (0..a.layers.len()).all(|i| a.dense_width(i) == b.dense_width(i)),
        ),
        (
            "cutoff of activations",
            layers(|a, b| a.activation_cutoff == b.activation_cutoff),
        ),
        ("attention sinks", layers(|a, b| a.sinks == b.sinks)),
        (
            "layers with experts",
            layers(|a, b| a.feed_forward == b.feed_forward),
        ),
        (
            "sliding windows",
            layers(|a, b| (a.window, a.chunked) == (b.window, b.chunked)),
        ),
        ("layers without rotation", layers(|a, b| a.rope == b.rope)),
    ]
}

/// Compares how a model knows positions, and the factors and bounds of what it computes.
fn positions_and_factors(a: &DecoderSpec, b: &DecoderSpec) -> Vec<Property> {
    let close_field = |field: fn(&DecoderSpec) -> f32| -> bool { close(field(a), field(b)) };
    vec![
        (
            "scale of attention scores",
            same_layers(a, b, |a, b| close(a.attention_scale, b.attention_scale)),
        ),
        (
            "order of rotation",
            a.rope_interleaved == b.rope_interleaved,
        ),
        ("rotary embedding", same_ropes(a, b)),
        (
            "rotated part of heads",
            a.ropes.is_empty() || a.rotary_dim == b.rotary_dim,
        ),
        ("context", a.max_positions == b.max_positions),
        (
            "learned positions",
            a.learned_positions == b.learned_positions,
        ),
        (
            "cap of attention scores",
            close_field(|spec| spec.attention_softcap),
        ),
        ("cap of logits", close_field(|spec| spec.logit_softcap)),
        (
            "factor on embeddings",
            close_field(|spec| spec.embedding_multiplier),
        ),
        (
            "factor on residuals",
            close_field(|spec| spec.residual_multiplier),
        ),
        (
            "factor on logits",
            close_field(|spec| spec.logit_multiplier),
        ),
        (
            "parallel residual",
            a.parallel_residual == b.parallel_residual,
        ),
        ("norm of the feed-forward", a.shared_norm == b.shared_norm),
        (
            "scale of queries by position",
            a.query_scaling == b.query_scaling,
        ),
        ("output layer", a.tied == b.tied),
    ]
}

/// Compares what encoders have besides a decoder's parts.
fn encoder(a: &DecoderSpec, b: &DecoderSpec) -> Vec<Property> {
    let score_head = |spec: &DecoderSpec| spec.encoder.and_then(|encoder| encoder.score);
    let segments = |spec: &DecoderSpec| spec.encoder.map_or(0, |encoder| encoder.token_types);
    let is_causal = |spec: &DecoderSpec| spec.encoder.is_none_or(|encoder| encoder.causal);
    vec![
        ("score head", score_head(a) == score_head(b)),
        ("segment types", segments(a) == segments(b)),
        ("causal mask", is_causal(a) == is_causal(b)),
        ("kind of encoder", a.encoder == b.encoder),
    ]
}

fn same_layers(a: &DecoderSpec, b: &DecoderSpec, same: fn(&LayerSpec, &LayerSpec) -> bool) -> bool {
    a.layers.iter().zip(&b.layers).all(|(a, b)| same(a, b))
}

fn same_ropes(a: &DecoderSpec, b: &DecoderSpec) -> bool {
    let mut pairs = a.ropes.iter().zip(&b.ropes);
    a.ropes.len() == b.ropes.len()
        && pairs.all(|(a, b)| {
            a.rotary_dim == b.rotary_dim
                && close(a.theta, b.theta)
                && same_scaling(&a.scaling, &b.scaling)
        })
}

/// Compares scalings by kind and by their numbers, which GGUF stores as 32-bit floats.
fn same_scaling(a: &RopeScaling, b: &RopeScaling) -> bool {
    let same_kind = std::mem::discriminant(a) == std::mem::discriminant(b);
    let truncates =
        |scaling: &RopeScaling| matches!(scaling, RopeScaling::Yarn { truncate: true, .. });
    let (x, y) = (a.numbers(), b.numbers());
    let mut pairs = x.iter().zip(&y);
    same_kind
        && truncates(a) == truncates(b)
        && x.len() == y.len()
        && pairs.all(|((_, x), (_, y))| close(*x as f32, *y as f32))
}

fn close(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalings_differ_by_their_kinds_and_numbers() {
        let yarn = |factor, beta_slow| RopeScaling::Yarn {
            factor,
            original: 4096.0,
            beta_fast: 32.0,
            beta_slow,
            attention_factor: 1.1,
            truncate: true,
        };
        let scalings = [
            RopeScaling::None,
            RopeScaling::Linear { factor: 2.0 },
            RopeScaling::Linear { factor: 4.0 },
            yarn(4.0, 1.0),
            yarn(4.0, 2.0),
            RopeScaling::Factors(vec![1.0, 2.0]),
            RopeScaling::Factors(vec![1.0, 2.0, 3.0]),
        ];
        for (i, a) in scalings.iter().enumerate() {
            for (j, b) in scalings.iter().enumerate() {
                assert_eq!(same_scaling(a, b), i == j, "{a:?} and {b:?}");
            }
        }
        // GGUF stores numbers as 32-bit floats.
        let rounded = yarn(f64::from(4.1f32), 1.0);
        assert!(same_scaling(&yarn(4.1, 1.0), &rounded));
    }

    #[test]
    fn what_encoders_differ_in_is_named() {
        use crate::spec::{DecoderSizes, EncoderSpec, ScoreHead};
        let with = |encoder: Option<EncoderSpec>| DecoderSpec {
            encoder,
            ..DecoderSpec::llama(DecoderSizes::SMALL)
        };
        let causal = EncoderSpec::causal();
        let scores = EncoderSpec {
            score: Some(ScoreHead::linear(2)),
            ..causal
        };
        let segmented = EncoderSpec {
            token_types: 2,
            ..EncoderSpec::bidirectional()
        };
        let bidirectional = EncoderSpec {
            embedding_norm: false,
            ..EncoderSpec::bidirectional()
        };
        for (a, b, expected) in [
            (Some(causal), Some(causal), None),
            (Some(scores), Some(causal), Some("score head")),
            (Some(scores), None, Some("score head")),
            (Some(segmented), None, Some("segment types")),
            (Some(bidirectional), Some(causal), Some("causal mask")),
            (Some(causal), None, Some("kind of encoder")),
        ] {
            assert_eq!(difference(&with(a), &with(b)), expected);
        }
    }
}
