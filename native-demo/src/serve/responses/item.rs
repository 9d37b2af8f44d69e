//! The items of a response and their events.

use serde_json::{Value, json};

/// What an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The model's thoughts.
    Thoughts,
    /// The model's text.
    Message,
    /// A call of a tool.
    Call {
        /// The id that its result names.
        id: String,
        /// The tool.
        name: String,
    },
}

/// An item of a response.
#[derive(Debug)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Its text so far, or its arguments.
    pub text: String,
    /// The log-probabilities of a message's tokens, if the client asked for them.
    pub scores: Vec<Value>,
    id: String,
    /// Its number in the output.
    index: usize,
}

impl Item {
    /// Creates an empty item of an answer.
    pub fn new(kind: Kind, answer: &str, index: usize) -> Item {
        let prefix = match kind {
            Kind::Thoughts => "rs",
            Kind::Message => "msg",
            Kind::Call { .. } => "fc",
        };
        Item {
            kind,
            text: String::new(),
            scores: Vec::new(),
            id: format!("{prefix}_{answer}_{index}"),
            index,
        }
    }

    /// Returns the item as it is in the output.
    pub fn json(&self, status: &str) -> Value {
        self.with_content(status, self.part().into_iter().collect())
    }

    fn with_content(&self, status: &str, content: Value) -> Value {
        match &self.kind {
            Kind::Thoughts => json!({
                "id": self.id, "type": "reasoning", "status": status, "summary": [],
                "content": content,
            }),
            Kind::Message => json!({
                "id": self.id, "type": "message", "status": status, "role": "assistant",
                "content": content,
            }),
            Kind::Call { id, name } => json!({
                "id": self.id, "type": "function_call", "status": status, "call_id": id,
                "name": name, "arguments": self.text,
            }),
        }
    }

    /// Returns the only part of its content, if it has any.
    fn part(&self) -> Option<Value> {
        match self.kind {
            Kind::Thoughts => Some(json!({ "type": "reasoning_text", "text": self.text })),
            Kind::Message => Some(json!({
                "type": "output_text", "text": self.text, "annotations": [],
                "logprobs": self.scores,
            })),
            Kind::Call { .. } => None,
        }
    }

    /// Returns an event about the item with a field.
    fn event(&self, kind: &str, name: &str, value: Value) -> Value {
        let mut event = json!({
            "type": format!("response.{kind}"), "item_id": self.id, "output_index": self.index,
        });
        if !matches!(self.kind, Kind::Call { .. }) {
            event["content_index"] = 0.into();
        }
        event[name] = value;
        event
    }

    /// Returns an event with the whole item.
    fn item_event(&self, kind: &str, item: &Value) -> Value {
        json!({ "type": format!("response.{kind}"), "output_index": self.index, "item": item })
    }

    /// Returns the events of its beginning.
    pub fn begin(&self) -> Vec<Value> {
        let item = self.with_content("in_progress", json!([]));
        let part = self.part();
        let part = part.map(|part| self.event("content_part.added", "part", part));
        let item = self.item_event("output_item.added", &item);
        [item].into_iter().chain(part).collect()
    }

    /// Adds further text and the log-probabilities of its tokens, and returns the event of it.
    pub fn add(&mut self, text: &str, scores: Vec<Value>) -> Option<Value> {
        self.text += text;
        let kind = format!("{}.delta", self.text_name());
        let mut event = (!text.is_empty()).then(|| self.event(&kind, "delta", text.into()));
        if let Some(event) = event.as_mut().filter(|_| self.kind == Kind::Message) {
            event["logprobs"] = scores.clone().into();
        }
        self.scores.extend(scores);
        event
    }

    /// Returns the events of its end.
    pub fn end(&self, status: &str) -> Vec<Value> {
        let kind = format!("{}.done", self.text_name());
        let mut done = match &self.kind {
            Kind::Call { name, .. } => {
                let mut done = self.event(&kind, "arguments", self.text.clone().into());
                done["name"] = name.clone().into();
                done
            }
            _ => self.event(&kind, "text", self.text.clone().into()),
        };
        if self.kind == Kind::Message {
            done["logprobs"] = self.scores.clone().into();
        }
        let part = self.part();
        let part = part.map(|part| self.event("content_part.done", "part", part));
        let item = self.item_event("output_item.done", &self.json(status));
        [done].into_iter().chain(part).chain([item]).collect()
    }

    /// Returns what events call the text of the item.
    fn text_name(&self) -> &'static str {
        match self.kind {
            Kind::Thoughts => "reasoning_text",
            Kind::Message => "output_text",
            Kind::Call { .. } => "function_call_arguments",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_have_their_own_log_probabilities_and_the_end_has_all() {
        let mut item = Item::new(Kind::Message, "1", 0);
        let deltas = [("a", 1), ("b", 2)].map(|(text, score)| item.add(text, vec![score.into()]));
        let deltas = deltas.map(|event| event.expect("an event")["logprobs"].clone());
        assert_eq!(deltas, [json!([1]), json!([2])]);
        assert_eq!(item.add("", vec![3.into()]), None);
        let events = item.end("completed");
        assert_eq!(events[0]["logprobs"], json!([1, 2, 3]));
        assert_eq!(events[1]["part"]["logprobs"], json!([1, 2, 3]));
        assert_eq!(events[1].get("logprobs"), None);
    }
}
