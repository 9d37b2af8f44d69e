//! `POST /v1/chat/completions`.

use std::{collections::BTreeMap, sync::Arc};

use axum::{body::Body, extract::State, http::StatusCode, response::Response};
use serde_json::Value;
use wisp_engine::{
    Error, Model, SamplingDefaults,
    chat::{ChatPrompt, ChatRequest},
    grammar::GrammarError,
    pipelines::log_probabilities::MAX_TOP,
    tools::ToolChoice,
};

use super::{
    blocking::run_blocking,
    call_ids::CallIds,
    chat_format::{Ending, Format},
    chat_request,
    client::Caller,
    error::{ApiError, json_response},
    fields::Fields,
    generation::{Source, Texts, usage},
    models::ServedModel,
    sampling::{GenerationParams, max_tokens},
    state::{Server, now},
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
    let (fields, served) = server.read(body, unsupported::CHAT).await?;
    let request = chat_request::of(&fields)?;
    let mut params = params(&fields, &served.sampling_defaults)?;
    params.set_caller(&caller);
    params.answer = structured::constraint(&fields)?;
    params.strict_tools = tools::strict(&fields, Interface::Chat)?;
    let has_tools = request.tools().is_some();
    let is_named = matches!(request.tool_choice(), ToolChoice::Function(_));
    let mut texts = start(&server, &served, request, &params).await?;
    let format = Format {
        id: format!("chatcmpl-{}", caller.id),
        created: now(),
        served: served.id.clone(),
        model: served.model.clone(),
        has_scores: params.options.sampling.log_probs.is_some(),
        usage: params.usage,
        counts: texts.counts,
        has_tools,
        is_named,
        call_ids: CallIds::new("call_"),
        stop_tokens: params.options.stop_tokens.clone(),
        endings: vec![Ending::default(); texts.count()],
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

/// Reads the parameters of generation.
pub(super) fn params(
    fields: &Fields,
    defaults: &SamplingDefaults,
) -> Result<GenerationParams, ApiError> {
    let mut params = GenerationParams::of(fields, defaults)?;
    let names = ["max_completion_tokens", "max_tokens", "n_predict"];
    params.options.max_new_tokens = max_tokens(fields, &names, None)?;
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

/// Starts the texts of a chat.
///
/// # Errors
///
/// If the model cannot chat, its template refuses the conversation, the schema of a strict tool cannot be enforced, a
/// parameter is out of range, or the queue is full.
pub async fn start(
    server: &Arc<Server>,
    served: &Arc<ServedModel>,
    mut request: ChatRequest,
    params: &GenerationParams,
) -> Result<Texts, ApiError> {
    let mut params = params.clone();
    let (name, answer) = params.answer.take().unzip();
    request.answer = answer;
    let strict = std::mem::take(&mut params.strict_tools);
    let prepared = served.clone();
    let prompt = run_blocking(move || prepare(&prepared, &request, name, &strict));
    let prompt = prompt.await?;
    let source = vec![Source::Chat(Box::new(prompt))];
    let started = Texts::start(server, served, source, &params).await;
    started.map_err(|error| error.about("messages"))
}

/// Returns the prompt of a conversation, with what its answers must follow. `name` is the parameter that says what they
/// must match, and `strict` where the schemas of strict tools stand.
fn prepare(
    served: &ServedModel,
    request: &ChatRequest,
    name: Option<&str>,
    strict: &BTreeMap<String, String>,
) -> Result<ChatPrompt, ApiError> {
    check_generates(served)?;
    let model = &served.model;
    let refused = |error: Error, name: Option<&str>| match error {
        Error::Grammar(GrammarError::StrictTool { tool, problem }) => {
            tools::refused(&tool, &problem, strict)
        }
        error => structured::refused(error, name).about("messages"),
    };
    let name = match (&request.answer, request.tools()) {
        // Alone first: it is no part of the grammar if a call is demanded, and else the tools may be the reason why the
        // grammar is refused.
        (Some(answer), Some(_)) => {
            let grammar = model.grammar(answer);
            grammar.map_err(|error| refused(error, name))?;
            None
        }
        _ => name,
    };
    let prompt = model.prepare_chat(request);
    prompt.map_err(|error| refused(error, name))
}

/// Returns the prompt of a conversation. What its answers must follow is not compiled.
///
/// # Errors
///
/// If the model has no chat template, or the template refuses the conversation.
pub fn prompt(served: &ServedModel, request: &ChatRequest) -> Result<ChatPrompt, ApiError> {
    check_generates(served)?;
    render(&served.model, request)
}

/// Returns the prompt of a conversation as [`prompt`] does, also of a model that is an encoder.
///
/// # Errors
///
/// As [`prompt`].
pub fn render(model: &Model, request: &ChatRequest) -> Result<ChatPrompt, ApiError> {
    let prompt = model.text().render_chat(request);
    prompt.map_err(|error| ApiError::from(Error::from(error)).about("messages"))
}

fn check_generates(served: &ServedModel) -> Result<(), ApiError> {
    if served.model.info().is_encoder {
        let model = served.id.clone();
        return Err(ApiError::from(Error::NotAGenerator { model }).about("model"));
    }
    Ok(())
}
