//! How a model's files say that its tokens are sampled.

use serde_json::Value;
use wisp_text::python_json;
use wisp_weights::gguf::Gguf;

use crate::sampling::SamplingParams;

/// How tokens are sampled where a request does not say it, as the model's files recommend. Values outside the ranges of
/// [`SamplingParams`] are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingDefaults {
    /// What logits are divided by; 0 is greedy.
    pub temperature: Option<f32>,
    /// The number of most likely tokens that are kept; 0 keeps all.
    pub top_k: Option<u32>,
    /// The total probability of the most likely tokens that are kept.
    pub top_p: Option<f32>,
    /// The probability, relative to the most likely token, of those that are kept.
    pub min_p: Option<f32>,
    /// The penalty on tokens that have occurred.
    pub repetition_penalty: Option<f32>,
}

/// The names of the values, in the order of the fields.
type Names = [&'static str; 5];

const JSON_NAMES: Names = [
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
];

const GGUF_NAMES: Names = [
    "general.sampling.temp",
    "general.sampling.top_k",
    "general.sampling.top_p",
    "general.sampling.min_p",
    "general.sampling.penalty_repeat",
];

impl SamplingDefaults {
    /// Reads the text of `generation_config.json`. As in vLLM, `do_sample` is ignored.
    pub(crate) fn from_generation_config(config: &str) -> SamplingDefaults {
        let json = python_json::parse(config.as_bytes()).unwrap_or_default();
        SamplingDefaults::from_values(JSON_NAMES, |name| json.get(name).and_then(Value::as_f64))
    }

    /// Reads the metadata of a GGUF file.
    pub(super) fn from_gguf(gguf: &Gguf) -> SamplingDefaults {
        SamplingDefaults::from_values(GGUF_NAMES, |name| gguf.get::<f64>(name).ok().flatten())
    }

    fn from_values(
        [temperature, top_k, top_p, min_p, repetition_penalty]: Names,
        value: impl Fn(&str) -> Option<f64>,
    ) -> SamplingDefaults {
        let number = |name: &str, set: fn(&mut SamplingParams, f32)| valid(name, value(name)?, set);
        SamplingDefaults {
            temperature: number(temperature, |params, value| params.temperature = value),
            top_k: value(top_k).and_then(|value| valid_top_k(top_k, value)),
            top_p: number(top_p, |params, value| params.top_p = value),
            min_p: number(min_p, |params, value| params.min_p = value),
            repetition_penalty: number(repetition_penalty, |params, value| {
                params.repetition_penalty = value;
            }),
        }
    }
}

/// Returns a value that the parameter which `set` sets may have.
fn valid(name: &str, value: f64, set: fn(&mut SamplingParams, f32)) -> Option<f32> {
    let value = value as f32;
    let mut params = SamplingParams::default();
    set(&mut params, value);
    match params.check() {
        Ok(()) => Some(value),
        Err(error) => {
            tracing::warn!("{name} in the model's files is ignored: {error}");
            None
        }
    }
}

/// Returns the number of tokens to keep; -1 stands for all.
fn valid_top_k(name: &str, value: f64) -> Option<u32> {
    if value == -1.0 {
        return Some(0);
    }
    if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) {
        return Some(value as u32);
    }
    tracing::warn!("{name} in the model's files is ignored: {value} is no number of tokens");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_generation_config_are_read() {
        let config = r#"{"do_sample": false, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
            "min_p": 0, "repetition_penalty": 1.05, "eos_token_id": 7}"#;
        let expected = SamplingDefaults {
            temperature: Some(0.6),
            top_k: Some(20),
            top_p: Some(0.95),
            min_p: Some(0.0),
            repetition_penalty: Some(1.05),
        };
        let found = SamplingDefaults::from_generation_config(config);
        assert_eq!(found, expected);
        let all = SamplingDefaults::from_generation_config(r#"{"top_k": -1}"#);
        assert_eq!(all.top_k, Some(0));
    }

    #[test]
    fn values_out_of_range_are_left_out() {
        for config in [
            r#"{"temperature": -0.1}"#,
            r#"{"temperature": Infinity}"#,
            r#"{"temperature": "hot"}"#,
            r#"{"temperature": null}"#,
            r#"{"top_k": -2}"#,
            r#"{"top_k": 1.5}"#,
            r#"{"top_k": 4294967296}"#,
            r#"{"top_p": 1.1}"#,
            r#"{"min_p": -1}"#,
            r#"{"repetition_penalty": 0}"#,
            "[]",
            "{",
        ] {
            let found = SamplingDefaults::from_generation_config(config);
            assert_eq!(found, SamplingDefaults::default(), "{config}");
        }
        let other = r#"{"top_p": 2, "temperature": 0.5}"#;
        let found = SamplingDefaults::from_generation_config(other);
        assert_eq!((found.top_p, found.temperature), (None, Some(0.5)));
    }
}
