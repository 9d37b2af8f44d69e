//! Requests for responses as OpenAI's clients send them.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wisp_engine::{
    Message, SamplingDefaults,
    chat::{ChatRequest, ReasoningEffort},
    pipelines::log_probabilities::MAX_TOP,
};

use super::super::{
    error::ApiError,
    fields::Fields,
    parts,
    sampling::{GenerationParams, OF_ALL_CHATS, max_tokens},
    tools::{self, Interface},
    turns::{self, Turn},
};

/// The types of parts that are text: of the client's messages and of answers.
const TEXT: &[&str] = &["input_text", "output_text"];

/// What may be included: log-probabilities, and thoughts, which are in the answer as they are.
const LOG_PROBS: &str = "message.output_text.logprobs";
const THOUGHTS: &str = "reasoning.encrypted_content";

/// The most entries of `metadata`.
const MAX_METADATA: usize = 16;

/// An item of the input as clients send it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Sent {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Value,
    summary: Value,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Value,
}

/// What is said of thoughts, as clients send it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Reasoning {
    effort: Option<ReasoningEffort>,
    summary: Option<String>,
}

/// Reads what a request asks of the model: its instructions, input, tools and thoughts.
///
/// # Errors
///
/// If there is no input, an item of it is not supported, or a tool is invalid.
pub fn chat(fields: &Fields) -> Result<ChatRequest, ApiError> {
    // No response is kept, whatever the client asks for: the response says so.
    fields.get::<bool>("store")?;
    let mut request = ChatRequest::new(messages(fields)?);
    let reasoning = fields.get_or("reasoning", Reasoning::default())?;
    if let Some(effort) = reasoning.effort {
        request.set_effort(effort);
    }
    // Thoughts are not summarised: they are in the answer as they are.
    let summaries = [None, Some("auto"), Some("concise"), Some("detailed")];
    if !summaries.contains(&reasoning.summary.as_deref()) {
        let message = "reasoning.summary must be auto, concise or detailed";
        return Err(ApiError::parameter("reasoning.summary", message));
    }
    tools::offer(request, fields, Interface::Responses)
}

fn messages(fields: &Fields) -> Result<Vec<Message>, ApiError> {
    let instructions: Option<String> = fields.get("instructions")?;
    let mut messages: Vec<Message> = Vec::new();
    turns::push_system(&instructions.unwrap_or_default(), &mut messages);
    let missing = || ApiError::missing("input");
    if fields.raw("input").ok_or_else(missing)?.starts_with('"') {
        let text: String = fields.require("input")?;
        messages.push(Message::new("user", text));
        return Ok(messages);
    }
    let items: Vec<Sent> = fields.require("input")?;
    if items.is_empty() {
        return Err(ApiError::parameter("input", "input is empty"));
    }
    // Thoughts, a message and calls that follow one another are one turn of the model.
    let mut turn: Option<Turn> = None;
    for (at, item) in items.into_iter().enumerate() {
        let param = format!("input[{at}]");
        let is_own = match item.kind.as_deref() {
            Some("reasoning" | "function_call") => true,
            None | Some("message") => item.role.as_deref() == Some("assistant"),
            Some(_) => false,
        };
        if is_own {
            add_to_turn(&param, item, &mut turn, &mut messages)?;
        } else {
            messages.extend(turn.take().map(Turn::message));
            let message = other(&param, item)?;
            match message.role == "system" {
                true => turns::push_system(&message.content, &mut messages),
                false => messages.push(message),
            }
        }
    }
    messages.extend(turn.map(Turn::message));
    Ok(messages)
}

