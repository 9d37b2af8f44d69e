//! `POST /v1/responses`: OpenAI's newer format of chats. No response is kept.

mod format;
mod item;
mod request;

use std::sync::Arc;

use axum::{body::Body, extract::State, http::StatusCode, response::Response};
use format::Format;

use super::{
    chat,
    client::Caller,
    error::{ApiError, json_response},
    state::Server,
    stream, structured,
    tools::{self, Interface},
    unsupported,
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
    let (fields, served) = server.read(body, unsupported::RESPONSES).await?;
    let request = request::chat(&fields)?;
    let mut params = request::params(&fields, &served.sampling_defaults)?;
    params.set_caller(&caller);
    params.answer = structured::text_format(&fields)?;
    params.strict_tools = tools::strict(&fields, Interface::Responses)?;
    let started = chat::start(&server, &served, request, &params).await;
    let mut texts = started.map_err(|error| error.renamed("messages", "input"))?;
    let echoed = request::echoed(&fields, &params)?;
    let mut format = Format::new(&caller.id.to_string(), &served.id, echoed);
    if params.options.sampling.log_probs.is_some() {
        format = format.with_scores(&served.model);
    }
    if params.stream {
        return Ok(stream::response(texts, format));
    }
    let completion = texts.complete().await?.pop().unwrap_or_default();
    let answer = format.whole(completion, texts.counts);
    Ok(json_response(StatusCode::OK, &answer))
}

/// Reads a request, for the test of its description.
#[cfg(test)]
pub fn read(fields: &super::fields::Fields) -> Result<(), ApiError> {
    request::chat(fields)?;
    let params = request::params(fields, &wisp_engine::SamplingDefaults::default())?;
    structured::text_format(fields)?;
    request::echoed(fields, &params).map(drop)
}
