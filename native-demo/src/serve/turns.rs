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

/// Puts texts of the system into one message in front of all others: many templates take no other system message.
pub fn put_system_first(mut texts: Vec<String>, messages: &mut Vec<Message>) {
    texts.retain(|text| !text.is_empty());
    if !texts.is_empty() {
        messages.insert(0, Message::new("system", texts.join("\n\n")));
    }
}

/// Returns the result of the call with this id.
pub fn result(id: String, text: String) -> Message {
    let mut message = Message::new("tool", text);
    message.extra.insert("tool_call_id".into(), id.into());
    message
}
