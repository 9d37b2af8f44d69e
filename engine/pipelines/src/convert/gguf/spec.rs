//! The spec that a GGUF file can express for a model.

use crate::{
    architectures::Architecture,
    convert::{error::ConvertError, gguf::factors},
    rope::{RopeScaling, frequencies},
    spec::{DecoderSpec, Mixer},
};

/// The names and values of tensors that express the scaling of rotary frequencies.
pub(super) type RopeFactors = Vec<(&'static str, Vec<f32>)>;

/// The divisor of a frequency that is 0: it leaves no angle that a float could tell from 0.
const UNROTATED: f32 = 1e30;

/// By how much a file may change the epsilon of the norms in latent attention. Hidden states have far larger mean squares,
/// so that results hardly change.
const EPS_TOLERANCE: f32 = 1e-5;

/// Returns the spec that readers of a GGUF file find for a model, and the tensors that express its
/// rope scaling.
///
/// # Errors
///
/// If GGUF cannot express the rope scaling.
pub(super) fn in_gguf(
    architecture: &Architecture,
    spec: &DecoderSpec,
) -> Result<(DecoderSpec, RopeFactors), ConvertError> {
    let mut spec = spec.clone();
    let mut factors = RopeFactors::new();
    // In GGUF, norm weights include the offset that the model adds to them.
    spec.norm.weight_offset = 0.0;
    // GGUF has one epsilon for all norms.
    if let Some(latent) = &mut spec.latent
        && (latent.norm_eps - spec.norm.eps).abs() <= EPS_TOLERANCE
    {
        latent.norm_eps = spec.norm.eps;
    }
    spec.rope_interleaved |= architecture.interleaves_rope_in_gguf();
    if architecture.scales_weights_in_gguf() {
        factors::remove(&mut spec);
    }
    for layer in &mut spec.layers {
        if let Mixer::DeltaNet(net) = &mut layer.mixer {
            net.tiled = architecture.tiles_values_in_gguf();
        }
    }
    if let Some(embeddings) = &mut spec.layer_embeddings {
        // Every token has a row.
        embeddings.vocab_size = embeddings.vocab_size.max(spec.vocab_size);
    }
    if let Some(encoder) = &mut spec.encoder {
        // Rows before the first position are not written, and an encoder has no output layer.
        encoder.padding = None;
        spec.tied |= !encoder.causal;
    }
    let mut others = spec.ropes.iter().skip(1);
    if others.any(|rope| rope.scaling != RopeScaling::None) {
        return Err(ConvertError::Inexpressible {
            what: "scaling of a second rotary embedding",
        });
    }
    let (dim, length) = (spec.rotary_dim, spec.max_positions);
    let Some(rope) = spec.ropes.first_mut() else {
        return Ok((spec, factors));
    };
    match &rope.scaling {
        RopeScaling::Llama3 { .. } | RopeScaling::Proportional { .. } => {
            let dim = rope.rotary_dim.unwrap_or(dim);
            let (plain, _) = frequencies(rope.theta, dim, &RopeScaling::None, length);
            let (scaled, _) = frequencies(rope.theta, dim, &rope.scaling, length);
            let divisors = plain.iter().zip(&scaled);
            let divisor = |(plain, scaled)| f32::min(plain / scaled, UNROTATED);
            let divisors: Vec<f32> = divisors.map(divisor).collect();
            factors.push(("rope_freqs.weight", divisors.clone()));
            rope.scaling = RopeScaling::Factors(divisors);
        }
        RopeScaling::LongRope { short, long, .. } => {
            factors.push(("rope_factors_short.weight", short.clone()));
            factors.push(("rope_factors_long.weight", long.clone()));
        }
        RopeScaling::Dynamic { .. } => {
            return Err(ConvertError::Inexpressible {
                what: "dynamic rope scaling",
            });
        }
        _ => {}
    }
    Ok((spec, factors))
}
