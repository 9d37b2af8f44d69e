//! Answers and results as messages of a conversation.

use serde_json::{Value, json};

use crate::chat_template::Message;
use crate::tools::ToolCall;

/// Returns an answer as a message. Its number in the conversation makes the ids of its calls unique.
pub fn answer_message(text: &str, reasoning: &str, calls: &[ToolCall], number: usize) -> Message {
    let mut message = Message::new("assistant", text);
    if !reasoning.is_empty() {
        let field = "reasoning_content".to_owned();
        message.extra.insert(field, reasoning.into());
    }
    if !calls.is_empty() {
        let call = |(index, call): (usize, &ToolCall)| {
            json!({
                "id": format!("call_{number:06}{index:03}"),
                "type": "function",
                "function": { "name": call.name, "arguments": call.arguments },
            })
        };
        let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
        message.extra.insert("tool_calls".into(), calls.into());
    }
    message
}

/// Returns the results of an answer's calls, in their order, as messages. Further results are left out.
pub fn result_messages(
    answer: &Message,
    results: impl IntoIterator<Item = String>,
) -> Vec<Message> {
    let calls = answer.extra.get("tool_calls").and_then(Value::as_array);
    let calls = calls.into_iter().flatten();
    let messages = results.into_iter().zip(calls).map(|(result, call)| {
        let mut message = Message::new("tool", result);
        let id = call["id"].clone();
        message.extra.insert("tool_call_id".into(), id);
        message
    });
    messages.collect()
}
