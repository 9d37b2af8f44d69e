//! The messages of a chat.

use serde::Deserialize;
use serde_json::Value;
use wisp_engine::Message;

use super::{
    error::ApiError,
    fields::Fields,
    parts,
    turns::{self, Turn},
};

/// A message as clients send it.
#[derive(Deserialize)]
struct Sent {
    role: String,
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<SentCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    function_call: Option<Value>,
    /// The thoughts of an earlier answer.
    #[serde(default)]
    reasoning_content: Option<String>,
    /// Their name at other servers. Some clients send both.
    #[serde(default)]
    reasoning: Option<String>,
}

/// A call of a tool in an earlier answer.
#[derive(Deserialize)]
struct SentCall {
    #[serde(default)]
    id: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    function: SentFunction,
}

#[derive(Deserialize)]
struct SentFunction {
    name: String,
    arguments: String,
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
        role @ ("system" | "user" | "assistant" | "tool") => role,
        // What newer models of OpenAI call the system message.
        "developer" => "system",
        "function" => {
            let message = "a message of role function is not supported by this version: use tools";
            let error = ApiError::parameter(format!("messages[{at}].role"), message);
            return Err(error.with_code("unsupported_parameter"));
        }
        _ => {
            let message = "the role must be system, developer, user, assistant or tool";
            return Err(ApiError::parameter(format!("messages[{at}].role"), message));
        }
    };
    if sent.function_call.is_some() {
        let param = format!("messages[{at}].function_call");
        return Err(ApiError::unsupported(param));
    }
    let calls = sent.tool_calls.filter(|calls| !calls.is_empty());
    if calls.is_some() && role != "assistant" {
        let param = format!("messages[{at}].tool_calls");
        let message = format!("{param}: only a message of the assistant has calls");
        return Err(ApiError::parameter(param, message));
    }
    let param = format!("messages[{at}].content");
    let content = match sent.content {
        // An answer of calls or thoughts alone, or of nothing.
        None if role == "assistant" => String::new(),
        content => parts::text(&param, &content.unwrap_or_default(), &["text"])?,
    };
    match role {
        "assistant" => {
            let turn = Turn {
                thoughts: sent.reasoning_content.or(sent.reasoning),
                text: content,
                calls: self::calls(at, calls.unwrap_or_default())?,
            };
            Ok(turn.message())
        }
        "tool" => {
            let param = format!("messages[{at}].tool_call_id");
            let missing = || ApiError::parameter(&param, format!("{param} is missing"));
            let mut message = turns::result(sent.tool_call_id.ok_or_else(missing)?, content);
            let name = sent.name.map(|name| ("name".into(), name.into()));
            message.extra.extend(name);
            Ok(message)
        }
        _ => Ok(Message::new(role, content)),
    }
}

/// Returns the calls of an answer as templates read them.
fn calls(at: usize, calls: Vec<SentCall>) -> Result<Vec<Value>, ApiError> {
    let calls = calls.into_iter().enumerate().map(|(number, call)| {
        let param = format!("messages[{at}].tool_calls[{number}]");
        if let Some(kind) = call.kind.filter(|kind| kind != "function") {
            let message = format!("a call of type {kind} is not supported by this version");
            let error = ApiError::parameter(format!("{param}.type"), message);
            return Err(error.with_code("unsupported_parameter"));
        }
        let function = call.function;
        Ok(turns::call(call.id, &function.name, &function.arguments))
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn calls_and_results_are_read() {
        let messages = r#"[
            {"role": "assistant", "content": null, "reasoning": "hm", "refusal": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "5"}]}]"#;
        let read = read(messages).unwrap();
        let calls = json!([{
            "id": "call_1", "type": "function", "function": { "name": "f", "arguments": "{}" },
        }]);
        assert_eq!(read[0].extra["tool_calls"], calls);
        assert_eq!(read[0].extra["reasoning_content"], "hm");
        assert_eq!((&*read[0].content, &*read[1].content), ("", "5"));
        assert_eq!(read[1].extra["tool_call_id"], "call_1");
    }

    #[test]
    fn thoughts_may_have_both_names_and_answers_no_content() {
        let messages = r#"[
            {"role": "assistant", "content": "a", "reasoning": "hm", "reasoning_content": "hm"},
            {"role": "assistant", "content": null}]"#;
        let read = read(messages).unwrap();
        assert_eq!(read[0].extra["reasoning_content"], "hm");
        assert_eq!(read[1], Message::new("assistant", ""));
    }

    #[test]
    fn unsupported_messages_are_named() {
        for (messages, param) in [
            ("[]", "messages"),
            (r#"[{"role": "user"}]"#, "messages[0].content"),
            (r#"[{"role": "user", "content": 5}]"#, "messages[0].content"),
            (r#"[{"content": "a"}]"#, "messages[0]"),
            (r#"[{"role": "king", "content": "a"}]"#, "messages[0].role"),
            (
                r#"[{"role": "function", "content": "a"}]"#,
                "messages[0].role",
            ),
            (
                r#"[{"role": "tool", "content": "a"}]"#,
                "messages[0].tool_call_id",
            ),
            (
                r#"[{"role": "user", "content": "a", "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}]"#,
                "messages[0].tool_calls",
            ),
            (
                r#"[{"role": "assistant", "function_call": {"name": "f"}}]"#,
                "messages[0].function_call",
            ),
            (
                r#"[{"role": "assistant", "tool_calls": [{"type": "custom", "function": {"name": "f", "arguments": ""}}]}]"#,
                "messages[0].tool_calls[0].type",
            ),
            (
                r#"[{"role": "user", "content": [{"type": "image_url"}]}]"#,
                "messages[0].content[0].type",
            ),
            (
                r#"[{"role": "user", "content": [{"type": "text"}]}]"#,
                "messages[0].content[0].text",
            ),
            (
                r#"[{"role": "assistant", "content": "", "tool_calls": [1]}]"#,
                "messages[0].tool_calls[0]",
            ),
        ] {
            let error = read(messages).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{error}");
        }
    }
}
