//! Answers as a stream of server-sent events.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::header,
    response::{IntoResponse, Response},
};
use http_body::Frame;
use serde_json::Value;
use tokio::time::{Instant, Sleep, sleep};
use wisp_engine::{Completion, Event, FinishReason, tools::ToolCallDelta};

use super::{
    error::ApiError,
    generation::{Texts, TokenCounts},
};

/// The time without an event after which a comment keeps the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The format of an endpoint's chunks.
pub trait Chunks: Send + Unpin + 'static {
    /// Returns the chunk that begins a text, if the format has one.
    fn begin(&mut self, text: usize) -> Option<Value>;

    /// Returns the chunk of new tokens and their text.
    fn more(&mut self, text: usize, new: Completion) -> Value;

    /// Returns the chunk of a part of a call of a tool, and of new tokens. Only chats have calls.
    fn call(&mut self, text: usize, _call: ToolCallDelta, new: Completion) -> Value {
        self.more(text, new)
    }

    /// Returns the chunk that ends a text.
    fn end(&mut self, text: usize, reason: FinishReason) -> Value;

    /// Returns the chunk with the numbers of tokens, if the client asked for it.
    fn usage(&mut self, counts: TokenCounts) -> Option<Value>;

    /// Takes note of the numbers of tokens so far.
    fn count(&mut self, _counts: TokenCounts) {}

    /// Takes note of the stop string that ends a text.
    fn stopped_at(&mut self, _text: usize, _stop: String) {}

    /// Takes note of the token that ends a text.
    fn ended_by(&mut self, _text: usize, _token: u32) {}

    /// Returns the chunk of an error, after which the stream ends.
    fn error(&mut self, error: &ApiError) -> Value {
        error.body()
    }

    /// Writes a chunk as it is sent.
    fn encode(&self, chunk: &Value) -> Bytes {
        Bytes::from(format!("data: {chunk}\n\n"))
    }

    /// Returns what follows the last chunk of a stream that is complete, if anything does.
    fn done(&self) -> Option<&'static [u8]> {
        Some(b"data: [DONE]\n\n")
    }
}

/// Writes the events of a list, each under its type: for formats whose chunks are lists of events.
pub fn named_events(events: &Value) -> Bytes {
    let mut text = String::new();
    for event in events.as_array().into_iter().flatten() {
        let name = event["type"].as_str().unwrap_or_default();
        text += &format!("event: {name}\ndata: {event}\n\n");
    }
    Bytes::from(text)
}

/// Answers with a stream of the texts.
pub fn response(texts: Texts, mut chunks: impl Chunks) -> Response {
    let begin = (0..texts.count()).filter_map(|text| {
        let chunk = chunks.begin(text)?;
        Some(chunks.encode(&chunk))
    });
    let body = EventBody {
        ready: begin.collect(),
        new: vec![Completion::default(); texts.count()],
        texts: Some(texts),
        chunks,
        idle: Box::pin(sleep(KEEP_ALIVE)),
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::new(body)).into_response()
}

/// The body of a stream. When the client goes away it is dropped, which cancels the texts.
struct EventBody<C> {
    /// `None` after the end.
    texts: Option<Texts>,
    chunks: C,
    /// Tokens and text of each text that no chunk has yet.
    new: Vec<Completion>,
    ready: VecDeque<Bytes>,
    idle: Pin<Box<Sleep>>,
}

impl<C: Chunks> EventBody<C> {
    fn take(&mut self, text: usize, event: Event) {
        let new = &mut self.new[text];
        let event = match event {
            Event::ToolCall(call) => {
                let chunk = self.chunks.call(text, call, std::mem::take(new));
                return self.send(&chunk);
            }
            event => event,
        };
        let is_text = matches!(event, Event::Text(_) | Event::Reasoning(_));
        let reason = match &event {
            Event::End { reason, .. } => Some(*reason),
            _ => None,
        };
        match &event {
            Event::StopString(stop) => self.chunks.stopped_at(text, stop.clone()),
            Event::Ending(ending) => self.chunks.ended_by(text, ending.token),
            _ => {}
        }
        new.push(event);
        // What no text came for, such as the log-probability of a token that is part of a character.
        let has_rest = new.scored_tokens().next().is_some() || !new.prompt_scores.is_empty();
        if is_text || (reason.is_some() && has_rest) {
            let chunk = self.chunks.more(text, std::mem::take(new));
            self.send(&chunk);
        }
        if let Some(reason) = reason {
            let chunk = self.chunks.end(text, reason);
            self.send(&chunk);
        }
    }

    /// Ends the stream in order.
    fn end(&mut self, texts: &Texts) {
        let usage = self.chunks.usage(texts.counts);
        if let Some(chunk) = usage {
            self.send(&chunk);
        }
        let done = self.chunks.done();
        self.ready.extend(done.map(Bytes::from_static));
    }

    fn send(&mut self, chunk: &Value) {
        let bytes = self.chunks.encode(chunk);
        // A list of no events.
        if !bytes.is_empty() {
            self.ready.push_back(bytes);
        }
    }
}

impl<C: Chunks> HttpBody for EventBody<C> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = &mut *self;
        loop {
            if let Some(bytes) = body.ready.pop_front() {
                body.idle.as_mut().reset(Instant::now() + KEEP_ALIVE);
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            let Some(mut texts) = body.texts.take() else {
                return Poll::Ready(None);
            };
            match texts.poll_next(context) {
                Poll::Ready(Some((text, Ok(event)))) => {
                    body.chunks.count(texts.counts);
                    body.take(text, event);
                    body.texts = Some(texts);
                }
                Poll::Ready(Some((_, Err(error)))) => {
                    // The status has been sent. Without the final `[DONE]` clients see that the stream is incomplete.
                    let error = ApiError::from(error);
                    texts.fail(&error);
                    let chunk = body.chunks.error(&error);
                    body.send(&chunk);
                }
                Poll::Ready(None) => body.end(&texts),
                Poll::Pending => {
                    body.texts = Some(texts);
                    if body.idle.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    body.ready
                        .push_back(Bytes::from_static(b": keep-alive\n\n"));
                }
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns what events make of an answer.
    pub fn completed(events: impl IntoIterator<Item = Event>) -> Completion {
        let mut completion = Completion::default();
        events.into_iter().for_each(|event| completion.push(event));
        completion
    }

    /// Returns a part of a call.
    pub fn part(index: usize, name: Option<&str>, arguments: &str) -> ToolCallDelta {
        ToolCallDelta {
            index,
            name: name.map(Into::into),
            arguments: arguments.into(),
        }
    }
}
