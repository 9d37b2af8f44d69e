//! The parameters of generation in a request.

use std::collections::BTreeMap;

use serde::Deserialize;
use wisp_engine::{
    SamplingDefaults, SamplingParams, grammar::Constraint, pipelines::GenerateOptions,
};

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

/// The fields of [`GenerationParams::of`] that all chats have, also where OpenAI's or Anthropic's own servers know fewer.
pub const OF_ALL_CHATS: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "seed",
    "stream",
    "ignore_eos",
    "stop_token_ids",
];

/// The longest stop string in bytes.
const MAX_STOP_BYTES: usize = 1024;

/// What an answer must match, and the parameter that says so.
pub type Requirement = (&'static str, Constraint);

/// What a request asks for, apart from its prompt.
#[derive(Clone, Debug)]
pub struct GenerationParams {
    /// The options of the first text of the first prompt.
    pub options: GenerateOptions,
    /// Whether the client gave no seed, so that one was drawn.
    has_drawn_seed: bool,
    /// What the text of an answer in a chat must match, which is compiled with its prompt.
    pub answer: Option<Requirement>,
    /// Where the schemas of a chat's strict tools stand in the request, by the names of the tools.
    pub strict_tools: BTreeMap<String, String>,
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
    /// Reads the parameters that chats and completions have in common. Sampling that the client does not set is the
    /// model's, or else OpenAI's.
    ///
    /// # Errors
    ///
    /// If one has the wrong type, or a value that the server refuses.
    pub fn of(fields: &Fields, defaults: &SamplingDefaults) -> Result<GenerationParams, ApiError> {
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
        let seed = seed(fields)?;
        let options = GenerateOptions {
            sampling: sampling(fields, defaults, seed)?,
            stop: stops(fields, "stop")?,
            ignore_eos: fields.get_or("ignore_eos", false)?,
            stop_tokens: stop_tokens(fields)?,
            ..GenerateOptions::default()
        };
        Ok(GenerationParams {
            options,
            has_drawn_seed: seed.is_none(),
            answer: None,
            strict_tools: BTreeMap::new(),
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

    /// Returns the options of a prompt's text by the numbers of both. The seed of a text follows that of the one before;
    /// each prompt begins with the client's seed again, but with a new one if the client gave none, so that equal
    /// prompts get texts that differ.
    pub fn options_of(&self, prompt: usize, choice: usize) -> GenerateOptions {
        let number = match self.has_drawn_seed {
            true => prompt * self.choices + choice,
            false => choice,
        };
        let mut options = self.options.clone();
        options.sampling.seed = options.sampling.seed.wrapping_add(number as u32);
        options
    }
}

/// Returns the client's seed; `None` if one is to be drawn.
fn seed(fields: &Fields) -> Result<Option<u32>, ApiError> {
    let seed: Option<i64> = fields.get("seed")?;
    // Other servers write -1 for a seed that is drawn.
    Ok(seed.filter(|seed| *seed != -1).map(in_32_bits))
}

fn sampling(
    fields: &Fields,
    model: &SamplingDefaults,
    seed: Option<u32>,
) -> Result<SamplingParams, ApiError> {
    let default = SamplingParams::default();
    let number = |name: &str, recommended: Option<f32>, default: f32| {
        Ok::<f32, ApiError>(fields.get(name)?.or(recommended).unwrap_or(default))
    };
    // OpenAI's default. 0 is greedy.
    let temperature = number("temperature", model.temperature, 1.0)?;
    let seed = match seed {
        Some(seed) => seed,
        None if temperature > 0.0 => getrandom::u32().map_err(|error| {
            let message = format!("the system draws no seed: {error}");
            ApiError::unavailable(message)
        })?,
        None => 0,
    };
    // Other servers write -1 for all tokens.
    let top_k = match fields.get::<i64>("top_k")? {
        None => model.top_k.unwrap_or(default.top_k),
        Some(-1) => 0,
        Some(k) => u32::try_from(k).map_err(|_| {
            let most = u32::MAX;
            let message =
                format!("top_k is {k}, but must be from 0 to {most}, or -1 for all tokens");
            ApiError::parameter("top_k", message)
        })?,
    };
    Ok(SamplingParams {
        temperature,
        top_k,
        top_p: number("top_p", model.top_p, default.top_p)?,
        min_p: number("min_p", model.min_p, default.min_p)?,
        repetition_penalty: repetition_penalty(fields)?
            .or(model.repetition_penalty)
            .unwrap_or(default.repetition_penalty),
        presence_penalty: fields.get_or("presence_penalty", default.presence_penalty)?,
        frequency_penalty: fields.get_or("frequency_penalty", default.frequency_penalty)?,
        logit_bias: logit_bias(fields)?,
        seed,
        ..default
    })
}

/// Returns the repetition penalty, which llama.cpp calls by another name; `None` if the client gives none.
fn repetition_penalty(fields: &Fields) -> Result<Option<f32>, ApiError> {
    let other = fields.get("repeat_penalty")?;
    Ok(fields.get("repetition_penalty")?.or(other))
}

/// Returns the most tokens of an answer: the first of these fields that is present, or else the default. `None` is no
/// limit but the context, which -1 means, as in llama.cpp and LM Studio.
///
/// # Errors
///
/// If it is no whole number, or less than -1.
pub fn max_tokens(
    fields: &Fields,
    names: &[&str],
    default: Option<usize>,
) -> Result<Option<usize>, ApiError> {
    for name in names {
        let Some(limit) = fields.get::<i64>(name)? else {
            continue;
        };
        if limit == -1 {
            return Ok(None);
        }
        let limit = usize::try_from(limit).map_err(|_| {
            let message = format!("{name} is {limit}, but must be 0 or more, or -1 for no limit");
            ApiError::parameter(*name, message)
        })?;
        return Ok(Some(limit));
    }
    Ok(default)
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
        let fields = Fields::parse(body.as_bytes()).unwrap();
        GenerationParams::of(&fields, &SamplingDefaults::default())
    }

    #[test]
    fn sampling_that_the_client_does_not_set_is_the_models() {
        let model = SamplingDefaults {
            temperature: Some(0.5),
            top_k: Some(20),
            top_p: Some(0.75),
            min_p: Some(0.25),
            repetition_penalty: Some(1.5),
        };
        let read = |body: &str| {
            let fields = Fields::parse(body.as_bytes()).unwrap();
            GenerationParams::of(&fields, &model)
                .unwrap()
                .options
                .sampling
        };
        let own = read(r#"{"temperature": null, "seed": 1}"#);
        let expected = SamplingParams {
            temperature: 0.5,
            top_k: 20,
            top_p: 0.75,
            min_p: 0.25,
            repetition_penalty: 1.5,
            seed: 1,
            ..SamplingParams::default()
        };
        assert_eq!(own, expected);
        let set = read(
            r#"{"temperature": 0, "top_k": -1, "top_p": 1, "min_p": 0, "repetition_penalty": 1}"#,
        );
        assert_eq!(set, SamplingParams::default());
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
        assert_eq!(all.options_of(0, 2).sampling.seed, 9);
        // Each prompt begins with the client's seed.
        assert_eq!(all.options_of(1, 2).sampling.seed, 9);
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
    fn texts_of_all_prompts_differ_without_a_seed() {
        for body in [r#"{"n": 3}"#, r#"{"n": 3, "seed": -1}"#] {
            let params = of(body).unwrap();
            let texts = (0..4).flat_map(|prompt| (0..3).map(move |choice| (prompt, choice)));
            let seeds = texts.map(|(prompt, choice)| {
                let options = params.options_of(prompt, choice);
                options.sampling.seed
            });
            assert_eq!(seeds.collect::<BTreeSet<u32>>().len(), 12);
        }
    }

    #[test]
    fn penalty_has_the_names_of_two_servers() {
        let penalty = |body: &str| of(body).unwrap().options.sampling.repetition_penalty;
        assert_eq!(penalty(r#"{"repeat_penalty": 1.25}"#), 1.25);
        assert_eq!(
            penalty(r#"{"repetition_penalty": 1.5, "repeat_penalty": 1.25}"#),
            1.5
        );
    }

    #[test]
    fn limit_of_minus_1_is_none() {
        let read = |body: &str| {
            let fields = Fields::parse(body.as_bytes()).unwrap();
            max_tokens(&fields, &["max_tokens", "n_predict"], Some(16))
        };
        for (body, expected) in [
            ("{}", Some(16)),
            (r#"{"max_tokens": null}"#, Some(16)),
            (r#"{"max_tokens": 0}"#, Some(0)),
            (r#"{"max_tokens": 5, "n_predict": 7}"#, Some(5)),
            (r#"{"n_predict": 7}"#, Some(7)),
            (r#"{"max_tokens": -1}"#, None),
            (r#"{"n_predict": -1}"#, None),
        ] {
            assert_eq!(read(body).unwrap(), expected, "{body}");
        }
        for (body, param) in [
            (r#"{"max_tokens": -2}"#, "max_tokens"),
            (r#"{"max_tokens": 1.5}"#, "max_tokens"),
            (r#"{"n_predict": "a"}"#, "n_predict"),
        ] {
            let error = read(body).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{body}: {error}");
        }
    }

    #[test]
    fn the_largest_top_k_is_named() {
        let error = of(r#"{"top_k": 1000000000000}"#).unwrap_err();
        let expected =
            "top_k is 1000000000000, but must be from 0 to 4294967295, or -1 for all tokens";
        assert_eq!(error.message(), expected);
    }

    #[test]
    fn invalid_parameters_are_named() {
        for (body, param) in [
            (r#"{"temperature": "hot"}"#, "temperature"),
            (r#"{"n": 0}"#, "n"),
            (r#"{"n": 129}"#, "n"),
            (r#"{"n": 1.5}"#, "n"),
            (r#"{"top_k": -2}"#, "top_k"),
            (r#"{"top_k": 1000000000000}"#, "top_k"),
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
