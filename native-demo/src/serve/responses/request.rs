//! Requests for responses as OpenAI's clients send them.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wisp_engine::Message;

use super::super::{error::ApiError, fields::Fields, parts, sampling::GenerationParams};

/// Fields that this version does not support, each with the values that ask for nothing.
const UNSUPPORTED: &[(&str, &[&str])] = &[
    ("previous_response_id", &[]),
    ("conversation", &[]),
    ("store", &["false"]),
    ("background", &["false"]),
    ("tools", &[]),
    ("tool_choice", &["\"auto\"", "\"none\""]),
    ("prompt", &[]),
    ("reasoning", &[]),
    ("include", &[]),
    ("top_logprobs", &["0"]),
    ("truncation", &["\"disabled\""]),
    ("modalities", &["[\"text\"]"]),
];

/// The types of parts that are text: of the client's messages and of answers.
const TEXT: &[&str] = &["input_text", "output_text"];

/// The most entries of `metadata`.
const MAX_METADATA: usize = 16;

/// An item of the input as clients send it.
#[derive(Deserialize)]
struct Sent {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Option<Value>,
}

/// Reads the instructions and the input of a request.
///
/// # Errors
///
/// If there is no input, or an item of it is not supported.
pub fn messages(fields: &Fields) -> Result<Vec<Message>, ApiError> {
    parts::refuse(fields, UNSUPPORTED)?;
    check_format(fields)?;
    let instructions: Option<String> = fields.get("instructions")?;
    let instructions = instructions.filter(|text| !text.is_empty());
    let mut messages: Vec<Message> = Vec::new();
    messages.extend(instructions.map(|text| Message::new("system", text)));
    let missing = || ApiError::parameter("input", "input is missing");
    if fields.raw("input").ok_or_else(missing)?.starts_with('"') {
        let text: String = fields.require("input")?;
        messages.push(Message::new("user", text));
        return Ok(messages);
    }
    let items: Vec<Sent> = fields.require("input")?;
    if items.is_empty() {
        return Err(ApiError::parameter("input", "input is empty"));
    }
    for (at, item) in items.into_iter().enumerate() {
        messages.push(message(at, item)?);
    }
    Ok(messages)
}

fn message(at: usize, item: Sent) -> Result<Message, ApiError> {
    if let Some(kind) = item.kind.filter(|kind| kind != "message") {
        let message = format!("an item of type {kind} is not supported by this version");
        let error = ApiError::parameter(format!("input[{at}].type"), message);
        return Err(error.with_code("unsupported_parameter"));
    }
    let role = match item.role.as_deref() {
        Some(role @ ("system" | "user" | "assistant")) => role,
        Some("developer") => "system",
        _ => {
            let message = "the role must be system, developer, user or assistant";
            return Err(ApiError::parameter(format!("input[{at}].role"), message));
        }
    };
    let param = format!("input[{at}].content");
    let content = parts::text(&param, &item.content.unwrap_or_default(), TEXT)?;
    Ok(Message::new(role, content))
}

/// Refuses formats of text other than plain text.
fn check_format(fields: &Fields) -> Result<(), ApiError> {
    let text: Option<Value> = fields.get("text")?;
    let format = text.as_ref().map_or(&Value::Null, |text| &text["format"]);
    match format.is_null() || format["type"] == "text" {
        true => Ok(()),
        false => Err(ApiError::unsupported("text.format")),
    }
}

/// Reads the parameters of generation.
///
/// # Errors
///
/// If one has the wrong type, or a value that the server refuses.
pub fn params(fields: &Fields) -> Result<GenerationParams, ApiError> {
    let names = ["temperature", "top_p", "stream"];
    let mut params = GenerationParams::of(&fields.only(&names))?;
    params.options.max_new_tokens = fields.get("max_output_tokens")?;
    if params.options.max_new_tokens == Some(0) {
        let message = "max_output_tokens must be 1 or more";
        return Err(ApiError::parameter("max_output_tokens", message));
    }
    Ok(params)
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
    Ok(json!({
        "instructions": fields.get::<String>("instructions")?,
        "max_output_tokens": params.options.max_new_tokens,
        "metadata": metadata,
        "parallel_tool_calls": fields.get_or("parallel_tool_calls", true)?,
        "previous_response_id": null,
        "reasoning": { "effort": null, "summary": null },
        "store": false,
        "temperature": sampling.temperature,
        "text": { "format": { "type": "text" } },
        "tool_choice": "auto",
        "tools": [],
        "top_p": sampling.top_p,
        "truncation": "disabled",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_a_text_or_messages() {
        let read = |body: &str| messages(&Fields::parse(body.as_bytes()).unwrap()).unwrap();
        let expected = [Message::new("system", "a"), Message::new("user", "b")];
        assert_eq!(
            read(r#"{"instructions": "a", "input": "b", "store": false}"#),
            expected
        );
        let body = r#"{"input": [{"role": "developer", "content": "a"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "b"}]}]}"#;
        assert_eq!(read(body), expected);
    }

    #[test]
    fn what_is_wrong_or_unsupported_is_named() {
        for (body, param) in [
            ("{}", "input"),
            (r#"{"input": 5}"#, "input"),
            (r#"{"input": []}"#, "input"),
            (r#"{"input": "a", "store": true}"#, "store"),
            (
                r#"{"input": "a", "previous_response_id": "resp_1"}"#,
                "previous_response_id",
            ),
            (
                r#"{"input": "a", "tools": [{"type": "web_search"}]}"#,
                "tools",
            ),
            (
                r#"{"input": "a", "text": {"format": {"type": "json_object"}}}"#,
                "text.format",
            ),
            (
                r#"{"input": "a", "max_output_tokens": 0}"#,
                "max_output_tokens",
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
            let error = messages(&fields)
                .map(drop)
                .and_then(|()| params(&fields).map(drop));
            let error = error.unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{body}: {error}");
        }
    }
}
