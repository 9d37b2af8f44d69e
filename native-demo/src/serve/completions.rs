//! `POST /v1/completions`.

use std::sync::Arc;

use axum::{body::Body, extract::State, http::StatusCode, response::Response};
use serde_json::{Value, json};
use wisp_engine::{
    Completion, FinishReason, Model, SamplingDefaults, pipelines::log_probabilities::MAX_TOP,
};

use super::{
    blocking::run_blocking,
    client::Caller,
    error::{ApiError, json_response},
    fields::Fields,
    generation::{FINGERPRINT, Source, Texts, TokenCounts, finish_reason, usage},
    prompts::Prompt,
    sampling::{GenerationParams, StreamUsage, max_tokens},
    state::{Server, now},
    stop_reason::StopReason,
    stream::{self, Chunks},
    structured, unsupported,
};
use crate::logprobs::{Echoed, Logprobs};

/// The number of tokens to generate if the client gives none, as in OpenAI's interface.
const DEFAULT_TOKENS: usize = 16;

/// Continues prompts.
///
/// # Errors
///
/// If the request is invalid, the model does not generate, or the queue is full.
pub async fn answer(
    State(server): State<Arc<Server>>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let (fields, served) = server.read(body, unsupported::COMPLETIONS).await?;
    let prompts = Prompt::all_of(&fields, "prompt")?;
    let echo = fields.get_or("echo", false)?;
    let add_special = fields.get_or("add_special_tokens", true)?;
    let mut params = params(&fields, &served.sampling_defaults, echo)?;
    params.set_caller(&caller);
    structured::apply(&fields, &served.model, &mut params).await?;
    let model = served.model.clone();
    let prepared = run_blocking(move || {
        let each = prompts.into_iter().map(|prompt| {
            let text = if echo {
                prompt.text(&model)
            } else {
                String::new()
            };
            Ok((prompt.tokens(&model, add_special)?, text))
        });
        each.collect::<Result<Vec<_>, ApiError>>()
    });
    let prepared = prepared.await.map_err(|error| error.about("prompt"))?;
    let prompts = prepared
        .iter()
        .map(|(tokens, _)| Source::Tokens(tokens.clone()));
    let prompts = prompts.collect();
    let started = Texts::start(&server, &served, prompts, &params).await;
    let mut texts = started.map_err(|error| error.about("prompt"))?;
    let echoes = prepared.into_iter().map(|(tokens, text)| Echo {
        tokens,
        text,
        is_sent: !echo,
        length: 0,
    });
    let each = |echo: Echo| std::iter::repeat_n(echo, params.choices);
    let mut format = Format {
        id: format!("cmpl-{}", caller.id),
        created: now(),
        served: served.id.clone(),
        model: served.model.clone(),
        echoes: echoes.flat_map(each).collect(),
        has_scores: params.options.sampling.log_probs.is_some(),
        usage: params.usage,
        counts: texts.counts,
        stop_tokens: params.options.stop_tokens.clone(),
        stops: vec![None; texts.count()],
    };
    if params.stream {
        return Ok(stream::response(texts, format));
    }
    let completions = texts.complete().await?;
    let choices = completions.into_iter().enumerate();
    let choices = choices.map(|(index, completion)| {
        format.stops[index] = StopReason::of(&completion, &format.stop_tokens);
        format.choice(index, &completion, Some(completion.finish_reason))
    });
    let choices: Vec<Value> = choices.collect();
    let mut answer = format.envelope(choices);
    answer["usage"] = usage(texts.counts);
    Ok(json_response(StatusCode::OK, &answer))
}