/// Adds an item of the model to its turn. A turn that can have no such item any more becomes a message.
fn add_to_turn(
    param: &str,
    item: Sent,
    turn: &mut Option<Turn>,
    messages: &mut Vec<Message>,
) -> Result<(), ApiError> {
    if item.kind.as_deref() == Some("function_call") {
        let call = turns::call(
            Some(required(param, "call_id", item.call_id)?),
            &required(param, "name", item.name)?,
            &required(param, "arguments", item.arguments)?,
        );
        turn.get_or_insert_default().calls.push(call);
        return Ok(());
    }
    let is_past = |turn: &mut Turn| !turn.text.is_empty() || !turn.calls.is_empty();
    messages.extend(turn.take_if(is_past).map(Turn::message));
    let turn = turn.get_or_insert_default();
    if item.kind.as_deref() != Some("reasoning") {
        turn.text = parts::text(&format!("{param}.content"), &item.content, TEXT)?;
        return Ok(());
    }
    let thoughts = match (&item.content, &item.summary) {
        (Value::Null, Value::Null) => String::new(),
        (Value::Null, summary) => {
            parts::text(&format!("{param}.summary"), summary, &["summary_text"])?
        }
        (content, _) => parts::text(&format!("{param}.content"), content, &["reasoning_text"])?,
    };
    parts::push(turn.thoughts.get_or_insert_default(), &thoughts);
    Ok(())
}

/// Reads an item that is not the model's.
fn other(param: &str, item: Sent) -> Result<Message, ApiError> {
    match item.kind.as_deref() {
        None | Some("message") => {}
        Some("function_call_output") => {
            let id = required(param, "call_id", item.call_id)?;
            let output = parts::text(&format!("{param}.output"), &item.output, TEXT)?;
            return Ok(turns::result(id, output));
        }
        Some(kind) => {
            let message = format!("an item of type {kind} is not supported by this version");
            let param = format!("{param}.type");
            return Err(ApiError::unsupported_value(param, message));
        }
    }
    let role = match item.role.as_deref() {
        Some(role @ ("system" | "user")) => role,
        Some("developer") => "system",
        _ => {
            let message = "the role must be system, developer, user or assistant";
            return Err(ApiError::parameter(format!("{param}.role"), message));
        }
    };
    let content = parts::text(&format!("{param}.content"), &item.content, TEXT)?;
    Ok(Message::new(role, content))
}

fn required(param: &str, name: &str, value: Option<String>) -> Result<String, ApiError> {
    value.ok_or_else(|| ApiError::missing(format!("{param}.{name}")))
}

/// Reads the parameters of generation.
///
/// # Errors
///
/// If one has the wrong type, or a value that the server refuses.
pub fn params(fields: &Fields, defaults: &SamplingDefaults) -> Result<GenerationParams, ApiError> {
    let names = [OF_ALL_CHATS, &["stop"]].concat();
    let mut params = GenerationParams::of(&fields.only(&names), defaults)?;
    params.options.max_new_tokens = max_tokens(fields, &["max_output_tokens"], None)?;
    if params.options.max_new_tokens == Some(0) {
        let message = "max_output_tokens must be 1 or more";
        return Err(ApiError::parameter("max_output_tokens", message));
    }
    params.options.sampling.log_probs = log_probs(fields)?;
    Ok(params)
}

/// Reads how many of the most likely tokens come with each token; `None` if not even its own log-probability does.
fn log_probs(fields: &Fields) -> Result<Option<u32>, ApiError> {
    let included: Vec<String> = fields.get_or("include", Vec::new())?;
    let is_known = |name: &&String| ![LOG_PROBS, THOUGHTS].contains(&name.as_str());
    if let Some(name) = included.iter().find(is_known) {
        let message = format!("include: {name:?} is not supported by this version");
        return Err(ApiError::unsupported_value("include", message));
    }
    let top: u32 = fields.get_or("top_logprobs", 0)?;
    if top > MAX_TOP {
        let message = format!("top_logprobs is {top}, but must be from 0 to {MAX_TOP}");
        return Err(ApiError::parameter("top_logprobs", message));
    }
    let is_wanted = top > 0 || included.iter().any(|name| name == LOG_PROBS);
    Ok(is_wanted.then_some(top))
}

