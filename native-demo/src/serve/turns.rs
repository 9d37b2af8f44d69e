//! Earlier turns of the model, the results of its calls and system messages, as chat templates read them.

use serde_json::{Value, json};
use wisp_engine::Message;

/// A turn of the model: its thoughts, then its text, then its calls.
#[derive(Debug, Default)]
pub struct Turn {
    /// The thoughts.
    pub thoughts: Option<String>,
    /// The text.
    pub text: String,
    /// The calls, each as [`call`] returns it.
    pub calls: Vec<Value>,
}

impl Turn {
    /// Returns the turn as a message.
    pub fn message(self) -> Message {
        let mut message = Message::new("assistant", self.text);
        let mut add = |name: &str, value: Value| message.extra.insert(name.into(), value);
        if let Some(thoughts) = self.thoughts {
            add("reasoning_content", thoughts.into());
        }
        if !self.calls.is_empty() {
            add("tool_calls", self.calls.into());
        }
        message
    }
}

/// Returns a call of a tool. The arguments are JSON.
pub fn call(id: Option<String>, name: &str, arguments: &str) -> Value {
    json!({
        "id": id, "type": "function", "function": { "name": name, "arguments": arguments },
    })
}

/// Adds a text of the system. Texts that follow one another are one message, because many templates take no more.
pub fn push_system(text: &str, messages: &mut Vec<Message>) {
    match messages.last_mut() {
        _ if text.is_empty() => {}
        Some(last) if last.role == "system" => {
            last.content += "\n\n";
            last.content += text;
        }
        _ => messages.push(Message::new("system", text)),
    }
}

/// Returns the result of the call with this id.
pub fn result(id: String, text: String) -> Message {
    let mut message = Message::new("tool", text);
    message.extra.insert("tool_call_id".into(), id.into());
    message
}
