//! Answers in Anthropic's format, whole and as a stream of events.

use axum::body::Bytes;
use serde_json::{Value, json};
use wisp_engine::{Completion, FinishReason};

use super::{
    super::{
        error::ApiError,
        generation::TokenCounts,
        stream::{Chunks, named_events},
    },
    error::describe,
};

/// The format of an answer, whose chunks are lists of events.
pub struct Format {
    id: String,
    /// The name under which the client asked for the model.
    served: String,
    counts: TokenCounts,
    /// The stop string that ended the text, once it has ended.
    stop: Option<String>,
    reason: FinishReason,
}

/// Returns the numbers of tokens. Those that the prefix cache held are counted apart.
fn usage(counts: TokenCounts) -> Value {
    json!({
        "input_tokens": counts.prompt.saturating_sub(counts.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.completion,
    })
}

impl Format {
    /// Creates the format of an answer with this id.
    pub fn new(id: String, served: &str, counts: TokenCounts) -> Format {
        Format {
            id,
            served: served.into(),
            counts,
            stop: None,
            reason: FinishReason::Cancelled,
        }
    }

    fn stop_reason(&self) -> &'static str {
        match self.reason {
            FinishReason::Length => "max_tokens",
            _ if self.stop.is_some() => "stop_sequence",
            _ => "end_turn",
        }
    }

    /// Returns a whole answer.
    pub fn whole(&mut self, completion: Completion, counts: TokenCounts) -> Value {
        self.reason = completion.finish_reason;
        self.stop = completion.stop_string;
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.served,
            "content": [{ "type": "text", "text": completion.text }],
            "stop_reason": self.stop_reason(), "stop_sequence": self.stop, "usage": usage(counts),
        })
    }
}

impl Chunks for Format {
    fn begin(&mut self, _text: usize) -> Option<Value> {
        let message = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.served,
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(self.counts),
        });
        Some(json!([
            { "type": "message_start", "message": message },
            { "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } },
            { "type": "ping" },
        ]))
    }

    fn more(&mut self, _text: usize, new: Completion) -> Value {
        json!([{
            "type": "content_block_delta", "index": 0,
            "delta": { "type": "text_delta", "text": new.text },
        }])
    }

    fn end(&mut self, _text: usize, reason: FinishReason) -> Value {
        self.reason = reason;
        json!([{ "type": "content_block_stop", "index": 0 }])
    }

    fn usage(&mut self, counts: TokenCounts) -> Option<Value> {
        let delta = json!({ "stop_reason": self.stop_reason(), "stop_sequence": self.stop });
        Some(json!([
            { "type": "message_delta", "delta": delta, "usage": usage(counts) },
            { "type": "message_stop" },
        ]))
    }

    fn stopped_at(&mut self, stop: String) {
        self.stop = Some(stop);
    }

    fn error(&mut self, error: &ApiError) -> Value {
        json!([describe(error)])
    }

    fn encode(&self, chunk: &Value) -> Bytes {
        named_events(chunk)
    }

    fn done(&self) -> Option<&'static [u8]> {
        None
    }
}
