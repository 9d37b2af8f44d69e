//! The parameters of generation in a request.

use std::collections::BTreeMap;

use serde::Deserialize;
use wisp_engine::{SamplingParams, grammar::Constraint, pipelines::GenerateOptions};

use super::{
    client::Caller,
    error::ApiError,
    fields::{Fields, parse},
    request_facts::RequestFacts,
};

/// The most texts for one prompt.
const MAX_CHOICES: usize = 128;

/// The most stop strings.
const MAX_STOPS: usize = 32;

/// The most tokens that end a text.
const MAX_STOP_TOKENS: usize = 128;

/// The longest stop string in bytes.
const MAX_STOP_BYTES: usize = 1024;

/// What a request asks for, apart from its prompt.
#[derive(Clone, Debug)]
pub struct GenerationParams {
    /// The options of the first text of each prompt.
    pub options: GenerateOptions,
    /// What the text of an answer in a chat must match. It is in the options too, for texts that are no chats.
    pub answer: Option<Constraint>,
    /// What is noted of the request at its end.
    pub facts: RequestFacts,
    /// The number of texts for each prompt.
    pub choices: usize,
    /// Whether the answer is a stream of events.
    pub stream: bool,
    /// Which chunks of a stream have the numbers of tokens.
    pub usage: StreamUsage,
}

/// Which chunks of a stream have the numbers of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamUsage {
    /// None.
    #[default]
    None,
    /// One after all others.
    Last,
    /// Every chunk those so far, and one after all others.
    Each,
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
    /// vLLM's.
    #[serde(default)]
    continuous_usage_stats: Option<bool>,
}

impl StreamOptions {
    fn usage(&self) -> StreamUsage {
        match (self.include_usage, self.continuous_usage_stats) {
            (Some(true), Some(true)) => StreamUsage::Each,
            (Some(true), _) => StreamUsage::Last,
            _ => StreamUsage::None,
        }
    }
}

impl GenerationParams {
    /// Reads the parameters that chats and completions have in common.
    ///
    /// # Errors
    ///
    /// If one has the wrong type, or a value that the server refuses.
    pub fn of(fields: &Fields) -> Result<GenerationParams, ApiError> {
        let stream = fields.get_or("stream", false)?;
        let stream_options: Option<StreamOptions> = fields.get("stream_options")?;
        if stream_options.is_some() && !stream {
            let message = "stream_options needs stream to be true";
            return Err(ApiError::parameter("stream_options", message));
        }
        let choices = fields.get_or("n", 1)?;
        if !(1..=MAX_CHOICES).contains(&choices) {
            let message = format!("n is {choices}, but must be from 1 to {MAX_CHOICES}");
            return Err(ApiError::parameter("n", message));
        }
        let options = GenerateOptions {
            sampling: sampling(fields)?,
            stop: stops(fields, "stop")?,
            ignore_eos: fields.get_or("ignore_eos", false)?,
            stop_tokens: stop_tokens(fields)?,
            ..GenerateOptions::default()
        };
        Ok(GenerationParams {
            options,
            answer: None,
            facts: RequestFacts::default(),
            choices,
            stream,
            usage: stream_options.unwrap_or_default().usage(),
        })
    }

    /// Takes over who asks.
    pub fn set_caller(&mut self, caller: &Caller) {
        self.options.client = caller.client;
        self.facts = caller.facts.clone();
    }

    /// Returns the options of a prompt's text by its number: its seed follows that of the one before.
    pub fn options_of(&self, choice: usize) -> GenerateOptions {
        let mut options = self.options.clone();
        // At most `MAX_CHOICES`.
        options.sampling.seed = options.sampling.seed.wrapping_add(choice as u32);
        options
    }
}

fn sampling(fields: &Fields) -> Result<SamplingParams, ApiError> {
    let default = SamplingParams::default();
    // OpenAI's default. 0 is greedy.
    let temperature = fields.get_or("temperature", 1.0)?;
    // Other servers write -1 for a seed that is drawn.
    let seed = match fields.get::<i64>("seed")?.filter(|seed| *seed != -1) {
        Some(seed) => in_32_bits(seed),
        None if temperature > 0.0 => getrandom::u32().map_err(|error| {
            let message = format!("the system draws no seed: {error}");
            ApiError::unavailable(message)
        })?,
        None => 0,
    };
    // Other servers write -1 for all tokens.
    let top_k = match fields.get_or::<i64>("top_k", 0)? {
        -1 => 0,
        k => u32::try_from(k).map_err(|_| {
            ApiError::parameter("top_k", format!("top_k is {k}, but must be 0 or more"))
        })?,
    };
    Ok(SamplingParams {
        temperature,
        top_k,
        top_p: fields.get_or("top_p", default.top_p)?,
        min_p: fields.get_or("min_p", default.min_p)?,
        repetition_penalty: fields.get_or("repetition_penalty", default.repetition_penalty)?,
        presence_penalty: fields.get_or("presence_penalty", default.presence_penalty)?,
        frequency_penalty: fields.get_or("frequency_penalty", default.frequency_penalty)?,
        logit_bias: logit_bias(fields)?,
        seed,
        ..default
    })
}

