//! Answers in Anthropic's format, whole and as a stream of events.

use axum::body::Bytes;
use serde_json::{Value, json};
use wisp_engine::{Completion, FinishReason, tools::ToolCallDelta};

use super::{
    super::{
        call_ids::CallIds,
        error::ApiError,
        generation::TokenCounts,
        stream::{Chunks, named_events},
    },
    error::describe,
};

/// What a block of an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Thoughts,
    Text,
    Call,
}

/// The format of an answer, whose chunks are lists of events.
pub struct Format {
    id: String,
    /// The name under which the client asked for the model.
    served: String,
    counts: TokenCounts,
    call_ids: CallIds,
    has_called: bool,
    /// The number of blocks so far.
    blocks: usize,
    /// The kind of the last block, unless it has ended.
    open: Option<Kind>,
    /// The stop string that ended the text, once it has ended.
    stop: Option<String>,
    reason: FinishReason,
}

/// Returns a block of text.
fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Returns a block of thoughts. Nothing checks where they come from, so that they are not signed.
fn thinking_block(thoughts: &str) -> Value {
    json!({ "type": "thinking", "thinking": thoughts, "signature": "" })
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
            call_ids: CallIds::new("toolu_"),
            has_called: false,
            blocks: 0,
            open: None,
            stop: None,
            reason: FinishReason::Cancelled,
        }
    }

    fn stop_reason(&self) -> &'static str {
        match self.reason {
            FinishReason::Length => "max_tokens",
            _ if self.stop.is_some() => "stop_sequence",
            _ if self.has_called => "tool_use",
            _ => "end_turn",
        }
    }

    /// Returns a block of a call by its number.
    fn call_block(&self, number: usize, name: &str, input: &Value) -> Value {
        let id = self.call_ids.id(0, number);
        json!({ "type": "tool_use", "id": id, "name": name, "input": input })
    }

    /// Returns the blocks of a whole answer, which has at least one.
    fn content(&self, completion: &Completion) -> Value {
        let mut blocks = Vec::new();
        if !completion.reasoning.is_empty() {
            blocks.push(thinking_block(&completion.reasoning));
        }
        if !completion.text.is_empty() {
            blocks.push(text_block(&completion.text));
        }
        for (number, call) in completion.tool_calls.iter().enumerate() {
            // Arguments that were cut off are no JSON: the reason of the end says so.
            let input = serde_json::from_str(&call.arguments);
            let input = input.ok().filter(Value::is_object);
            let input = input.unwrap_or_else(|| json!({}));
            blocks.push(self.call_block(number, &call.name, &input));
        }
        if blocks.is_empty() {
            blocks.push(text_block(""));
        }
        blocks.into()
    }

    /// Begins a block after the end of the one before.
    fn begin_block(&mut self, kind: Kind, block: Value, events: &mut Vec<Value>) {
        self.end_block(events);
        events.push(json!({
            "type": "content_block_start", "index": self.blocks, "content_block": block,
        }));
        self.blocks += 1;
        self.open = Some(kind);
    }

    /// Ends the last block, if it has not ended.
    fn end_block(&mut self, events: &mut Vec<Value>) {
        if self.open.take().is_some() {
            events.push(
                json!({ "type": "content_block_stop", "index": self.blocks.saturating_sub(1) }),
            );
        }
    }

    /// Adds to the last block.
    fn delta(&self, delta: Value, events: &mut Vec<Value>) {
        let index = self.blocks.saturating_sub(1);
        events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
    }

    /// Returns a whole answer.
    pub fn whole(&mut self, completion: Completion, counts: TokenCounts) -> Value {
        self.reason = completion.finish_reason;
        self.has_called = !completion.tool_calls.is_empty();
        let content = self.content(&completion);
        self.stop = completion.stop_string;
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.served,
            "content": content,
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
            { "type": "ping" },
        ]))
    }

    fn more(&mut self, _text: usize, new: Completion) -> Value {
        let mut events = Vec::new();
        if !new.reasoning.is_empty() {
            if self.open != Some(Kind::Thoughts) {
                self.begin_block(Kind::Thoughts, thinking_block(""), &mut events);
            }
            let delta = json!({ "type": "thinking_delta", "thinking": new.reasoning });
            self.delta(delta, &mut events);
        }
        if !new.text.is_empty() {
            if self.open != Some(Kind::Text) {
                self.begin_block(Kind::Text, text_block(""), &mut events);
            }
            let delta = json!({ "type": "text_delta", "text": new.text });
            self.delta(delta, &mut events);
        }
        events.into()
    }

    fn call(&mut self, _text: usize, call: ToolCallDelta, _new: Completion) -> Value {
        let mut events = Vec::new();
        if let Some(name) = call.name {
            self.has_called = true;
            let block = self.call_block(call.index, &name, &json!({}));
            self.begin_block(Kind::Call, block, &mut events);
        }
        if !call.arguments.is_empty() {
            let delta = json!({ "type": "input_json_delta", "partial_json": call.arguments });
            self.delta(delta, &mut events);
        }
        events.into()
    }

    fn end(&mut self, _text: usize, reason: FinishReason) -> Value {
        self.reason = reason;
        let mut events = Vec::new();
        if self.blocks == 0 {
            self.begin_block(Kind::Text, text_block(""), &mut events);
        }
        self.end_block(&mut events);
        events.into()
    }

    fn usage(&mut self, counts: TokenCounts) -> Option<Value> {
        let delta = json!({ "stop_reason": self.stop_reason(), "stop_sequence": self.stop });
        Some(json!([
            { "type": "message_delta", "delta": delta, "usage": usage(counts) },
            { "type": "message_stop" },
        ]))
    }

    fn stopped_at(&mut self, _text: usize, stop: String) {
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

#[cfg(test)]
mod tests {
    use wisp_engine::Event;

    use super::{
        super::super::stream::tests::{completed, part},
        *,
    };

    #[test]
    fn thoughts_text_and_calls_are_blocks_in_this_order() {
        let thoughts = |text: &str| completed([Event::Reasoning(text.into())]);
        let text = || completed([Event::Text("So:".into())]);
        let mut format = Format::new("msg_1".into(), "m", TokenCounts::default());
        let none = Completion::default;
        let chunks = [
            format.more(0, thoughts("Let me ")),
            format.more(0, thoughts("see.")),
            format.more(0, none()),
            format.more(0, text()),
            format.call(0, part(0, Some("f"), ""), none()),
            format.call(0, part(0, None, "{\"x\": 1}"), none()),
            format.call(0, part(1, Some("g"), "{}"), none()),
            format.end(0, FinishReason::Stop),
        ];
        let events: Vec<Value> = chunks
            .iter()
            .flat_map(|chunk| chunk.as_array().unwrap().clone())
            .collect();
        let (start, delta, stop) = (
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
        );
        let found: Vec<_> = events
            .iter()
            .map(|event| {
                (
                    event["type"].as_str().unwrap(),
                    event["index"].as_u64().unwrap(),
                )
            })
            .collect();
        let expected = [
            (start, 0),
            (delta, 0),
            (delta, 0),
            (stop, 0),
            (start, 1),
            (delta, 1),
            (stop, 1),
            (start, 2),
            (delta, 2),
            (stop, 2),
            (start, 3),
            (delta, 3),
            (stop, 3),
        ];
        assert_eq!(found, expected);
        assert_eq!(events[0]["content_block"], thinking_block(""));
        assert_eq!(
            events[2]["delta"],
            json!({ "type": "thinking_delta", "thinking": "see." })
        );
        let call = &events[7]["content_block"];
        assert_eq!((&call["name"], &call["input"]), (&json!("f"), &json!({})));
        let input = json!({ "type": "input_json_delta", "partial_json": "{\"x\": 1}" });
        assert_eq!(events[8]["delta"], input);
        let message = format.usage(TokenCounts::default()).unwrap();
        assert_eq!(message[0]["delta"]["stop_reason"], "tool_use");
        // The same as a whole answer.
        let mut completion = completed([
            Event::Reasoning("Let me see.".into()),
            Event::Text("So:".into()),
            Event::ToolCall(part(0, Some("f"), "{\"x\": 1}")),
            Event::ToolCall(part(1, Some("g"), "{\"cut")),
        ]);
        completion.finish_reason = FinishReason::Length;
        let whole = format.whole(completion, TokenCounts::default());
        let content = &whole["content"];
        assert_eq!(content[0], thinking_block("Let me see."));
        assert_eq!(content[1], text_block("So:"));
        assert_eq!(content[2], format.call_block(0, "f", &json!({ "x": 1 })));
        assert_eq!(content[2]["id"], events[7]["content_block"]["id"]);
        assert_eq!(content[3]["input"], json!({}));
        assert_eq!(whole["stop_reason"], "max_tokens");
    }

    #[test]
    fn an_answer_of_nothing_is_an_empty_text() {
        let mut format = Format::new("msg_1".into(), "m", TokenCounts::default());
        let events = format.end(0, FinishReason::Stop);
        assert_eq!(events[0]["content_block"], text_block(""));
        assert_eq!(events[1]["type"], "content_block_stop");
        let whole = format.whole(Completion::default(), TokenCounts::default());
        assert_eq!(whole["content"], json!([text_block("")]));
    }
}
