//! Sampling parameters: how a token is chosen from its logits.

use std::collections::BTreeMap;

use wisp_shaders::params::{LogitBias, NOT_FORCED, SampleSettings};

use super::log_probabilities::MAX_TOP;

/// The largest number of biased tokens of a sequence.
pub(crate) const MAX_BIASES: u64 = 1024;

/// How tokens are sampled. The default is greedy.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SamplingParams {
    /// The temperature. 0 is greedy: always the most likely token, which is the same on every device
    /// at the exact precision with a KV cache in single precision.
    pub temperature: f32,
    /// Keeps the k most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keeps the smallest set of most likely tokens with at least this total probability; 1 keeps all, 0 only the most
    /// likely one and its equals.
    pub top_p: f32,
    /// Keeps tokens with at least this probability relative to the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Makes tokens of the prompt and of the answer less likely if above 1; 1 has no effect.
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens that occur in the answer.
    pub presence_penalty: f32,
    /// Subtracted from the logits of tokens once for each occurrence in the answer.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens before any penalty. If a token occurs twice, the last value
    /// applies.
    pub logit_bias: Vec<(u32, f32)>,
    /// The random seed; the same seed samples the same tokens.
    pub seed: u32,
    /// If set, reports the log-probability of every sampled token and of this many most likely tokens.
    pub log_probs: Option<u32>,
    /// With `log_probs`: also reports those of the prompt's tokens.
    pub prompt_log_probs: bool,
}

impl Default for SamplingParams {
    fn default() -> SamplingParams {
        SamplingParams {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
            log_probs: None,
            prompt_log_probs: false,
        }
    }
}

/// Occurs when a sampling parameter is outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}, but must be {allowed}")]
pub struct SamplingError {
    /// The parameter's name, such as `top-p`.
    pub name: &'static str,
    /// The value that is out of range.
    pub value: f32,
    /// The allowed values.
    pub allowed: &'static str,
}

/// A parameter's name, its value, whether the value is allowed, and the allowed values.
type Rule = (&'static str, f32, bool, &'static str);

impl SamplingParams {
    /// Checks every parameter's range.
    ///
    /// # Errors
    ///
    /// If a parameter is out of range; the error names the first one.
    pub fn check(&self) -> Result<(), SamplingError> {
        let (temperature, penalty) = (self.temperature, self.repetition_penalty);
        let (presence, frequency) = (self.presence_penalty, self.frequency_penalty);
        let biases = self.logit_bias.len();
        let odd_bias = self.logit_bias.iter().find(|(_, bias)| !bias.is_finite());
        let top = self.log_probs.unwrap_or(0);
        #[rustfmt::skip]
        let rules: [Rule; 9] = [
            ("temperature", temperature, temperature >= 0.0 && temperature.is_finite(), "a finite number, 0 (greedy) or more"),
            ("top-p", self.top_p, (0.0..=1.0).contains(&self.top_p), "from 0 to 1"),
            ("min-p", self.min_p, (0.0..=1.0).contains(&self.min_p), "from 0 to 1"),
            ("repetition-penalty", penalty, penalty > 0.0 && penalty.is_finite(), "a finite number above 0"),
            ("presence-penalty", presence, presence.is_finite(), "a finite number"),
            ("frequency-penalty", frequency, frequency.is_finite(), "a finite number"),
            ("a logit-bias", odd_bias.map_or(0.0, |(_, bias)| *bias), odd_bias.is_none(), "a finite number"),
            ("the count of logit-bias", biases as f32, biases as u64 <= MAX_BIASES, "at most 1024"),
            ("logprobs", top as f32, top <= MAX_TOP, "at most 20"),
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

    /// Returns whether earlier tokens affect sampling.
    pub(crate) fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0
    }

    /// Returns whether the log-probabilities of the prompt are requested.
    pub(crate) fn scores_prompt(&self) -> bool {
        self.prompt_log_probs && self.log_probs.is_some()
    }

    /// Returns the same parameters with at most one bias per token, as [`Self::biases`] and [`Self::settings`] need
    /// them: the last one.
    #[must_use]
    pub(crate) fn with_distinct_biases(self) -> SamplingParams {
        let last: BTreeMap<u32, f32> = self.logit_bias.into_iter().collect();
        SamplingParams {
            logit_bias: last.into_iter().collect(),
            ..self
        }
    }

    /// Returns the biases in the sampling kernel's format. Their tokens must be distinct.
    pub(crate) fn biases(&self) -> Vec<LogitBias> {
        let bias = |(token, value): &(u32, f32)| LogitBias {
            token: *token,
            value: *value,
            ..LogitBias::default()
        };
        self.logit_bias.iter().map(bias).collect()
    }

    /// Returns the settings in the sampling kernel's format, for the token at `position` of the
    /// sequence in `slot`. The token is sampled, of those that the sequence's mask allows if it is `masked`, or only
    /// scored if it is `known`. The tokens of the biases must be distinct.
    pub(crate) fn settings(
        &self,
        slot: u32,
        position: u32,
        known: Option<u32>,
        masked: bool,
    ) -> SampleSettings {
        SampleSettings {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            seed: self.seed,
            step: 0,
            sequence: slot,
            position,
            forced_token: known.unwrap_or(NOT_FORCED),
            biases: self.logit_bias.len() as u32,
            logprobs: self.log_probs.map_or(0, |top| top + 1),
            masked: masked.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        let plain = SamplingParams::default;
        assert_eq!(plain().check(), Ok(()));
        for top_p in [0.0, 1.0] {
            let params = SamplingParams { top_p, ..plain() };
            assert_eq!(params.check(), Ok(()));
        }
        #[rustfmt::skip]
        let wrong = [
            SamplingParams { temperature: f32::NAN, ..plain() },
            SamplingParams { top_p: -0.1, ..plain() },
            SamplingParams { top_p: 1.1, ..plain() },
            SamplingParams { top_p: f32::NAN, ..plain() },
            SamplingParams { min_p: 1.5, ..plain() },
            SamplingParams { repetition_penalty: 0.0, ..plain() },
            SamplingParams { presence_penalty: f32::INFINITY, ..plain() },
            SamplingParams { frequency_penalty: f32::NAN, ..plain() },
            SamplingParams { logit_bias: vec![(1, 0.5), (2, f32::NAN)], ..plain() },
            SamplingParams { logit_bias: vec![(1, 0.5); 1025], ..plain() },
            SamplingParams { log_probs: Some(21), ..plain() },
        ];
        for params in wrong {
            assert!(params.check().is_err(), "{params:?}");
        }
    }

    #[test]
    fn the_last_bias_of_a_token_counts() {
        let params = SamplingParams {
            logit_bias: vec![(7, 1.0), (2, 3.0), (7, 2.0)],
            ..SamplingParams::default()
        };
        let params = params.with_distinct_biases();
        let biases: Vec<(u32, f32)> = params.biases().iter().map(|b| (b.token, b.value)).collect();
        assert_eq!(biases, [(2, 3.0), (7, 2.0)]);
        assert_eq!(params.settings(0, 0, None, false).biases, 2);
    }
}
