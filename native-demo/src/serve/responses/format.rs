//! Responses, whole and as a stream of events.

use axum::body::Bytes;
use serde_json::{Value, json};
use wisp_engine::{Completion, FinishReason, Model, tools::ToolCallDelta};

use super::{
    super::{
        call_ids::CallIds,
        error::ApiError,
        generation::TokenCounts,
        scores,
        state::now,
        stream::{Chunks, named_events},
    },
    item::{Item, Kind},
};

/// The format of a response, whose chunks are lists of events.
pub struct Format {
    /// The id of the answer.
    id: String,
    /// The response without its status, output and usage.
    response: Value,
    /// The model, if the client asked for log-probabilities.
    scored: Option<Model>,
    call_ids: CallIds,
    /// The items that have ended.
    output: Vec<Value>,
    /// The item that goes on.
    open: Option<Item>,
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
            id: id.into(),
            response,
            scored: None,
            call_ids: CallIds::new("call_"),
            output: Vec::new(),
            open: None,
            reason: FinishReason::Cancelled,
            next: 0,
        }
    }

    /// Adds the log-probabilities of messages' tokens.
    pub fn with_scores(self, model: &Model) -> Format {
        Format {
            scored: Some(model.clone()),
            ..self
        }
    }

    /// Returns a whole response.
    pub fn whole(&mut self, completion: Completion, counts: TokenCounts) -> Value {
        // The events are not sent.
        let mut events = Vec::new();
        if !completion.reasoning.is_empty() {
            let thoughts = &completion.reasoning;
            self.add(&Kind::Thoughts, thoughts, Vec::new(), &mut events);
        }
        if !completion.text.is_empty() {
            let scores = self.scores(&completion, counts.reasoning);
            self.add(&Kind::Message, &completion.text, scores, &mut events);
        }
        for (number, call) in completion.tool_calls.iter().enumerate() {
            self.add(
                &self.call_kind(number, &call.name),
                &call.arguments,
                Vec::new(),
                &mut events,
            );
        }
        self.finish(completion.finish_reason, &mut events);
        self.ended(counts)
    }

    fn status(&self) -> &'static str {
        match self.reason {
            FinishReason::Length => "incomplete",
            _ => "completed",
        }
    }

    /// Returns a call by its number.
    fn call_kind(&self, number: usize, name: &str) -> Kind {
        Kind::Call {
            id: self.call_ids.id(0, number),
            name: name.into(),
        }
    }

    /// Adds to the item of this kind that goes on; otherwise it ends, and one of this kind begins.
    fn add(&mut self, kind: &Kind, text: &str, scores: Vec<Value>, events: &mut Vec<Value>) {
        if self.open.as_ref().is_none_or(|item| item.kind != *kind) {
            self.close("completed", events);
            let item = Item::new(kind.clone(), &self.id, self.output.len());
            events.extend(item.begin());
            self.open = Some(item);
        }
        if let Some(item) = self.open.as_mut() {
            events.extend(item.add(text, scores));
        }
    }

    /// Returns the log-probabilities of a message's tokens, without the first `thoughts`.
    fn scores(&self, completion: &Completion, thoughts: usize) -> Vec<Value> {
        let Some(model) = &self.scored else {
            return Vec::new();
        };
        let tokenizer = model.text().tokenizer().ok();
        let entries = scores::entries(tokenizer, completion);
        entries.skip(thoughts).collect()
    }

    /// Ends the item that goes on.
    fn close(&mut self, status: &str, events: &mut Vec<Value>) {
        if let Some(item) = self.open.take() {
            events.extend(item.end(status));
            self.output.push(item.json(status));
        }
    }

    /// Ends the output, which has at least one item.
    fn finish(&mut self, reason: FinishReason, events: &mut Vec<Value>) {
        self.reason = reason;
        if self.open.is_none() && self.output.is_empty() {
            self.add(&Kind::Message, "", Vec::new(), events);
        }
        self.close(self.status(), events);
    }

    /// Returns the response at its end.
    fn ended(&self, counts: TokenCounts) -> Value {
        let mut response = self.response.clone();
        response["status"] = self.status().into();
        if self.reason == FinishReason::Length {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        response["output"] = self.output.clone().into();
        response["usage"] = json!({
            "input_tokens": counts.prompt,
            "input_tokens_details": { "cached_tokens": counts.cached, "cache_write_tokens": 0 },
            "output_tokens": counts.completion,
            "output_tokens_details": { "reasoning_tokens": counts.reasoning },
            "total_tokens": counts.prompt + counts.completion,
        });
        response
    }

    /// Numbers events.
    fn numbered(&mut self, events: Vec<Value>) -> Value {
        let number = |mut event: Value| {
            event["sequence_number"] = self.next.into();
            self.next += 1;
            event
        };
        events.into_iter().map(number).collect()
    }
}

impl Chunks for Format {
    fn begin(&mut self, _text: usize) -> Option<Value> {
        let kinds = ["response.created", "response.in_progress"];
        let events = kinds.map(|kind| json!({ "type": kind, "response": self.response }));
        Some(self.numbered(events.into()))
    }