/// Reads the parameters of generation.
pub(super) fn params(
    fields: &Fields,
    defaults: &SamplingDefaults,
    echo: bool,
) -> Result<GenerationParams, ApiError> {
    let mut params = GenerationParams::of(fields, defaults)?;
    let names = ["max_tokens", "n_predict"];
    params.options.max_new_tokens = max_tokens(fields, &names, Some(DEFAULT_TOKENS))?;
    let top = fields.get::<u32>("logprobs")?;
    if let Some(top) = top.filter(|top| *top > MAX_TOP) {
        let problem = format!("logprobs is {top}, but must be from 0 to {MAX_TOP}");
        return Err(ApiError::parameter("logprobs", problem));
    }
    params.options.sampling.log_probs = top;
    params.options.sampling.prompt_log_probs = echo;
    let best_of = fields.get_or("best_of", params.choices)?;
    match best_of == params.choices {
        true => Ok(params),
        false => Err(ApiError::unsupported("best_of")),
    }
}

/// The prompt of a text, which an answer may begin with.
#[derive(Clone)]
struct Echo {
    tokens: Vec<u32>,
    text: String,
    /// Whether the prompt has been sent, or is not to be.
    is_sent: bool,
    /// Characters of the text that the tokens sent with their log-probabilities take.
    length: usize,
}

/// The format of completions.
struct Format {
    id: String,
    created: u64,
    /// The name under which the client asked for the model.
    served: String,
    model: Model,
    /// The prompt of each text.
    echoes: Vec<Echo>,
    has_scores: bool,
    /// Which chunks of a stream have the numbers of tokens.
    usage: StreamUsage,
    /// The numbers of tokens so far, in a stream.
    counts: TokenCounts,
    /// The tokens that the client named to end a text.
    stop_tokens: Vec<u32>,
    /// What ended each text, if the client named it, once it is known.
    stops: Vec<Option<StopReason>>,
}

impl Format {
    fn envelope(&self, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id, "object": "text_completion", "created": self.created,
            "model": self.served, "choices": choices, "system_fingerprint": FINGERPRINT,
        })
    }

    /// Returns a choice of new tokens and their text, and of the prompt if that is to be sent first. `reason` is why the
    /// text ended, if it did.
    fn choice(&mut self, index: usize, new: &Completion, reason: Option<FinishReason>) -> Value {
        let echo = &mut self.echoes[index];
        let with_prompt = !std::mem::replace(&mut echo.is_sent, true);
        let scores = self.has_scores.then(|| {
            let tokenizer = self.model.text().tokenizer().ok();
            let prompt = with_prompt.then_some(Echoed {
                tokens: &echo.tokens,
                text: &echo.text,
            });
            let scores = Logprobs::new(tokenizer, prompt, new, echo.length);
            echo.length += scores.length;
            scores
        });
        let text = match with_prompt {
            true => std::mem::take(&mut echo.text) + &new.text,
            false => new.text.clone(),
        };
        json!({
            "index": index, "text": text, "logprobs": scores,
            "finish_reason": reason.map(finish_reason),
            "stop_reason": reason.map(|_| &self.stops[index]),
        })
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        let mut chunk = self.envelope(choices);
        self.usage.add_to(&mut chunk, self.counts);
        chunk
    }
}

impl Chunks for Format {
    fn begin(&mut self, text: usize) -> Option<Value> {
        // The log-probabilities of the prompt come with the first token.
        (!self.echoes[text].is_sent && !self.has_scores)
            .then(|| self.more(text, Completion::default()))
    }

    fn more(&mut self, text: usize, new: Completion) -> Value {
        let choice = self.choice(text, &new, None);
        self.chunk(vec![choice])
    }

    fn end(&mut self, text: usize, reason: FinishReason) -> Value {
        let choice = self.choice(text, &Completion::default(), Some(reason));
        self.chunk(vec![choice])
    }

    fn stopped_at(&mut self, text: usize, stop: String) {
        self.stops[text] = Some(StopReason::Text(stop));
    }

    fn ended_by(&mut self, text: usize, token: u32) {
        self.stops[text] = StopReason::of_token(token, &self.stop_tokens);
    }

    fn count(&mut self, counts: TokenCounts) {
        self.counts = counts;
    }

    fn usage(&mut self, counts: TokenCounts) -> Option<Value> {
        (self.usage != StreamUsage::None).then(|| {
            let mut chunk = self.chunk(Vec::new());
            chunk["usage"] = usage(counts);
            chunk
        })
    }
}
