//! The messages of a chat.

use std::collections::VecDeque;

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
    /// JSON as a text, or as it is.
    arguments: Value,
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
    let mut pending = VecDeque::new();
    let messages = sent.into_iter().enumerate();
    let messages = messages.map(|(at, sent)| message(at, sent, &mut pending));
    messages.collect()
}

/// Reads a message. `pending` has the ids of the last calls that no result has answered yet.
fn message(
    at: usize,
    sent: Sent,
    pending: &mut VecDeque<Option<String>>,
) -> Result<Message, ApiError> {
    let role = match sent.role.as_str() {
        role @ ("system" | "user" | "assistant" | "tool") => role,
        // What newer models of OpenAI call the system message.
        "developer" => "system",
        "function" => {
            let message = "a message of role function is not supported by this version: use tools";
            let param = format!("messages[{at}].role");
            return Err(ApiError::unsupported_value(param, message));
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
        // An answer of calls or thoughts alone, or of nothing; a tool that returns nothing.
        None if matches!(role, "assistant" | "tool") => String::new(),
        content => parts::text(&param, &content.unwrap_or_default(), &["text"])?,
    };
    match role {
        "assistant" => {
            let calls = calls.unwrap_or_default();
            *pending = calls.iter().map(|call| call.id.clone()).collect();
            let turn = Turn {
                thoughts: sent.reasoning_content.or(sent.reasoning),
                text: content,
                calls: self::calls(at, calls)?,
            };
            Ok(turn.message())
        }
        "tool" => {
            let id = answered(pending, sent.tool_call_id);
            let missing = || ApiError::missing(format!("messages[{at}].tool_call_id"));
            let mut message = match id.ok_or_else(missing)? {
                Some(id) => turns::result(id, content),
                None => Message::new("tool", content),
            };
            let name = sent.name.map(|name| ("name".into(), name.into()));
            message.extra.extend(name);
            Ok(message)
        }
        _ => Ok(Message::new(role, content)),
    }
}

/// Returns the id of the call that a result answers, if the call has one: the client's, or else that of the first call
/// without a result, since some agents leave it out. `None` if there is no such call.
fn answered(
    pending: &mut VecDeque<Option<String>>,
    sent: Option<String>,
) -> Option<Option<String>> {
    if sent.is_none() {
        return pending.pop_front();
    }
    if let Some(found) = pending.iter().position(|id| *id == sent) {
        pending.remove(found);
    }
    Some(sent)
}

/// Returns the calls of an answer as templates read them.
fn calls(at: usize, calls: Vec<SentCall>) -> Result<Vec<Value>, ApiError> {
    let calls = calls.into_iter().enumerate().map(|(number, call)| {
        let param = format!("messages[{at}].tool_calls[{number}]");
        if let Some(kind) = call.kind.filter(|kind| kind != "function") {
            let message = format!("a call of type {kind} is not supported by this version");
            let param = format!("{param}.type");
            return Err(ApiError::unsupported_value(param, message));
        }
        let function = call.function;
        let arguments = match function.arguments {
            Value::String(json) => json,
            arguments @ Value::Object(_) => arguments.to_string(),
            _ => {
                let param = format!("{param}.function.arguments");
                let message = format!("{param} must be a string or an object");
                return Err(ApiError::parameter(param, message));
            }
        };
        Ok(turns::call(call.id, &function.name, &arguments))
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
        let expected = [Message::new("system", "a"), Message::new("user", "b\nc")];
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
    fn arguments_may_be_objects_and_results_empty() {
        let messages = r#"[
            {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]},
            {"role": "tool", "tool_call_id": "a", "content": null}]"#;
        let read = read(messages).unwrap();
        let call = &read[0].extra["tool_calls"][0];
        assert_eq!(call["function"]["arguments"], r#"{"x":1}"#);
        assert_eq!((&*read[1].role, &*read[1].content), ("tool", ""));
    }

    #[test]
    fn results_without_an_id_answer_the_pending_calls_in_their_order() {
        let messages = r#"[
            {"role": "assistant", "tool_calls": [
                {"id": "a", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "function": {"name": "f", "arguments": "{}"}},
                {"function": {"name": "f", "arguments": "{}"}},
                {"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "b", "content": "1"},
            {"role": "tool", "content": "2"},
            {"role": "tool", "content": "3"},
            {"role": "tool", "content": "4"}]"#;
        let read = read(messages).unwrap();
        let ids = read[1..].iter().map(|result| {
            let id = result.extra.get("tool_call_id");
            id.and_then(Value::as_str)
        });
        let expected = [Some("b"), Some("a"), None, Some("c")];
        assert_eq!(ids.collect::<Vec<_>>(), expected);
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
            (
                r#"[{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}]"#,
                "messages[0].tool_calls[0].function.arguments",
            ),
            (
                r#"[{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": ""}}]},
                    {"role": "tool", "content": "a"}, {"role": "tool", "content": "b"}]"#,
                "messages[2].tool_call_id",
            ),
        ] {
            let error = read(messages).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{error}");
        }
    }
}
