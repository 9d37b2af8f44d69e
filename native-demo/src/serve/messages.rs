//! The messages of a chat.

use serde::Deserialize;
use serde_json::Value;
use wisp_engine::Message;

use super::{error::ApiError, fields::Fields};

/// A message as clients send it.
#[derive(Deserialize)]
struct Sent {
    role: String,
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    tool_calls: Option<Value>,
}

/// Reads the messages of a request.
///
/// # Errors
///
/// If there are none, or one has a role, a content or tool calls that the server does not support.
pub fn of(fields: &Fields) -> Result<Vec<Message>, ApiError> {
    let sent: Vec<Sent> = fields.require("messages")?;
    if sent.is_empty() {
        return Err(ApiError::parameter("messages", "messages is empty"));
    }
    sent.into_iter().enumerate().map(message).collect()
}

fn message((at, sent): (usize, Sent)) -> Result<Message, ApiError> {
    let role = match sent.role.as_str() {
        role @ ("system" | "user" | "assistant") => role,
        // What newer models of OpenAI call the system message.
        "developer" => "system",
        "tool" | "function" => {
            let message = format!(
                "a message of role {} is not supported by this version",
                sent.role
            );
            let error = ApiError::parameter(format!("messages[{at}].role"), message);
            return Err(error.with_code("unsupported_parameter"));
        }
        _ => {
            let message = "the role must be system, developer, user or assistant";
            return Err(ApiError::parameter(format!("messages[{at}].role"), message));
        }
    };
    let calls = sent
        .tool_calls
        .filter(|calls| calls != &Value::Array(Vec::new()));
    if calls.is_some_and(|calls| !calls.is_null()) {
        return Err(ApiError::unsupported(format!("messages[{at}].tool_calls")));
    }
    let param = format!("messages[{at}].content");
    Ok(Message::new(role, text(&param, sent.content)?))
}

/// Returns a content's text: a string, or a list of parts of text.
fn text(param: &str, content: Option<Value>) -> Result<String, ApiError> {
    let wrong = |param: &str| {
        let message = format!("{param} must be a string or a list of parts of type text");
        ApiError::parameter(param, message)
    };
    match content {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Array(parts)) => {
            let mut whole = String::new();
            for (at, part) in parts.iter().enumerate() {
                let param = format!("{param}[{at}]");
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text"), Some(text)) => whole += text,
                    (Some("text") | None, _) => return Err(wrong(&param)),
                    (Some(kind), _) => {
                        let message =
                            format!("a part of type {kind} is not supported by this version");
                        let error = ApiError::parameter(format!("{param}.type"), message);
                        return Err(error.with_code("unsupported_parameter"));
                    }
                }
            }
            Ok(whole)
        }
        _ => Err(wrong(param)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(messages: &str) -> Result<Vec<Message>, ApiError> {
        let body = format!("{{\"messages\": {messages}}}");
        of(&Fields::parse(body.as_bytes()).unwrap())
    }

    #[test]
    fn contents_are_strings_or_parts_of_text() {
        let messages = r#"[{"role": "developer", "content": "a"}, {"role": "user", "name": "x",
            "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}]"#;
        let expected = [Message::new("system", "a"), Message::new("user", "bc")];
        assert_eq!(read(messages).unwrap(), expected);
    }

    #[test]
    fn unsupported_messages_are_named() {
        for (messages, param) in [
            ("[]", "messages"),
            (r#"[{"role": "user"}]"#, "messages[0].content"),
            (r#"[{"role": "user", "content": 5}]"#, "messages[0].content"),
            (r#"[{"content": "a"}]"#, "messages[0]"),
            (r#"[{"role": "king", "content": "a"}]"#, "messages[0].role"),
            (r#"[{"role": "tool", "content": "a"}]"#, "messages[0].role"),
            (
                r#"[{"role": "user", "content": [{"type": "image_url"}]}]"#,
                "messages[0].content[0].type",
            ),
            (
                r#"[{"role": "user", "content": [{"type": "text"}]}]"#,
                "messages[0].content[0]",
            ),
            (
                r#"[{"role": "assistant", "content": "", "tool_calls": [1]}]"#,
                "messages[0].tool_calls",
            ),
        ] {
            let error = read(messages).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{error}");
        }
    }
}
