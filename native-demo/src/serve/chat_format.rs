//! The format of answers to chats.

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use wisp_engine::{Completion, FinishReason, Model, tools::ToolCallDelta};

use super::{
    call_ids::CallIds,
    generation::{FINGERPRINT, TokenCounts, finish_reason, usage},
    sampling::StreamUsage,
    scores,
    stop_reason::StopReason,
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
    /// The tokens that the client named to end a text.
    pub stop_tokens: Vec<u32>,
    /// How each text of a stream ends, as far as is known.
    pub endings: Vec<Ending>,
}

/// How a text ends.
#[derive(Default, Clone)]
pub struct Ending {
    /// The arguments of its last call, if it has one.
    arguments: Option<String>,
    /// What ends it, if the client named it.
    stop: Option<StopReason>,
}

impl Ending {
    /// Returns whether the text ends with calls that a stop string did not cut.
    fn has_calls(&self) -> bool {
        let is_whole = |arguments: &str| serde_json::from_str::<IgnoredAny>(arguments).is_ok();
        let arguments = self.arguments.as_deref();
        let is_cut = matches!(self.stop, Some(StopReason::Text(_)));
        arguments.is_some_and(|arguments| !is_cut || is_whole(arguments))
    }
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
        // As in streams. A call that was cut off before its arguments leaves no text either.
        let content = match self.has_tools && completion.text.is_empty() {
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
        let ending = Ending {
            arguments: last.map(|call| call.arguments.clone()),
            stop: StopReason::of(&completion, &self.stop_tokens),
        };
        json!({
            "index": index,
            "message": message,
            "logprobs": self.scores(&completion),
            "finish_reason": self.reason_of(completion.finish_reason, &ending),
            "stop_reason": ending.stop,
        })
    }

    /// Returns OpenAI's name of a reason.
    fn reason_of(&self, reason: FinishReason, ending: &Ending) -> &'static str {
        match finish_reason(reason) {
            "stop" if ending.has_calls() && !self.is_named => "tool_calls",
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
        let arguments = &mut self.endings[text].arguments;
        match &call.name {
            Some(_) => *arguments = Some(call.arguments.clone()),
            None => *arguments.get_or_insert_default() += &call.arguments,
        }
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
        let ending = &self.endings[text];
        let reason = self.reason_of(reason, ending).into();
        let mut chunk = self.delta(text, json!({}), Value::Null, reason);
        chunk["choices"][0]["stop_reason"] = json!(ending.stop);
        chunk
    }

    fn stopped_at(&mut self, text: usize, stop: String) {
        self.endings[text].stop = Some(StopReason::Text(stop));
    }

    fn ended_by(&mut self, text: usize, token: u32) {
        self.endings[text].stop = StopReason::of_token(token, &self.stop_tokens);
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
