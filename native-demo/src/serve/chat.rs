//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::{Extension, body::Body, extract::State, http::StatusCode, response::Response};
use serde_json::{Value, json};
use wisp_engine::{
    Completion, Error, FinishReason, Message, Model,
    pipelines::{chat_template::ControlTokens, log_probabilities::MAX_TOP},
};

use super::{
    blocking::run_blocking,
    error::{ApiError, json_response},
    fields::Fields,
    generation::{Texts, TokenCounts, finish_reason, usage},
    messages,
    request_log::RequestId,
    sampling::GenerationParams,
    scores,
    state::{Server, now},
    stream::{self, Chunks},
    structured, unsupported,
};

/// Answers a chat.
///
/// # Errors
///
/// If the request is invalid, the model cannot chat, or the queue is full.
pub async fn answer(
    State(server): State<Arc<Server>>,
    Extension(id): Extension<RequestId>,
    body: Body,
) -> Result<Response, ApiError> {
    let models = server.models()?;
    let fields = Fields::read(body, server.options.max_body_bytes).await?;
    unsupported::check(&fields)?;
    let served = models.find(fields.get::<String>("model")?.as_deref())?;
    let messages = messages::of(&fields)?;
    let mut params = params(&fields)?;
    structured::apply(&fields, &served.model, &mut params).await?;
    let model = served.model.clone();
    let prompt = run_blocking(move || prompt(&model, &messages)).await?;
    let started = Texts::start(&server, &served, vec![prompt], &params).await;
    let mut texts = started.map_err(|error| error.about("messages"))?;
    let format = Format {
        id: format!("chatcmpl-{id}"),
        created: now(),
        served: served.id.clone(),
        model: served.model.clone(),
        has_scores: params.options.sampling.log_probs.is_some(),
        include_usage: params.include_usage,
    };
    if params.stream {
        return Ok(stream::response(texts, format));
    }
    let completions = texts.complete().await?;
    let choices = completions.into_iter().enumerate();
    let choices: Vec<Value> = choices.map(|choice| format.choice(choice)).collect();
    let mut answer = format.envelope("chat.completion", choices);
    answer["usage"] = usage(texts.counts);
    Ok(json_response(StatusCode::OK, &answer))
}

fn params(fields: &Fields) -> Result<GenerationParams, ApiError> {
    let mut params = GenerationParams::of(fields)?;
    let older = fields.get("max_tokens")?;
    params.options.max_new_tokens = fields.get("max_completion_tokens")?.or(older);
    let (wants, top) = (
        fields.get_or("logprobs", false)?,
        fields.get::<u32>("top_logprobs")?,
    );
    let refuse = |problem: String| Err(ApiError::parameter("top_logprobs", problem));
    match top {
        Some(_) if !wants => return refuse("top_logprobs needs logprobs to be true".into()),
        Some(top) if top > MAX_TOP => {
            return refuse(format!(
                "top_logprobs is {top}, but must be from 0 to {MAX_TOP}"
            ));
        }
        top => params.options.sampling.log_probs = wants.then(|| top.unwrap_or(0)),
    }
    Ok(params)
}

/// Returns the tokens of a conversation.
///
/// # Errors
///
/// If the model has no chat template, or the template refuses the conversation.
pub fn prompt(model: &Model, messages: &[Message]) -> Result<Vec<u32>, ApiError> {
    if model.info().is_encoder {
        let model = model.name().to_string();
        return Err(ApiError::from(Error::NotAGenerator { model }).about("model"));
    }
    let tokens = model
        .text()
        .chat_prompt(messages, ControlTokens::FromTemplateOnly);
    tokens.map_err(|error| ApiError::from(Error::from(error)).about("messages"))
}

/// The format of answers to chats.
struct Format {
    id: String,
    created: u64,
    /// The name under which the client asked for the model.
    served: String,
    model: Model,
    has_scores: bool,
    include_usage: bool,
}

impl Format {
    fn envelope(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.served,
            "choices": choices,
        })
    }

    fn scores(&self, completion: &Completion) -> Value {
        let tokenizer = self.model.text().tokenizer().ok();
        match self.has_scores {
            true => scores::content(tokenizer, completion),
            false => Value::Null,
        }
    }

    fn choice(&self, (index, completion): (usize, Completion)) -> Value {
        json!({
            "index": index,
            "message": { "role": "assistant", "content": completion.text, "refusal": null },
            "logprobs": self.scores(&completion),
            "finish_reason": finish_reason(completion.finish_reason),
        })
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        let mut chunk = self.envelope("chat.completion.chunk", choices);
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn delta(&self, index: usize, delta: Value, scores: Value, reason: Value) -> Value {
        self.chunk(vec![json!({
            "index": index, "delta": delta, "logprobs": scores, "finish_reason": reason,
        })])
    }
}

impl Chunks for Format {
    fn begin(&mut self, text: usize) -> Option<Value> {
        let delta = json!({ "role": "assistant", "content": "", "refusal": null });
        Some(self.delta(text, delta, Value::Null, Value::Null))
    }

    fn more(&mut self, text: usize, new: Completion) -> Value {
        let scores = self.scores(&new);
        self.delta(text, json!({ "content": new.text }), scores, Value::Null)
    }

    fn end(&mut self, text: usize, reason: FinishReason) -> Value {
        let reason = finish_reason(reason).into();
        self.delta(text, json!({}), Value::Null, reason)
    }

    fn usage(&mut self, counts: TokenCounts) -> Option<Value> {
        self.include_usage.then(|| {
            let mut chunk = self.chunk(Vec::new());
            chunk["usage"] = usage(counts);
            chunk
        })
    }
}
