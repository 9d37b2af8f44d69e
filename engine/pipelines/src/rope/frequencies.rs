//! Rotary frequencies under each scaling.

use std::f64::consts::PI;

use super::scaling::RopeScaling;

/// Returns the angle per position of each rotated pair, `[ceil(rotary_dim / 2)]`, and the factor on
/// cosine and sine. `length` is the context for which the table is made.
///
/// Where a scaling depends on the length (dynamic NTK, LongRoPE), that is the length of the context
/// and not, as in transformers, of the text: keys are rotated once, when they are cached, and texts
/// of all lengths share a batch and their pages. llama.cpp and vLLM do the same. A text whose
/// context is made just as long as the text needs gets what transformers computes.
pub(crate) fn frequencies(
    theta: f32,
    rotary_dim: u32,
    scaling: &RopeScaling,
    length: u64,
) -> (Vec<f32>, f64) {
    let dim = f64::from(rotary_dim);
    let base = unscaled(theta.into(), rotary_dim);
    let (scaled, attention_factor) = match scaling {
        RopeScaling::None => (base, 1.0),
        RopeScaling::Linear { factor } => (base.iter().map(|f| f / factor).collect(), 1.0),
        RopeScaling::Dynamic { factor, original } => {
            let length = (length as f64).max(*original);
            let growth = factor * length / original - (factor - 1.0);
            let theta = f64::from(theta) * growth.powf(dim / (dim - 2.0));
            (unscaled(theta, rotary_dim), 1.0)
        }
        RopeScaling::Llama3 {
            factor,
            low,
            high,
            original,
        } => {
            let scale = |f: f64| {
                let wavelength = 2.0 * PI / f;
                let smooth = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0);
                (1.0 - smooth) * f / factor + smooth * f
            };
            (base.into_iter().map(scale).collect(), 1.0)
        }
        RopeScaling::Yarn {
            attention_factor, ..
        } => (yarn(base, theta.into(), dim, scaling), *attention_factor),
        RopeScaling::LongRope {
            short,
            long,
            original,
            attention_factors: [for_short, for_long],
        } => {
            let (divisors, factor) = match length as f64 > *original {
                true => (long, for_long),
                false => (short, for_short),
            };
            (divided(base, divisors), *factor)
        }
        RopeScaling::Proportional { part, factor } => {
            let pairs = (part * dim / 2.0) as usize;
            let scale = |(i, f): (usize, f64)| if i < pairs { f / factor } else { 0.0 };
            (base.into_iter().enumerate().map(scale).collect(), 1.0)
        }
        RopeScaling::Factors(factors) => (divided(base, factors), 1.0),
    };
    let scaled = scaled.into_iter().map(|frequency| frequency as f32);
    (scaled.collect(), attention_factor)
}

/// `theta^(-2i / dim)` for each pair `i`.
fn unscaled(theta: f64, rotary_dim: u32) -> Vec<f64> {
    let exponent = |pair: u32| -2.0 * f64::from(pair) / f64::from(rotary_dim);
    let pairs = 0..rotary_dim.div_ceil(2);
    pairs.map(|pair| theta.powf(exponent(pair))).collect()
}

/// YaRN: keeps the dimensions that turn often, divides those that turn seldom, and interpolates
/// between them.
fn yarn(base: Vec<f64>, theta: f64, dim: f64, scaling: &RopeScaling) -> Vec<f64> {
    let RopeScaling::Yarn {
        factor,
        original,
        beta_fast,
        beta_slow,
        truncate,
        ..
    } = scaling
    else {
        return base;
    };
    // The dimension that makes this many turns over the trained context.
    let dimension = |turns: f64| dim * (original / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln());
    let (mut low, mut high) = (dimension(*beta_fast), dimension(*beta_slow));
    if *truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    let (low, high) = (low.max(0.0), high.min(dim - 1.0));
    let width = if high == low { 0.001 } else { high - low };
    let scale = |(i, frequency): (usize, f64)| {
        let ramp = ((i as f64 - low) / width).clamp(0.0, 1.0);
        frequency / factor * ramp + frequency * (1.0 - ramp)
    };
    base.into_iter().enumerate().map(scale).collect()
}

/// Divides each frequency by its factor; frequencies without a factor stay as they are.
fn divided(frequencies: Vec<f64>, factors: &[f32]) -> Vec<f64> {
    let factors = factors.iter().chain(std::iter::repeat(&1.0));
    let pairs = frequencies.into_iter().zip(factors);
    pairs.map(|(f, factor)| f / f64::from(*factor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_keeps_high_frequencies_and_divides_low_ones() {
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low: 1.0,
            high: 4.0,
            original: 8192.0,
        };
        let (plain, _) = frequencies(500_000.0, 128, &RopeScaling::None, 0);
        let (scaled, factor) = frequencies(500_000.0, 128, &scaling, 0);
        assert_eq!(factor, 1.0);
        assert_eq!(plain[0], scaled[0]);
        assert!((plain[63] / scaled[63] - 8.0).abs() < 1e-5);
    }

    #[test]
    fn longrope_factors_depend_on_the_context_length() {
        let scaling = RopeScaling::LongRope {
            short: vec![1.0, 2.0],
            long: vec![4.0, 8.0],
            original: 16.0,
            attention_factors: [1.25, 1.5],
        };
        let (plain, _) = frequencies(10_000.0, 4, &RopeScaling::None, 0);
        for (length, expected, factors) in [(16, 1.25, [1.0, 2.0]), (17, 1.5, [4.0, 8.0])] {
            let (scaled, factor) = frequencies(10_000.0, 4, &scaling, length);
            assert_eq!(factor, expected);
            assert_eq!([plain[0] / scaled[0], plain[1] / scaled[1]], factors);
        }
    }

    #[test]
    fn proportional_frequencies_are_those_of_the_whole_head_or_none() {
        let scaling = RopeScaling::Proportional {
            part: 0.3,
            factor: 2.0,
        };
        let (plain, _) = frequencies(10_000.0, 16, &RopeScaling::None, 0);
        let (scaled, factor) = frequencies(10_000.0, 16, &scaling, 0);
        assert_eq!(factor, 1.0);
        assert_eq!(scaled[..2], [plain[0] / 2.0, plain[1] / 2.0]);
        assert_eq!(scaled[2..], [0.0; 6]);
    }

    #[test]
    fn odd_dimension_rotates_one_more_element() {
        let (frequencies, _) = frequencies(10_000.0, 3, &RopeScaling::None, 0);
        assert_eq!(frequencies.len(), 2);
        assert!((f64::from(frequencies[1]) - 10_000f64.powf(-2.0 / 3.0)).abs() < 1e-9);
    }
}