    fn more(&mut self, _text: usize, new: Completion) -> Value {
        let mut events = Vec::new();
        if !new.reasoning.is_empty() {
            self.add(&Kind::Thoughts, &new.reasoning, Vec::new(), &mut events);
        }
        let is_message = |item: &Item| item.kind == Kind::Message;
        let is_scored = new.scored_tokens().next().is_some();
        let has_rest = is_scored && self.open.as_ref().is_some_and(is_message);
        if !new.text.is_empty() || has_rest {
            let scores = self.scores(&new, 0);
            self.add(&Kind::Message, &new.text, scores, &mut events);
        }
        self.numbered(events)
    }

    fn call(&mut self, _text: usize, call: ToolCallDelta, _new: Completion) -> Value {
        let mut events = Vec::new();
        let begun = self.open.as_ref().map(|item| item.kind.clone());
        let kind = match call.name {
            Some(name) => Some(self.call_kind(call.index, &name)),
            None => begun.filter(|kind| matches!(kind, Kind::Call { .. })),
        };
        if let Some(kind) = kind {
            self.add(&kind, &call.arguments, Vec::new(), &mut events);
        }
        self.numbered(events)
    }

    fn end(&mut self, _text: usize, reason: FinishReason) -> Value {
        let mut events = Vec::new();
        self.finish(reason, &mut events);
        self.numbered(events)
    }

    fn usage(&mut self, counts: TokenCounts) -> Option<Value> {
        let kind = format!("response.{}", self.status());
        let event = json!({ "type": kind, "response": self.ended(counts) });
        Some(self.numbered(vec![event]))
    }

    fn error(&mut self, error: &ApiError) -> Value {
        let mut response = self.response.clone();
        response["status"] = "failed".into();
        response["error"] = json!({ "code": "server_error", "message": error.message() });
        self.numbered(vec![
            json!({ "type": "response.failed", "response": response }),
        ])
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
    fn thoughts_text_and_calls_are_items_in_this_order() {
        let mut format = Format::new("1", "m", json!({}));
        let none = Completion::default;
        let chunks = [
            format.more(0, completed([Event::Reasoning("Let me ".into())])),
            format.more(0, completed([Event::Reasoning("see.".into())])),
            format.more(0, none()),
            format.more(0, completed([Event::Text("So:".into())])),
            format.call(0, part(0, Some("f"), ""), none()),
            format.call(0, part(0, None, "{\"x\": 1}"), none()),
            format.call(0, part(1, Some("f"), "{}"), none()),
            format.end(0, FinishReason::Stop),
        ];
        let events: Vec<Value> = chunks
            .iter()
            .flat_map(|chunk| chunk.as_array().unwrap().clone())
            .collect();
        let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_string();
        let found: Vec<_> = events
            .iter()
            .map(|event| (text(event, "type"), event["output_index"].as_u64().unwrap()))
            .collect();
        let expected = [
            ("output_item.added", 0),
            ("content_part.added", 0),
            ("reasoning_text.delta", 0),
            ("reasoning_text.delta", 0),
            ("reasoning_text.done", 0),
            ("content_part.done", 0),
            ("output_item.done", 0),
            ("output_item.added", 1),
            ("content_part.added", 1),
            ("output_text.delta", 1),
            ("output_text.done", 1),
            ("content_part.done", 1),
            ("output_item.done", 1),
            ("output_item.added", 2),
            ("function_call_arguments.delta", 2),
            ("function_call_arguments.done", 2),
            ("output_item.done", 2),
            ("output_item.added", 3),
            ("function_call_arguments.delta", 3),
            ("function_call_arguments.done", 3),
            ("output_item.done", 3),
        ];
        let expected = expected.map(|(kind, index)| (format!("response.{kind}"), index));
        assert_eq!(found, expected);
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number);
        }
        let added: Vec<Value> = events.iter().map(|event| event["item"].clone()).collect();
        assert_eq!(
            (&added[13]["arguments"], &added[13]["name"]),
            (&json!(""), &json!("f"))
        );
        let ended = format.ended(TokenCounts::default());
        assert_eq!(
            ended["output"],
            json!([added[6], added[12], added[16], added[20]])
        );
        assert_ne!(added[16]["call_id"], added[20]["call_id"]);
        let mut completion = completed([
            Event::Reasoning("Let me see.".into()),
            Event::Text("So:".into()),
            Event::ToolCall(part(0, Some("f"), "{\"x\": 1}")),
            Event::ToolCall(part(1, Some("f"), "{\"cut")),
        ]);
        let mut format = Format::new("1", "m", json!({}));
        completion.finish_reason = FinishReason::Length;
        let whole = format.whole(completion, TokenCounts::default());
        let output = &whole["output"];
        assert_eq!((&output[0], &output[1]), (&added[6], &added[12]));
        assert_eq!(output[2]["arguments"], "{\"x\": 1}");
        assert_eq!(
            (&output[2]["status"], &output[3]["status"]),
            (&json!("completed"), &json!("incomplete"))
        );
        assert_eq!(whole["status"], "incomplete");
    }

    #[test]
    fn a_response_of_nothing_is_an_empty_message() {
        let mut format = Format::new("1", "m", json!({}));
        let events = format.end(0, FinishReason::Stop);
        assert_eq!(events[0]["type"], "response.output_item.added");
        let output = &format.ended(TokenCounts::default())["output"];
        assert_eq!(output[0]["content"][0]["text"], "");
    }
}
