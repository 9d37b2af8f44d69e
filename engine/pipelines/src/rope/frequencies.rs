//! Rotary frequencies, their scalings, and the table of rotations that kernels read.

use std::{f64::consts::PI, ops::Range};

use super::scaling::RopeScaling;

/// The angle per position of each rotated pair, `[ceil(rotary_dim / 2)]`, and the factor on cosine and
/// sine. `length` is the context that the table is made for.
///
/// Where a scaling depends on the length (dynamic NTK, LongRoPE), that is the context's, not the
/// text's as in transformers: keys are rotated once, when they are cached, and texts of all lengths
/// share a batch and their pages. llama.cpp and vLLM do the same. A text for which a context of its own
/// length is made, as `wisp generate` does where none is asked for, gets what transformers computes.
pub fn frequencies(
    theta: f32,
    rotary_dim: u32,
    scaling: &RopeScaling,
    length: u64,
) -> (Vec<f32>, f64) {
    let dim = f64::from(rotary_dim);
    let pairs = rotary_dim.div_ceil(2) as usize;
    let plain = |theta: f64| {
        (0..pairs)
            .map(|i| theta.powf(-2.0 * i as f64 / dim))
            .collect::<Vec<f64>>()
    };
    let base = plain(theta.into());
    let (scaled, attention_factor) = match scaling {
        RopeScaling::None => (base, 1.0),
        RopeScaling::Linear { factor } => (base.iter().map(|f| f / factor).collect(), 1.0),
        RopeScaling::Dynamic { factor, original } => {
            let length = (length as f64).max(*original);
            let grown = f64::from(theta)
                * (factor * length / original - (factor - 1.0)).powf(dim / (dim - 2.0));
            (plain(grown), 1.0)
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
            factor,
            original,
            beta_fast,
            beta_slow,
            attention_factor,
            truncate,
        } => {
            // The dimension that makes this many turns over the trained context.
            let dimension = |turns: f64| {
                dim * (original / (turns * 2.0 * PI)).ln() / (2.0 * f64::from(theta).ln())
            };
            let (mut low, mut high) = (dimension(*beta_fast), dimension(*beta_slow));
            if *truncate {
                (low, high) = (low.floor(), high.ceil());
            }
            let (low, high) = (low.max(0.0), high.min(dim - 1.0));
            let width = if high == low { 0.001 } else { high - low };
            let scale = |(i, f): (usize, f64)| {
                let ramp = ((i as f64 - low) / width).clamp(0.0, 1.0);
                f / factor * ramp + f * (1.0 - ramp)
            };
            (
                base.into_iter().enumerate().map(scale).collect(),
                *attention_factor,
            )
        }
        RopeScaling::LongRope {
            short,
            long,
            original,
            attention_factor,
        } => {
            let factors = if length as f64 > *original {
                long
            } else {
                short
            };
            (divided(base, factors), *attention_factor)
        }
        RopeScaling::Factors(factors) => (divided(base, factors), 1.0),
    };
    (
        scaled.into_iter().map(|f| f as f32).collect(),
        attention_factor,
    )
}

/// Each frequency divided by its factor, as far as there are factors.
fn divided(frequencies: Vec<f64>, factors: &[f32]) -> Vec<f64> {
    frequencies
        .into_iter()
        .zip(factors.iter().chain(std::iter::repeat(&1.0)))
        .map(|(f, factor)| f / f64::from(*factor))
        .collect()
}

/// The rotations of every position, computed as they are read.
#[derive(Clone, Debug)]
pub struct Rotations {
    frequencies: Vec<f32>,
    /// Factor on cosine and sine.
    factor: f64,
}

impl Rotations {
    /// Those of a context of `length` positions.
    pub fn new(theta: f32, rotary_dim: u32, scaling: &RopeScaling, length: u64) -> Rotations {
        let (frequencies, factor) = frequencies(theta, rotary_dim, scaling, length);
        Rotations {
            frequencies,
            factor,
        }
    }

    /// Elements of the table of cosine and sine of every position and pair, `[length,
    /// ceil(rotary_dim / 2), 2]`.
    pub fn elements(&self, range: Range<u64>) -> Vec<f32> {
        let pairs = self.frequencies.len().max(1) as u64;
        let element = |i: u64| {
            let (position, pair) = (i / 2 / pairs, i / 2 % pairs);
            // The angle is rounded to f32 as the reference implementations do.
            let angle = f64::from(position as f32 * self.frequencies[pair as usize]);
            let turn = match i.is_multiple_of(2) {
                true => angle.cos(),
                false => angle.sin(),
            };
            (turn * self.factor) as f32
        };
        range.map(element).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::scaling::yarn_attention_factor, *};

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
    fn yarn_has_its_attention_factor() {
        assert!((yarn_attention_factor(4.0) - 1.138_629_436_111_989).abs() < 1e-12);
        assert_eq!(yarn_attention_factor(1.0), 1.0);
    }

    #[test]
    fn longrope_chooses_by_the_length() {
        let scaling = RopeScaling::LongRope {
            short: vec![1.0, 2.0],
            long: vec![4.0, 8.0],
            original: 16.0,
            attention_factor: 1.5,
        };
        let (plain, _) = frequencies(10_000.0, 4, &RopeScaling::None, 0);
        for (length, factors) in [(16, [1.0, 2.0]), (17, [4.0, 8.0])] {
            let (scaled, factor) = frequencies(10_000.0, 4, &scaling, length);
            assert_eq!(factor, 1.5);
            assert_eq!([plain[0] / scaled[0], plain[1] / scaled[1]], factors);
        }
    }

    #[test]
    fn an_odd_dimension_turns_its_neighbour_too() {
        let (frequencies, _) = frequencies(10_000.0, 3, &RopeScaling::None, 0);
        assert_eq!(frequencies.len(), 2);
        assert!((f64::from(frequencies[1]) - 10_000f64.powf(-2.0 / 3.0)).abs() < 1e-9);
    }

    #[test]
    fn the_first_position_does_not_rotate() {
        let rotations = Rotations::new(10_000.0, 6, &RopeScaling::None, 2);
        assert_eq!(rotations.elements(0..6), [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        assert_eq!(rotations.elements(6..8), [1f32.cos(), 1f32.sin()]);
        assert_eq!(rotations.elements(4..9), rotations.elements(0..12)[4..9]);
    }
}
