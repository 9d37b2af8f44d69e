//! How rotary embeddings reach positions beyond those that a model was trained for.

/// How positions beyond the trained ones are reached. Formulas: transformers' `modeling_rope_utils`.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Every frequency divided by `factor` (Chen et al. 2023).
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Base enlarged once the context exceeds the trained one (`dynamic` NTK).
    Dynamic {
        /// The factor.
        factor: f64,
        /// The trained context.
        original: f64,
    },
    /// Llama 3.1's: low frequencies divided, high ones kept, a ramp between.
    Llama3 {
        /// The divisor of the low frequencies.
        factor: f64,
        /// Wavelengths above `original / low` are divided.
        low: f64,
        /// Wavelengths below `original / high` are kept.
        high: f64,
        /// The trained context.
        original: f64,
    },
    /// YaRN (Peng et al. 2023).
    Yarn {
        /// The divisor of the low frequencies.
        factor: f64,
        /// The trained context.
        original: f64,
        /// Dimensions that turn more often than this are kept.
        beta_fast: f64,
        /// Dimensions that turn less often than this are divided.
        beta_slow: f64,
        /// Factor on cosine and sine.
        attention_factor: f64,
        /// Round the ramp's ends to whole dimensions.
        truncate: bool,
    },
    /// LongRoPE (Ding et al. 2024): each frequency with a divisor of its own, of one list up to the
    /// trained context and of another beyond it.
    LongRope {
        /// Divisors for a context up to the trained one.
        short: Vec<f32>,
        /// Divisors for a longer one.
        long: Vec<f32>,
        /// The trained context.
        original: f64,
        /// Factor on cosine and sine.
        attention_factor: f64,
    },
    /// Each frequency with a divisor of its own, as GGUF's `rope_freqs` tensor gives them.
    Factors(Vec<f32>),
}

impl RopeScaling {
    /// By how much it lengthens the context, if it has one factor for that.
    pub fn factor(&self) -> Option<f64> {
        match self {
            RopeScaling::Linear { factor }
            | RopeScaling::Dynamic { factor, .. }
            | RopeScaling::Llama3 { factor, .. }
            | RopeScaling::Yarn { factor, .. } => Some(*factor),
            RopeScaling::None | RopeScaling::Factors(_) | RopeScaling::LongRope { .. } => None,
        }
    }
}

/// YaRN's factor on cosine and sine when the configuration gives none.
pub fn yarn_attention_factor(factor: f64) -> f64 {
    if factor <= 1.0 {
        1.0
    } else {
        0.1 * factor.ln() + 1.0
    }
}

/// LongRoPE's factor on cosine and sine when the configuration gives none; `factor` is how many
/// times the trained context the model was made for.
pub fn longrope_attention_factor(factor: f64, original: f64) -> f64 {
    if factor <= 1.0 {
        1.0
    } else {
        (1.0 + factor.ln() / original.ln()).sqrt()
    }
}
