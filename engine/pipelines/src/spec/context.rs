//! The longest context of a decoder.

use super::{DecoderSpec, RopeScaling, RopeSettings, check::MAX_SIZE};

impl DecoderSpec {
    /// Returns the longest context that the model can be loaded with: [`Self::max_positions`], or as many positions as the
    /// scaling of its rotary embedding reaches if those are more.
    pub fn longest_context(&self) -> u64 {
        let extended = match self.ropes.as_slice() {
            [RopeSettings { scaling, .. }, others @ ..] => match scaling {
                RopeScaling::Yarn {
                    factor, original, ..
                } => original * factor,
                // Models whose layers with a window have a rotary embedding of their own, as Gemma 3, are trained with the
                // scaling: their positions include it.
                RopeScaling::Linear { factor } | RopeScaling::Dynamic { factor, .. }
                    if others.is_empty() =>
                {
                    self.max_positions as f64 * factor
                }
                _ => 0.0,
            },
            [] => 0.0,
        };
        self.max_positions.max((extended as u64).min(MAX_SIZE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::DecoderSizes;

    #[test]
    fn scaling_extends_the_context() {
        let longest = |max_positions, scaling: RopeScaling, others: usize| {
            let mut spec = DecoderSpec::llama(DecoderSizes {
                max_positions,
                ..DecoderSizes::SMALL
            });
            spec.ropes = vec![RopeSettings::new(10_000.0, scaling)];
            let other = RopeSettings::new(10_000.0, RopeScaling::None);
            spec.ropes.extend(vec![other; others]);
            spec.longest_context()
        };
        let yarn = |factor, original| RopeScaling::Yarn {
            factor,
            original,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: 1.0,
            truncate: true,
        };
        let linear = |factor| RopeScaling::Linear { factor };
        let dynamic = RopeScaling::Dynamic {
            factor: 2.0,
            original: 4096.0,
        };
        // Qwen3, as its model card extends it.
        assert_eq!(longest(40_960, yarn(4.0, 32_768.0), 0), 131_072);
        // gpt-oss and OLMo 3, whose positions include the scaling.
        assert_eq!(longest(131_072, yarn(32.0, 4096.0), 0), 131_072);
        assert_eq!(longest(65_536, yarn(8.0, 8192.0), 1), 65_536);
        assert_eq!(longest(4096, yarn(f64::MAX, 4096.0), 0), MAX_SIZE);
        assert_eq!(longest(4096, linear(4.0), 0), 16_384);
        assert_eq!(longest(4096, linear(0.5), 0), 4096);
        assert_eq!(longest(131_072, linear(8.0), 1), 131_072);
        assert_eq!(longest(4096, dynamic, 0), 8192);
        assert_eq!(longest(4096, RopeScaling::None, 0), 4096);
    }
}
