//! Chats as Anthropic's clients send them.

use serde::Deserialize;
use serde_json::Value;
use wisp_engine::Message;

use super::super::{
    error::ApiError,
    fields::Fields,
    parts,
    sampling::{GenerationParams, stops},
};

/// Fields that this version does not support, each with the values that ask for nothing.
const UNSUPPORTED: &[(&str, &[&str])] = &[
    ("tools", &[]),
    ("tool_choice", &[r#"{"type":"auto"}"#, r#"{"type":"none"}"#]),
    (
        "thinking",
        &[r#"{"type":"disabled"}"#, r#"{"type": "disabled"}"#],
    ),
    ("mcp_servers", &[]),
    ("container", &[]),
    ("output_format", &[]),
    ("output_config", &[]),
];

/// The types of parts that are text.
const TEXT: &[&str] = &["text"];

/// A message as clients send it.
#[derive(Deserialize)]
struct Sent {
    role: String,
    content: Value,
}

/// Reads the system prompt and the messages of a request.
///
/// # Errors
///
/// If there are none, the last is not the user's, or one has a role or a content that the server does not support.
pub fn messages(fields: &Fields) -> Result<Vec<Message>, ApiError> {
    parts::refuse(fields, UNSUPPORTED)?;
    let system: Option<Value> = fields.get("system")?;
    let system = system
        .map(|system| parts::text("system", &system, TEXT))
        .transpose()?;
    let system = system.filter(|system| !system.is_empty());
    let sent: Vec<Sent> = fields.require("messages")?;
    let mut messages: Vec<Message> = Vec::with_capacity(sent.len() + 1);
    messages.extend(system.map(|system| Message::new("system", system)));
    for (at, sent) in sent.iter().enumerate() {
        if !["user", "assistant"].contains(&sent.role.as_str()) {
            let param = format!("messages[{at}].role");
            return Err(ApiError::parameter(
                &param,
                format!("{param} must be user or assistant"),
            ));
        }
        let content = parts::text(&format!("messages[{at}].content"), &sent.content, TEXT)?;
        messages.push(Message::new(&sent.role, content));
    }
    match sent.last() {
        None => Err(ApiError::parameter("messages", "messages is empty")),
        Some(last) if last.role != "user" => {
            let param = format!("messages[{}].role", sent.len() - 1);
            let message = "the last message must be the user's: answers that are begun by the client are not supported";
            Err(ApiError::parameter(param, message).with_code("unsupported_parameter"))
        }
        Some(_) => Ok(messages),
    }
}

/// Reads the parameters of generation.
///
/// # Errors
///
/// If one is missing, has the wrong type, or a value that the server refuses.
pub fn params(fields: &Fields) -> Result<GenerationParams, ApiError> {
    let names = ["temperature", "top_p", "top_k", "stream"];
    let mut params = GenerationParams::of(&fields.only(&names))?;
    let max_tokens: usize = fields.require("max_tokens")?;
    if max_tokens == 0 {
        return Err(ApiError::parameter(
            "max_tokens",
            "max_tokens must be 1 or more",
        ));
    }
    params.options.max_new_tokens = Some(max_tokens);
    params.options.stop = stops(fields, "stop_sequences")?;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> Value {
        let fields = Fields::parse(body.as_bytes()).unwrap();
        let error = messages(&fields)
            .map(drop)
            .and_then(|()| params(&fields).map(drop));
        error.unwrap_err().body()["error"]["param"].clone()
    }

    #[test]
    fn contents_and_system_prompts_are_strings_or_parts_of_text() {
        let body = r#"{"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "c"},
            {"role": "user", "content": [{"type": "text", "text": "d"}, {"type": "text", "text": "e"}]}]}"#;
        let expected = [
            ("system", "a"),
            ("user", "b"),
            ("assistant", "c"),
            ("user", "de"),
        ];
        let expected = expected.map(|(role, text)| Message::new(role, text));
        let fields = Fields::parse(body.as_bytes()).unwrap();
        assert_eq!(messages(&fields).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_or_unsupported_is_named() {
        let hello = r#""messages": [{"role": "user", "content": "a"}]"#;
        for (body, param) in [
            (format!("{{{hello}}}"), "max_tokens"),
            (format!("{{{hello}, \"max_tokens\": 0}}"), "max_tokens"),
            (
                format!("{{{hello}, \"max_tokens\": 5, \"stop_sequences\": [\"\"]}}"),
                "stop_sequences",
            ),
            (
                format!("{{{hello}, \"max_tokens\": 5, \"tools\": [{{\"name\": \"f\"}}]}}"),
                "tools",
            ),
            (
                format!("{{{hello}, \"thinking\": {{\"type\": \"enabled\"}}}}"),
                "thinking",
            ),
            (format!("{{{hello}, \"system\": 5}}"), "system"),
            (r#"{"messages": []}"#.into(), "messages"),
            (
                r#"{"messages": [{"role": "system", "content": "a"}]}"#.into(),
                "messages[0].role",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a"}]}"#.into(),
                "messages[0].role",
            ),
            (r#"{"messages": [{"role": "user"}]}"#.into(), "messages[0]"),
            (
                r#"{"messages": [{"role": "user", "content": [{"type": "image"}]}]}"#.into(),
                "messages[0].content[0].type",
            ),
        ] {
            assert_eq!(error(&body), param, "{body}");
        }
    }
}
