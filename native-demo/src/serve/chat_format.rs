//! The format of answers to chats.

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use wisp_engine::{Completion, FinishReason, Model, tools::ToolCallDelta};

use super::{
    call_ids::CallIds,
    generation::{FINGERPRINT, TokenCounts, finish_reason, usage},
    sampling::StreamUsage,
    scores,
    stream::Chunks,
};

/// The format of answers to chats.
pub struct Format {
    /// The id of the answer.
    pub id: String,
    /// When it was begun, in seconds of Unix time.
    pub created: u64,
    /// The name under which the client asked for the model.
    pub served: String,
    /// The model.
    pub model: Model,
    /// Whether the client asked for log-probabilities.
    pub has_scores: bool,
    /// Which chunks of a stream have the numbers of tokens.
    pub usage: StreamUsage,
    /// The numbers of tokens so far, in a stream.
    pub counts: TokenCounts,
    /// Whether the model may call tools.
    pub has_tools: bool,
    /// Whether it had to call a tool that the client named. Such a call ends with `stop`, as at OpenAI.
    pub is_named: bool,
    /// The ids of calls.
    pub call_ids: CallIds,
    /// Whether each text has a call.
    pub has_called: Vec<bool>,
    /// Whether a stop string ended each text.
    pub is_stopped: Vec<bool>,
    /// The arguments of each text's last call so far, in a stream.
    pub arguments: Vec<String>,
}

impl Format {
    /// Returns an answer or a chunk of one.
    pub fn envelope(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.served,
            "choices": choices, "system_fingerprint": FINGERPRINT,
        })
    }

    fn scores(&self, completion: &Completion) -> Value {
        let tokenizer = self.model.text().tokenizer().ok();
        match self.has_scores {
            true => scores::content(tokenizer, completion),
            false => Value::Null,
        }
    }

    /// Returns a whole answer.
    pub fn choice(&self, (index, completion): (usize, Completion)) -> Value {
        let has_called = !completion.tool_calls.is_empty();
        let content = match has_called && completion.text.is_empty() {
            true => Value::Null,
            false => completion.text.clone().into(),
        };
        let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
        if !completion.reasoning.is_empty() {
            message["reasoning_content"] = completion.reasoning.clone().into();
        }
        if has_called {
            let calls = completion.tool_calls.iter().enumerate();
            let calls = calls.map(|(number, call)| {
                json!({
                    "id": self.call_ids.id(index, number), "type": "function",
                    "function": { "name": call.name, "arguments": call.arguments },
                })
            });
            message["tool_calls"] = calls.collect();
        }
        let last = completion.tool_calls.last();
        let is_cut =
            completion.stop_string.is_some() && last.is_some_and(|call| !is_whole(&call.arguments));
        json!({
            "index": index,
            "message": message,
            "logprobs": self.scores(&completion),
            "finish_reason": self.reason_of(completion.finish_reason, has_called && !is_cut),
        })
    }

    /// Returns OpenAI's name of a reason. `has_called` tells whether the text has calls, the last of which no stop string
    /// cut off.
    fn reason_of(&self, reason: FinishReason, has_called: bool) -> &'static str {
        match finish_reason(reason) {
            "stop" if has_called && !self.is_named => "tool_calls",
            reason => reason,
        }
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        let mut chunk = self.envelope("chat.completion.chunk", choices);
        self.usage.add_to(&mut chunk, self.counts);
        chunk
    }

    fn delta(&self, index: usize, delta: Value, scores: Value, reason: Value) -> Value {
        self.chunk(vec![json!({
            "index": index, "delta": delta, "logprobs": scores, "finish_reason": reason,
        })])
    }
}

/// Returns whether the arguments of a call are complete.
fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

impl Chunks for Format {
    fn begin(&mut self, text: usize) -> Option<Value> {
        // An answer of calls has no content.
        let content = if self.has_tools {
            Value::Null
        } else {
            "".into()
        };
        let delta = json!({ "role": "assistant", "content": content, "refusal": null });
        Some(self.delta(text, delta, Value::Null, Value::Null))
    }

    fn more(&mut self, text: usize, new: Completion) -> Value {
        let scores = self.scores(&new);
        let delta = match new.reasoning.is_empty() {
            true => json!({ "content": new.text }),
            false => json!({ "reasoning_content": new.reasoning }),
        };
        self.delta(text, delta, scores, Value::Null)
    }

    fn call(&mut self, text: usize, call: ToolCallDelta, new: Completion) -> Value {
        let scores = self.scores(&new);
        if call.name.is_some() {
            self.has_called[text] = true;
            self.arguments[text].clear();
        }
        self.arguments[text] += &call.arguments;
        let mut part = json!({
            "index": call.index, "function": { "arguments": call.arguments },
        });
        // Clients join what is repeated.
        if let Some(name) = call.name {
            part = json!({
                "index": call.index, "id": self.call_ids.id(text, call.index), "type": "function",
                "function": { "name": name, "arguments": call.arguments },
            });
        }
        self.delta(text, json!({ "tool_calls": [part] }), scores, Value::Null)
    }

    fn end(&mut self, text: usize, reason: FinishReason) -> Value {
        let is_cut = self.is_stopped[text] && !is_whole(&self.arguments[text]);
        let has_called = self.has_called[text] && !is_cut;
        let reason = self.reason_of(reason, has_called).into();
        self.delta(text, json!({}), Value::Null, reason)
    }

    fn stopped_at(&mut self, text: usize, _stop: String) {
        self.is_stopped[text] = true;
    }

    fn count(&mut self, counts: TokenCounts) {
        self.counts = counts;
    }

    fn usage(&mut self, counts: TokenCounts) -> Option<Value> {
        (self.usage != StreamUsage::None).then(|| {
            let mut chunk = self.chunk(Vec::new());
            chunk["usage"] = usage(counts);
            chunk
        })
    }
}
