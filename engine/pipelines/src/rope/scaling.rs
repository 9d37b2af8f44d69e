//! How rotary embeddings reach positions beyond the trained context.

/// How rotary frequencies change to reach positions beyond the trained context. The formulas are
/// those of transformers' `modeling_rope_utils`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Frequencies stay as they are.
    None,
    /// Divides every frequency by `factor` (Chen et al. 2023, "Extending Context Window of Large
    /// Language Models via Positional Interpolation").
    Linear {
        /// The divisor of every frequency; more than 1 extends the context.
        factor: f64,
    },
    /// Enlarges the base once the context exceeds the trained one ("dynamic NTK").
    Dynamic {
        /// By how much the context is extended.
        factor: f64,
        /// The trained context, in positions.
        original: f64,
    },
    /// Llama 3.1's: divides low frequencies, keeps high ones, and interpolates between them.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f64,
        /// Frequencies with wavelengths above `original / low` are divided.
        low: f64,
        /// Frequencies with wavelengths below `original / high` are kept.
        high: f64,
        /// The trained context, in positions.
        original: f64,
    },
    /// YaRN (Peng et al. 2023, "YaRN: Efficient Context Window Extension").
    Yarn {
        /// The divisor of low frequencies.
        factor: f64,
        /// The trained context, in positions.
        original: f64,
        /// Dimensions that turn more often than this over the trained context are kept.
        beta_fast: f64,
        /// Dimensions that turn less often than this over the trained context are divided.
        beta_slow: f64,
        /// Factor on cosine and sine.
        attention_factor: f64,
        /// True if the ends of the ramp between both are rounded to whole dimensions.
        truncate: bool,
    },
    /// LongRoPE (Ding et al. 2024): divides each frequency by a factor of its own, from one list up
    /// to the trained context and from another beyond it.
    LongRope {
        /// Divisors for contexts up to the trained one, one for each pair of dimensions.
        short: Vec<f32>,
        /// Divisors for longer contexts.
        long: Vec<f32>,
        /// The trained context, in positions.
        original: f64,
        /// Factors on cosine and sine, for contexts up to the trained one and for longer ones.
        attention_factors: [f64; 2],
    },
    /// Divides every frequency by `factor`, and rotates only the first `part` of a head's pairs ("proportional" in
    /// transformers, for Gemma 4).
    Proportional {
        /// The part of the pairs that rotate, at most 1.
        part: f64,
        /// The divisor of every frequency; more than 1 extends the context.
        factor: f64,
    },
    /// Divides each frequency by a factor of its own, as GGUF's `rope_freqs` tensor stores them.
    Factors(Vec<f32>),
}

impl RopeScaling {
    /// Returns the numbers of the scaling, all of which must be positive and finite, each with what it
    /// is.
    pub(crate) fn numbers(&self) -> Vec<(&'static str, f64)> {
        const FACTOR: &str = "the factor of the rope scaling";
        const ORIGINAL: &str = "the trained context of the rope scaling";
        const ATTENTION: &str = "the attention factor of the rope scaling";
        let divisors = |list: &[f32]| {
            let name = "a frequency factor of the rope scaling";
            list.iter()
                .map(|x| (name, f64::from(*x)))
                .collect::<Vec<_>>()
        };
        match self {
            RopeScaling::None => Vec::new(),
            RopeScaling::Linear { factor } => vec![(FACTOR, *factor)],
            RopeScaling::Dynamic { factor, original } => {
                vec![(FACTOR, *factor), (ORIGINAL, *original)]
            }
            RopeScaling::Llama3 {
                factor,
                low,
                high,
                original,
            } => vec![
                (FACTOR, *factor),
                ("the low frequency factor of the rope scaling", *low),
                ("the high frequency factor of the rope scaling", *high),
                (ORIGINAL, *original),
            ],
            RopeScaling::Yarn {
                factor,
                original,
                beta_fast,
                beta_slow,
                attention_factor,
                ..
            } => vec![
                (FACTOR, *factor),
                (ORIGINAL, *original),
                ("beta_fast of the rope scaling", *beta_fast),
                ("beta_slow of the rope scaling", *beta_slow),
                (ATTENTION, *attention_factor),
            ],
            RopeScaling::LongRope {
                short,
                long,
                original,
                attention_factors: [for_short, for_long],
            } => {
                let others = [
                    (ORIGINAL, *original),
                    (ATTENTION, *for_short),
                    (ATTENTION, *for_long),
                ];
                [&divisors(short)[..], &divisors(long), &others].concat()
            }
            RopeScaling::Proportional { part, factor } => {
                vec![
                    (FACTOR, *factor),
                    ("the part of a head that rotates", *part),
                ]
            }
            RopeScaling::Factors(factors) => divisors(factors),
        }
    }
}

/// Returns YaRN's factor on cosine and sine for a configuration that gives none.
pub(crate) fn yarn_attention_factor(factor: f64) -> f64 {
    yarn_scale(factor, 1.0)
}

/// Returns `0.1 * mscale * ln(factor) + 1`, or 1 if the context is not extended: `yarn_get_mscale`
/// of DeepSeek's reference implementation.
pub(crate) fn yarn_scale(factor: f64, mscale: f64) -> f64 {
    match factor <= 1.0 {
        true => 1.0,
        false => 0.1 * mscale * factor.ln() + 1.0,
    }
}

/// Returns LongRoPE's factor on cosine and sine for a configuration that gives none. `factor` is the
/// model's context divided by the trained one.
pub(crate) fn longrope_attention_factor(factor: f64, original: f64) -> f64 {
    match factor <= 1.0 {
        true => 1.0,
        false => (1.0 + factor.ln() / original.ln()).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yarn_attention_factor_grows_with_the_context() {
        assert!((yarn_attention_factor(4.0) - 1.138_629_436_111_989).abs() < 1e-12);
        assert_eq!(yarn_attention_factor(1.0), 1.0);
    }
}