/// Returns a seed in 32 bits: one that fits as it is, and a hash of others, so that seeds that differ stay different in
/// most cases.
fn in_32_bits(seed: i64) -> u32 {
    let hash = || (seed.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    u32::try_from(seed).unwrap_or_else(|_| hash())
}

/// Returns the biases, whose tokens are the keys of an object.
fn logit_bias(fields: &Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let biases: BTreeMap<String, f32> = fields.get_or("logit_bias", BTreeMap::new())?;
    let bias = |(token, bias): (String, f32)| match token.parse() {
        Ok(token) => Ok((token, bias)),
        Err(_) => {
            let message = format!("logit_bias: {token:?} is no token id");
            Err(ApiError::parameter("logit_bias", message))
        }
    };
    biases.into_iter().map(bias).collect()
}

/// Returns the tokens that end a text besides the model's own.
fn stop_tokens(fields: &Fields) -> Result<Vec<u32>, ApiError> {
    let tokens: Vec<u32> = fields.get_or("stop_token_ids", Vec::new())?;
    if tokens.len() > MAX_STOP_TOKENS {
        let message = format!(
            "stop_token_ids has {} tokens, but at most {MAX_STOP_TOKENS} are allowed",
            tokens.len()
        );
        return Err(ApiError::parameter("stop_token_ids", message));
    }
    Ok(tokens)
}

/// Returns the stop strings of a field: one string or a list.
///
/// # Errors
///
/// If it has another type, or too many or too long strings.
pub fn stops(fields: &Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let stops: Vec<String> = match fields.raw(name) {
        None => Vec::new(),
        Some(json) if json.starts_with('"') => vec![parse(name, json)?],
        Some(json) => parse(name, json)?,
    };
    let refuse = |problem: String| Err(ApiError::parameter(name, format!("{name} {problem}")));
    if stops.len() > MAX_STOPS {
        return refuse(format!(
            "has {} strings, but at most {MAX_STOPS} are allowed",
            stops.len()
        ));
    }
    if stops
        .iter()
        .any(|stop| stop.is_empty() || stop.len() > MAX_STOP_BYTES)
    {
        return refuse(format!(
            "has a string that is empty or longer than {MAX_STOP_BYTES} bytes"
        ));
    }
    Ok(stops)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(body: &str) -> Result<GenerationParams, ApiError> {
        GenerationParams::of(&Fields::parse(body.as_bytes()).unwrap())
    }

    #[test]
    fn parameters_are_read_with_openais_defaults() {
        let default = of(r#"{"stop": null, "user": "me"}"#).unwrap();
        assert_eq!(default.options.sampling.temperature, 1.0);
        assert_eq!((default.choices, default.stream), (1, false));
        let body = r#"{"temperature": 0, "seed": 7, "top_k": -1, "stop": "a", "n": 3, "stream": true,
            "stream_options": {"include_usage": true}, "logit_bias": {"5": -100}, "stop_token_ids": [9]}"#;
        let all = of(body).unwrap();
        assert_eq!(all.usage, StreamUsage::Last);
        let body = r#"{"stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true}}"#;
        assert_eq!(of(body).unwrap().usage, StreamUsage::Each);
        assert_eq!(all.options.sampling.top_k, 0);
        assert_eq!(all.options.sampling.logit_bias, [(5, -100.0)]);
        assert_eq!(all.options.stop, ["a"]);
        assert_eq!(all.options.stop_tokens, [9]);
        assert_eq!(all.options_of(2).sampling.seed, 9);
        assert_eq!(
            of(r#"{"stop": ["a", "b"]}"#).unwrap().options.stop,
            ["a", "b"]
        );
    }

    #[test]
    fn seeds_that_differ_stay_different() {
        let seed = |seed: i64| {
            of(&format!(r#"{{"seed": {seed}}}"#))
                .unwrap()
                .options
                .sampling
                .seed
        };
        for small in [0, 4, i64::from(u32::MAX)] {
            assert_eq!(i64::from(seed(small)), small);
        }
        let others = [4, -2, -4, -5, 1 << 32, 5 << 32, i64::MAX, i64::MIN];
        let distinct: BTreeSet<u32> = others.into_iter().map(seed).collect();
        assert_eq!(distinct.len(), others.len());
        assert_eq!(seed(-5), seed(-5));
    }

    #[test]
    fn seed_of_minus_1_is_drawn() {
        let seeds: BTreeSet<u32> = (0..4)
            .map(|_| of(r#"{"seed": -1}"#).unwrap().options.sampling.seed)
            .collect();
        assert!(seeds.len() > 1, "{seeds:?}");
    }

    #[test]
    fn invalid_parameters_are_named() {
        for (body, param) in [
            (r#"{"temperature": "hot"}"#, "temperature"),
            (r#"{"n": 0}"#, "n"),
            (r#"{"n": 129}"#, "n"),
            (r#"{"n": 1.5}"#, "n"),
            (r#"{"top_k": -2}"#, "top_k"),
            (r#"{"stop": ["a", 5]}"#, "stop[1]"),
            (r#"{"stop": ""}"#, "stop"),
            (r#"{"stop": {"a": 1}}"#, "stop"),
            (r#"{"logit_bias": {"x": 1}}"#, "logit_bias"),
            (r#"{"logit_bias": {"1": "x"}}"#, "logit_bias.1"),
            (r#"{"stream_options": {}}"#, "stream_options"),
            (r#"{"seed": 1e99}"#, "seed"),
            (r#"{"stop_token_ids": [-1]}"#, "stop_token_ids[0]"),
        ] {
            let error = of(body).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{body}: {error}");
        }
    }
}