/// Returns the fields of a response that repeat the request.
///
/// # Errors
///
/// If one has the wrong type.
pub fn echoed(fields: &Fields, params: &GenerationParams) -> Result<Value, ApiError> {
    let metadata: Map<String, Value> = fields.get_or("metadata", Map::new())?;
    if metadata.len() > MAX_METADATA {
        let message = format!("metadata has more than {MAX_METADATA} entries");
        return Err(ApiError::parameter("metadata", message));
    }
    let sampling = &params.options.sampling;
    let reasoning = fields.get_or("reasoning", Reasoning::default())?;
    let text: Map<String, Value> = fields.get_or("text", Map::new())?;
    let format = text.get("format").filter(|format| !format.is_null());
    let mut tools: Vec<Value> = fields.get_or("tools", Vec::new())?;
    // The others are left out.
    tools.retain(|tool| tool["type"] == "function");
    Ok(json!({
        "instructions": fields.get::<String>("instructions")?,
        "max_output_tokens": params.options.max_new_tokens,
        "metadata": metadata,
        "parallel_tool_calls": fields.get_or("parallel_tool_calls", true)?,
        "previous_response_id": null,
        "reasoning": { "effort": reasoning.effort, "summary": reasoning.summary },
        "store": false,
        "temperature": sampling.temperature,
        "text": { "format": format.cloned().unwrap_or_else(|| json!({ "type": "text" })) },
        "tool_choice": fields.get_or("tool_choice", json!("auto"))?,
        "tools": tools,
        "top_logprobs": sampling.log_probs.unwrap_or(0),
        "top_p": sampling.top_p,
        "truncation": "disabled",
    }))
}

#[cfg(test)]
mod tests {
    use wisp_engine::tools::ToolChoice;

    use super::*;

