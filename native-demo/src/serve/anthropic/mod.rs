//! `POST /v1/messages` and `/v1/messages/count_tokens`: chats in Anthropic's format.

mod error;
mod format;
mod request;

use std::sync::Arc;

use axum::{body::Body, extract::State, http::StatusCode, response::Response};
use serde_json::json;

pub use error::describe_errors;
use format::Format;

use super::{
    blocking::run_blocking,
    chat,
    client::Caller,
    error::{ApiError, json_response},
    state::Server,
    stream, structured, unsupported,
};

/// Answers a chat.
///
/// # Errors
///
/// If the request is invalid, the model cannot chat, or the queue is full.
pub async fn answer(
    State(server): State<Arc<Server>>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let (fields, served) = server.read(body, unsupported::MESSAGES).await?;
    let request = request::chat(&fields)?;
    let mut params = request::params(&fields, &served.sampling_defaults)?;
    params.set_caller(&caller);
    params.answer = structured::output_format(&fields)?;
    let mut texts = chat::start(&server, &served, request, &params).await?;
    let mut format = Format::new(format!("msg_{}", caller.id), &served.id, texts.counts);
    if params.stream {
        return Ok(stream::response(texts, format));
    }
    let completion = texts.complete().await?.pop().unwrap_or_default();
    let answer = format.whole(completion, texts.counts);
    Ok(json_response(StatusCode::OK, &answer))
}

/// Answers with the number of tokens of a chat.
///
/// # Errors
///
/// If the request is invalid, or the model cannot chat.
pub async fn count_tokens(
    State(server): State<Arc<Server>>,
    body: Body,
) -> Result<Response, ApiError> {
    let (fields, served) = server.read(body, unsupported::MESSAGES).await?;
    let request = request::chat(&fields)?;
    let prompt = run_blocking(move || chat::prompt(&served, &request)).await?;
    let answer = json!({ "input_tokens": prompt.tokens.len() });
    Ok(json_response(StatusCode::OK, &answer))
}

/// Reads a request, for the test of its description.
#[cfg(test)]
pub fn read(fields: &super::fields::Fields) -> Result<(), ApiError> {
    request::chat(fields)?;
    request::params(fields, &wisp_engine::SamplingDefaults::default())?;
    structured::output_format(fields).map(drop)
}
