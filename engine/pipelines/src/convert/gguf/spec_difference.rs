//! Compares specs, to find whether they describe the same model except for rounding.

use crate::{
    rope::RopeScaling,
    spec::{DecoderSpec, LayerSpec},
};

/// Returns the first property in which two specs differ by more than rounding; `None` if there is
/// no such property.
pub(super) fn difference(a: &DecoderSpec, b: &DecoderSpec) -> Option<&'static str> {
    let layers = |same: fn(&LayerSpec, &LayerSpec) -> bool| {
        a.layers.iter().zip(&b.layers).all(|(a, b)| same(a, b))
    };
    let heads = |spec: &DecoderSpec| (spec.heads, spec.kv_heads, spec.head_dim);
    let close_field = |field: fn(&DecoderSpec) -> f32| -> bool { close(field(a), field(b)) };
    let same = [
        ("latent attention", a.latent == b.latent),
        ("vocabulary", a.vocab_size == b.vocab_size),
        ("width", a.hidden_size == b.hidden_size),
        ("mixers of layers", layers(|a, b| a.mixer == b.mixer)),
        ("number of layers", a.layers.len() == b.layers.len()),
        ("heads", heads(a) == heads(b)),
        ("kind of norms", a.norm.kind == b.norm.kind),
        ("epsilon of norms", close_field(|spec| spec.norm.eps)),
        ("placement of norms", a.norm_placement == b.norm_placement),
        ("norms of queries and keys", a.qk_norm == b.qk_norm),
        ("gate of attention", a.attention_gate == b.attention_gate),
        ("activation", a.activation == b.activation),
        ("gate of the feed-forward", a.gate == b.gate),
        ("experts", a.moe == b.moe),
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
        (
            "scale of attention scores",
            layers(|a, b| close(a.attention_scale, b.attention_scale)),
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
        ("segment types", a.encoder == b.encoder),
    ];
    let mut different = same.into_iter().filter(|(_, same)| !same);
    different.next().map(|(what, _)| what)
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
    let (a, b) = (numbers(a), numbers(b));
    same_kind && a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| close(*a, *b))
}

fn close(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

/// Returns the numbers of a scaling, rounded to 32-bit floats.
fn numbers(scaling: &RopeScaling) -> Vec<f32> {
    let rounded =
        |numbers: &[f64]| -> Vec<f32> { numbers.iter().map(|number| *number as f32).collect() };
    match scaling {
        RopeScaling::None => Vec::new(),
        RopeScaling::Linear { factor } => rounded(&[*factor]),
        RopeScaling::Dynamic { factor, original } => rounded(&[*factor, *original]),
        RopeScaling::Llama3 {
            factor,
            low,
            high,
            original,
        } => rounded(&[*factor, *low, *high, *original]),
        RopeScaling::Yarn {
            factor,
            original,
            beta_fast,
            beta_slow,
            attention_factor,
            truncate,
        } => rounded(&[
            *factor,
            *original,
            *attention_factor,
            *beta_fast,
            *beta_slow,
            f64::from(u8::from(*truncate)),
        ]),
        RopeScaling::LongRope {
            short,
            long,
            original,
            attention_factors: [for_short, for_long],
        } => {
            let numbers = rounded(&[*original, *for_short, *for_long]);
            [&numbers, &short[..], long].concat()
        }
        RopeScaling::Proportional { part, factor } => rounded(&[*part, *factor]),
        RopeScaling::Factors(factors) => factors.clone(),
    }
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
}