    fn read(body: &str) -> ChatRequest {
        chat(&Fields::parse(body.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn input_is_a_text_or_messages() {
        let read = |body: &str| read(body).messages;
        let expected = [Message::new("system", "a"), Message::new("user", "b")];
        assert_eq!(
            read(r#"{"instructions": "a", "input": "b", "store": true}"#),
            expected
        );
        let body = r#"{"input": [{"role": "developer", "content": "a"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "b"}]}]}"#;
        assert_eq!(read(body), expected);
    }

    #[test]
    fn parameters_of_chat_completions_are_honoured() {
        let body = r#"{"input": "a", "seed": 7, "top_k": 5, "stop": "b", "max_output_tokens": -1}"#;
        let fields = Fields::parse(body.as_bytes()).unwrap();
        let params = params(&fields, &SamplingDefaults::default()).unwrap();
        let sampling = &params.options.sampling;
        assert_eq!((sampling.seed, sampling.top_k), (7, 5));
        assert_eq!(params.options.stop, ["b"]);
        assert_eq!(params.options.max_new_tokens, None);
        let response = echoed(&fields, &params).unwrap();
        assert_eq!(response["max_output_tokens"], Value::Null);
        assert_eq!(response["store"], false);
    }

    #[test]
    fn texts_of_the_system_that_follow_one_another_are_one_message() {
        let body = r#"{"instructions": "a", "input": [{"role": "developer", "content": "b"},
            {"role": "user", "content": "c"}, {"role": "system", "content": "d"}]}"#;
        let expected = [
            Message::new("system", "a\n\nb"),
            Message::new("user", "c"),
            Message::new("system", "d"),
        ];
        assert_eq!(read(body).messages, expected);
    }

    #[test]
    fn tools_that_are_no_functions_are_left_out() {
        let other = r#"{"type": "web_search"}, {"type": "custom", "name": "g", "format": {"type": "text"}}"#;
        let body = |tools: &str| format!(r#"{{"input": "a", "tools": [{tools}]}}"#);
        assert!(read(&body(other)).tools().is_none());
        let body = body(&format!(r#"{other}, {{"type": "function", "name": "f"}}"#));
        let request = read(&body);
        let tools = request.tools().unwrap().iter();
        assert_eq!(tools.map(|tool| tool.name()).collect::<Vec<_>>(), ["f"]);
        let fields = Fields::parse(body.as_bytes()).unwrap();
        let response = echoed(
            &fields,
            &params(&fields, &SamplingDefaults::default()).unwrap(),
        )
        .unwrap();
        assert_eq!(
            response["tools"],
            json!([{ "type": "function", "name": "f" }])
        );
    }

    #[test]
    fn items_of_the_model_are_its_turns() {
        let body = r#"{"input": [{"role": "user", "content": "a"},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
            {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}", "status": "completed"},
            {"type": "function_call", "call_id": "call_2", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "c"},
            {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "d"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
            {"type": "function_call", "call_id": "call_3", "name": "f", "arguments": "{}"},
            {"role": "assistant", "content": "e"}]}"#;
        let call = |id: &str, name: &str| turns::call(Some(id.into()), name, "{}");
        let turn = |thoughts: Option<&str>, text: &str, calls: Vec<Value>| Turn {
            thoughts: thoughts.map(Into::into),
            text: text.into(),
            calls,
        };
        let calls = vec![call("call_1", "f"), call("call_2", "g")];
        let expected = [
            Message::new("user", "a"),
            turn(Some("hm"), "b", calls).message(),
            turns::result("call_1".into(), "c".into()),
            turns::result("call_2".into(), "d".into()),
            turn(Some("so"), "", vec![call("call_3", "f")]).message(),
            turn(None, "e", Vec::new()).message(),
        ];
        assert_eq!(read(body).messages, expected);
    }

    #[test]
    fn tools_and_efforts_are_read() {
        let body = r#"{"input": "a", "tools": [{"type": "function", "name": "f", "strict": true}],
            "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false,
            "reasoning": {"effort": "none", "summary": "detailed"}}"#;
        let request = read(body);
        assert_eq!(*request.tool_choice(), ToolChoice::Function("f".into()));
        assert!(!request.parallel_calls());
        assert_eq!(request.thinking, Some(false));
        let request = read(r#"{"input": "a", "reasoning": {"effort": "low"}}"#);
        assert_eq!(request.thinking, Some(true));
        assert_eq!(request.variables["reasoning_effort"], "low");
    }

    #[test]
    fn what_is_wrong_or_unsupported_is_named() {
        for (body, param) in [
            ("{}", "input"),
            (r#"{"input": 5}"#, "input"),
            (r#"{"input": []}"#, "input"),
            (r#"{"input": "a", "store": "always"}"#, "store"),
            (
                r#"{"input": "a", "tools": [{"type": "web_search"}], "tool_choice": "required"}"#,
                "tool_choice",
            ),
            (
                r#"{"input": "a", "tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}"#,
                "tool_choice.type",
            ),
            (
                r#"{"input": "a", "tools": [{"type": "web_search"}, {"name": "f"}]}"#,
                "tools[1].type",
            ),
            (
                r#"{"input": "a", "tools": [{"type": "function"}]}"#,
                "tools[0].name",
            ),
            (
                r#"{"input": "a", "tools": [{"type": "function", "name": "f", "parameters": 5}]}"#,
                "tools[0].parameters",
            ),
            (
                r#"{"input": "a", "tool_choice": {"type": "function"}}"#,
                "tool_choice.name",
            ),
            (
                r#"{"input": "a", "reasoning": {"effort": "huge"}}"#,
                "reasoning.effort",
            ),
            (
                r#"{"input": "a", "reasoning": {"summary": "brief"}}"#,
                "reasoning.summary",
            ),
            (
                r#"{"input": [{"type": "function_call", "name": "f", "arguments": ""}]}"#,
                "input[0].call_id",
            ),
            (
                r#"{"input": [{"type": "function_call_output", "call_id": "a"}]}"#,
                "input[0].output",
            ),
            (
                r#"{"input": "a", "max_output_tokens": 0}"#,
                "max_output_tokens",
            ),
            (
                r#"{"input": "a", "max_output_tokens": -2}"#,
                "max_output_tokens",
            ),
            (
                r#"{"input": "a", "include": ["file_search_call.results"]}"#,
                "include",
            ),
            (
                r#"{"input": "a", "include": ["message.output_text.logprobs"], "top_logprobs": 21}"#,
                "top_logprobs",
            ),
            (
                r#"{"input": [{"type": "item_reference", "id": "a"}]}"#,
                "input[0].type",
            ),
            (
                r#"{"input": [{"role": "tool", "content": "a"}]}"#,
                "input[0].role",
            ),
            (r#"{"input": [{"role": "user"}]}"#, "input[0].content"),
            (
                r#"{"input": [{"role": "user", "content": [{"type": "input_image"}]}]}"#,
                "input[0].content[0].type",
            ),
        ] {
            let fields = Fields::parse(body.as_bytes()).unwrap();
            let error = chat(&fields)
                .map(drop)
                .and_then(|()| params(&fields, &SamplingDefaults::default()).map(drop));
            let error = error.unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{body}: {error}");
        }
    }
}
