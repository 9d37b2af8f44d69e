//! How a token is drawn from its logits.

use wisp_shaders::params::SampleSettings;

/// How tokens are drawn. The default is greedy.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct SamplingParams {
    /// 0 is greedy: always the likeliest token, the same on every device.
    pub temperature: f32,
    /// Keep the k likeliest; 0 keeps all.
    pub top_k: u32,
    /// Keep the smallest set with at least this probability; 1 keeps all.
    pub top_p: f32,
    /// Keep what is at least this likely relative to the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Above 1, tokens that were seen become less likely; 1 leaves them.
    pub repetition_penalty: f32,
    /// The same seed draws the same tokens.
    pub seed: u32,
}

impl Default for SamplingParams {
    fn default() -> SamplingParams {
        SamplingParams {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
        }
    }
}

/// Occurs when a sampling parameter is outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}, but must be {allowed}")]
pub struct SamplingError {
    /// The parameter.
    pub name: &'static str,
    /// Its value.
    pub value: f32,
    /// What it may be.
    pub allowed: &'static str,
}

impl SamplingParams {
    /// Checks every parameter's range.
    ///
    /// # Errors
    ///
    /// The first parameter outside it.
    pub fn check(&self) -> Result<(), SamplingError> {
        let rules = [
            (
                "temperature",
                self.temperature,
                self.temperature >= 0.0 && self.temperature.is_finite(),
                "0 (greedy) or more",
            ),
            (
                "top-p",
                self.top_p,
                self.top_p > 0.0 && self.top_p <= 1.0,
                "above 0 and at most 1",
            ),
            (
                "min-p",
                self.min_p,
                (0.0..=1.0).contains(&self.min_p),
                "from 0 to 1",
            ),
            (
                "repetition-penalty",
                self.repetition_penalty,
                self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite(),
                "above 0",
            ),
        ];
        match rules.into_iter().find(|(_, _, holds, _)| !holds) {
            Some((name, value, _, allowed)) => Err(SamplingError {
                name,
                value,
                allowed,
            }),
            None => Ok(()),
        }
    }

    /// The settings as the sampling kernel reads them, for the token at `position` of the sequence
    /// in `slot`.
    pub(super) fn settings(&self, slot: u32, position: u32) -> SampleSettings {
        SampleSettings {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            step: 0,
            sequence: slot,
            position,
        }
    }
}
