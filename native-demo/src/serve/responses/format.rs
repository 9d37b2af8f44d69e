//! Responses, whole and as a stream of events.

use axum::body::Bytes;
use serde_json::{Value, json};
use wisp_engine::{Completion, FinishReason};

use super::super::{
    error::ApiError,
    generation::TokenCounts,
    state::now,
    stream::{Chunks, named_events},
};

/// The format of a response, whose chunks are lists of events.
pub struct Format {
    /// The response without its status, output and usage.
    response: Value,
    /// The id of the message in the output.
    message: String,
    /// The text so far.
    text: String,
    reason: FinishReason,
    /// The number of the next event.
    next: u64,
}

impl Format {
    /// Creates the format of the response to a request, some of whose fields it repeats.
    pub fn new(id: &str, served: &str, echoed: Value) -> Format {
        let mut response = json!({
            "id": format!("resp_{id}"), "object": "response", "created_at": now(),
            "model": served, "status": "in_progress", "error": null, "incomplete_details": null,
            "output": [], "usage": null,
        });
        if let (Some(fields), Value::Object(echoed)) = (response.as_object_mut(), echoed) {
            fields.extend(echoed);
        }
        Format {
            response,
            message: format!("msg_{id}"),
            text: String::new(),
            reason: FinishReason::Cancelled,
            next: 0,
        }
    }

    /// Returns a whole response.
    pub fn whole(&mut self, completion: Completion, counts: TokenCounts) -> Value {
        self.text = completion.text;
        self.reason = completion.finish_reason;
        self.ended(counts)
    }

    fn status(&self) -> &'static str {
        match self.reason {
            FinishReason::Length => "incomplete",
            _ => "completed",
        }
    }

    fn part(&self) -> Value {
        json!({ "type": "output_text", "text": self.text, "annotations": [], "logprobs": [] })
    }

    fn item(&self, status: &str, content: Value) -> Value {
        json!({
            "id": self.message, "type": "message", "status": status, "role": "assistant",
            "content": content,
        })
    }

    /// Returns the response at its end.
    fn ended(&self, counts: TokenCounts) -> Value {
        let mut response = self.response.clone();
        response["status"] = self.status().into();
        if self.reason == FinishReason::Length {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        response["output"] = json!([self.item(self.status(), json!([self.part()]))]);
        response["usage"] = json!({
            "input_tokens": counts.prompt,
            "input_tokens_details": { "cached_tokens": counts.cached, "cache_write_tokens": 0 },
            "output_tokens": counts.completion,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": counts.prompt + counts.completion,
        });
        response
    }

    /// Numbers events.
    fn numbered<const COUNT: usize>(&mut self, events: [Value; COUNT]) -> Value {
        let number = |mut event: Value| {
            event["sequence_number"] = self.next.into();
            self.next += 1;
            event
        };
        events.into_iter().map(number).collect()
    }

    /// Returns an event of the message's only part.
    fn of_part(&self, kind: &str, name: &str, value: Value) -> Value {
        let mut event = json!({
            "type": kind, "item_id": self.message, "output_index": 0, "content_index": 0,
        });
        event[name] = value;
        event
    }
}

impl Chunks for Format {
    fn begin(&mut self, _text: usize) -> Option<Value> {
        let item = self.item("in_progress", json!([]));
        let events = [
            json!({ "type": "response.created", "response": self.response }),
            json!({ "type": "response.in_progress", "response": self.response }),
            json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
            self.of_part("response.content_part.added", "part", self.part()),
        ];
        Some(self.numbered(events))
    }

    fn more(&mut self, _text: usize, new: Completion) -> Value {
        self.text += &new.text;
        let mut event = self.of_part("response.output_text.delta", "delta", new.text.into());
        event["logprobs"] = json!([]);
        self.numbered([event])
    }

    fn end(&mut self, _text: usize, reason: FinishReason) -> Value {
        self.reason = reason;
        let mut done = self.of_part(
            "response.output_text.done",
            "text",
            self.text.clone().into(),
        );
        done["logprobs"] = json!([]);
        let item = self.item(self.status(), json!([self.part()]));
        let events = [
            done,
            self.of_part("response.content_part.done", "part", self.part()),
            json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        ];
        self.numbered(events)
    }

    fn usage(&mut self, counts: TokenCounts) -> Option<Value> {
        let kind = format!("response.{}", self.status());
        let event = json!({ "type": kind, "response": self.ended(counts) });
        Some(self.numbered([event]))
    }

    fn error(&mut self, error: &ApiError) -> Value {
        let mut response = self.response.clone();
        response["status"] = "failed".into();
        response["error"] = json!({ "code": "server_error", "message": error.message() });
        self.numbered([json!({ "type": "response.failed", "response": response })])
    }

    fn encode(&self, chunk: &Value) -> Bytes {
        named_events(chunk)
    }

    fn done(&self) -> Option<&'static [u8]> {
        None
    }
}
