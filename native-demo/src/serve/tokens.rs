//! `POST /tokenize`, `/detokenize` and `/apply-template`, with the fields of both llama.cpp's server and vLLM's.

use std::sync::Arc;

use axum::{body::Body, extract::State, http::StatusCode, response::Response};
use serde_json::json;
use wisp_engine::{
    Error,
    chat::ChatRequest,
    pipelines::{PipelineError, tokenizer::Tokenizer},
};

use super::{
    blocking::run_blocking,
    chat, chat_request,
    error::{ApiError, json_response},
    fields::Fields,
    state::Server,
    unsupported,
};

/// What is tokenized.
enum Input {
    Text { text: String, add_special: bool },
    Chat(Box<ChatRequest>),
}

/// Answers with the tokens of a text (`content`, as in llama.cpp, or `prompt`, as in vLLM) or of a chat (`messages`).
///
/// # Errors
///
/// If the request is invalid, or the model has no tokenizer.
pub async fn tokenize(State(server): State<Arc<Server>>, body: Body) -> Result<Response, ApiError> {
    let (fields, served) = server.read(body, unsupported::TEMPLATE).await?;
    let input = input(&fields)?;
    let with_pieces = fields.get_or("with_pieces", false)?;
    let with_strings = fields.get_or("return_token_strs", false)?;
    let answer = run_blocking(move || {
        let model = &served.model;
        let tokenizer = tokenizer(model.text().tokenizer())?;
        let tokens = match input {
            Input::Chat(request) => chat::prompt(&served, &request)?.tokens,
            Input::Text { text, add_special } => tokenizer
                .encode(&text, add_special, true)
                .map_err(Error::from)?,
        };
        let piece = |id: &u32| json!({ "id": id, "piece": tokenizer.label(*id) });
        let listed = match with_pieces {
            true => tokens.iter().map(piece).collect(),
            false => json!(tokens),
        };
        let strings = with_strings.then(|| {
            let strings = tokens.iter().map(|id| tokenizer.token(*id));
            strings.collect::<Vec<_>>()
        });
        Ok(json!({
            "tokens": listed, "count": tokens.len(), "max_model_len": model.context_length(),
            "token_strs": strings,
        }))
    });
    Ok(json_response(StatusCode::OK, &answer.await?))
}

fn input(fields: &Fields) -> Result<Input, ApiError> {
    if fields.raw("messages").is_some() {
        return Ok(Input::Chat(Box::new(chat_request::of(fields)?)));
    }
    // The defaults of the two servers differ.
    let (name, flag, default) = match fields.raw("content") {
        Some(_) => ("content", "add_special", false),
        None => ("prompt", "add_special_tokens", true),
    };
    Ok(Input::Text {
        text: fields.require(name)?,
        add_special: fields.get_or(flag, default)?,
    })
}

/// Answers with the text of tokens, under the names of both servers.
///
/// # Errors
///
/// If the request is invalid, or the model has no tokenizer.
pub async fn detokenize(
    State(server): State<Arc<Server>>,
    body: Body,
) -> Result<Response, ApiError> {
    let (fields, served) = server.read(body, &[]).await?;
    let tokens: Vec<u32> = fields.require("tokens")?;
    let model = served.model.clone();
    let text = run_blocking(move || {
        let tokenizer = tokenizer(model.text().tokenizer())?;
        Ok(tokenizer.decode(&tokens, false))
    });
    let text = text.await?;
    let answer = json!({ "content": text, "prompt": text });
    Ok(json_response(StatusCode::OK, &answer))
}

/// Answers with a chat as the text that the model continues.
///
/// # Errors
///
/// If the request is invalid, or the template refuses the conversation.
pub async fn apply_template(
    State(server): State<Arc<Server>>,
    body: Body,
) -> Result<Response, ApiError> {
    let (fields, served) = server.read(body, unsupported::TEMPLATE).await?;
    let request = chat_request::of(&fields)?;
    let model = served.model.clone();
    let prompt = run_blocking(move || {
        tokenizer(model.text().tokenizer())?;
        chat::render(&model, &request)
    });
    let answer = json!({ "prompt": prompt.await?.text });
    Ok(json_response(StatusCode::OK, &answer))
}

fn tokenizer(found: Result<&Tokenizer, PipelineError>) -> Result<&Tokenizer, ApiError> {
    found.map_err(|error| ApiError::from(Error::from(error)).about("model"))
}
