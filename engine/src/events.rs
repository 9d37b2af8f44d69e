//! Events of a running request, as an iterator and as a stream.

use std::{
    collections::VecDeque,
    ops::Range,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_core::Stream;
use web_time::Instant;
use wisp_pipelines::{
    EndingToken, FinishReason, TokenScore,
    chat::{ChatEvent, ChatFormat, ChatParser},
    tools::{ToolCall, ToolCallDelta},
};

use crate::{
    Error,
    timings::{Clock, RequestTimings},
};

/// An event of a request. Events come in this order: prefill progress, the prompt's log-probabilities,
/// tokens and texts, the token that ends the text (the last text may follow it), a stop string, and the end. When the KV
/// cache is full, a request may give up its pages and compute its tokens again; its prefill progress then comes again,
/// between tokens.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A part of the prompt has been computed, but not all of it.
    Prefill {
        /// Prompt tokens computed so far.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// The log-probabilities of the prompt's tokens from the second on, if requested.
    Prompt(Vec<TokenScore>),
    /// A token was sampled.
    Token {
        /// The token's id.
        token: u32,
        /// The log-probabilities of the token and of the most likely tokens, if requested.
        score: Option<TokenScore>,
    },
    /// A token ended the text. It was generated, but is not part of the text.
    Ending(EndingToken),
    /// Text that is final. It may lag behind the tokens while a character or a possible stop string is
    /// incomplete.
    Text(String),
    /// A stop string was found, which ends the text; the last event before the end.
    StopString(String),
    /// Text of the model's thoughts, which precede its answer in a chat.
    Reasoning(String),
    /// A part of a call of a tool in a chat: the first part has the tool's name, and the arguments of all
    /// parts together are an object of JSON.
    ToolCall(ToolCallDelta),
    /// The request has ended, and no further event follows. A cancelled request ends with this event
    /// too.
    End {
        /// Why the request ended.
        reason: FinishReason,
        /// Tokens that the request used.
        usage: Usage,
    },
}

/// The tokens that a request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Generated tokens, with the one that ended the text.
    pub completion_tokens: usize,
    /// Generated tokens of the thoughts in a chat.
    pub reasoning_tokens: usize,
    /// Tokens of the prompt whose keys and values the prefix cache held, as far as the first step has told; 0 without
    /// [prefix caching](crate::pipelines::PipelineConfig::enable_prefix_caching).
    pub cached_tokens: usize,
}

/// A whole generated text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Completion {
    /// The text; empty if the model has no tokenizer. In a chat, it has neither thoughts nor calls.
    pub text: String,
    /// The model's thoughts before its answer in a chat.
    pub reasoning: String,
    /// The calls of tools in a chat.
    pub tool_calls: Vec<ToolCall>,
    /// The tokens, without the one that ended the text.
    pub tokens: Vec<u32>,
    /// The token that ended the text, if one did.
    pub ending: Option<EndingToken>,
    /// The tokens' log-probabilities, if requested.
    pub scores: Vec<TokenScore>,
    /// The log-probabilities of the prompt's tokens from the second on, if requested.
    pub prompt_scores: Vec<TokenScore>,
    /// Why the text ended.
    pub finish_reason: FinishReason,
    /// The stop string that ended the text, if one did.
    pub stop_string: Option<String>,
    /// Tokens that the request used.
    pub usage: Usage,
}

impl Default for Completion {
    fn default() -> Completion {
        Completion {
            text: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            tokens: Vec::new(),
            ending: None,
            scores: Vec::new(),
            prompt_scores: Vec::new(),
            finish_reason: FinishReason::Cancelled,
            stop_string: None,
            usage: Usage::default(),
        }
    }
}

impl Completion {
    /// Adds the contents of an event.
    pub fn push(&mut self, event: Event) {
        match event {
            Event::Prefill { .. } => {}
            Event::Prompt(scores) => self.prompt_scores = scores,
            Event::Token { token, score } => {
                self.tokens.push(token);
                self.scores.extend(score);
            }
            Event::Ending(ending) => self.ending = Some(ending),
            Event::Text(text) => self.text.push_str(&text),
            Event::StopString(stop) => self.stop_string = Some(stop),
            Event::Reasoning(text) => self.reasoning.push_str(&text),
            Event::ToolCall(call) => call.append_to(&mut self.tool_calls),
            Event::End { reason, usage } => {
                self.finish_reason = reason;
                self.usage = usage;
            }
        }
    }

    /// Returns the tokens that have log-probabilities, with these. The token that ended the text is the last.
    pub fn scored_tokens(&self) -> impl Iterator<Item = (u32, &TokenScore)> {
        let ending = self.ending.as_ref();
        let ending = ending.and_then(|ending| Some((ending.token, ending.score.as_ref()?)));
        self.tokens.iter().copied().zip(&self.scores).chain(ending)
    }
}

/// Cancels a request, or the loading of a model, from any thread. All clones cancel the same
/// operation.
///
/// A request ends within one step, even while its prompt is being computed. Its last event is an
/// [`Event::End`] with [`FinishReason::Cancelled`].
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    cancelled: Arc<AtomicBool>,
}

impl Canceller {
    /// Creates a canceller that is not connected to anything yet.
    pub fn new() -> Canceller {
        Canceller::default()
    }

    /// Cancels the operation. Cancelling twice, or after the end, has no effect.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Self::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Cancels when it is dropped, as the part of a future that others work for.
#[derive(Debug, Default)]
pub(crate) struct CancelOnDrop(pub Canceller);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The events of a running request: a [`Stream`] for async code. [`Self::blocking`] returns an
/// iterator, and [`Self::try_next`] never waits. Dropping it cancels the request within one step.
#[derive(Debug)]
pub struct Events {
    receiver: UnboundedReceiver<Result<Message, Error>>,
    canceller: Canceller,
    clock: Clock,
    request: u64,
    ended: bool,
    /// Splits the text, if the request is a chat.
    parser: Option<Box<ChatParser>>,
    thoughts: ThoughtTokens,
    /// Events that were received, but not returned yet.
    ready: VecDeque<Event>,
}

/// Counts the tokens of thoughts.
#[derive(Debug, Default)]
struct ThoughtTokens {
    count: usize,
    /// Tokens whose text has not arrived.
    open: usize,
}

impl ThoughtTokens {
    /// Decides about the tokens of a piece of text, from which these events came and which ends within a thought or not.
    fn settle(&mut self, events: &[ChatEvent], is_thinking: bool) {
        let open = std::mem::take(&mut self.open);
        let has_thought = |event: &ChatEvent| matches!(event, ChatEvent::Reasoning(_));
        if is_thinking || events.iter().any(has_thought) {
            self.count += open;
        }
    }
}

/// What the worker sends.
#[derive(Debug)]
enum Message {
    Event(Event),
    /// A token and the text that became final with it, which may be empty. Together, because each message wakes the
    /// receiver.
    Token {
        token: u32,
        score: Option<TokenScore>,
        text: String,
    },
}

/// The sender of [`Events`].
#[derive(Debug)]
pub(crate) struct EventSender {
    sender: UnboundedSender<Result<Message, Error>>,
    canceller: Canceller,
    clock: Clock,
}

impl EventSender {
    /// Sends an event; it is discarded if the receiver has been dropped.
    pub fn send(&self, event: Result<Event, Error>) {
        let _ = self.sender.unbounded_send(event.map(Message::Event));
    }

    /// Sends a token and the text that became final with it, as [`Self::send`] does.
    pub fn send_token(&self, token: u32, score: Option<TokenScore>, text: String) {
        let message = Message::Token { token, score, text };
        let _ = self.sender.unbounded_send(Ok(message));
    }

    /// Notes the time of a step that computed something of the request and gave it `tokens` tokens.
    pub fn note_step(&self, step: &Range<Instant>, tokens: usize) {
        self.clock.note(step, tokens);
    }

    /// Returns whether the request was cancelled or its events were dropped.
    pub fn is_cancelled(&self) -> bool {
        self.canceller.is_cancelled() || self.sender.is_closed()
    }
}

impl Events {
    /// Creates the events of a request and their sender.
    pub(crate) fn channel(request: u64, canceller: Canceller) -> (EventSender, Events) {
        let (sender, receiver) = unbounded();
        let clock = Clock::start();
        let sender = EventSender {
            sender,
            canceller: canceller.clone(),
            clock: clock.clone(),
        };
        let events = Events {
            receiver,
            canceller,
            clock,
            request,
            ended: false,
            parser: None,
            thoughts: ThoughtTokens::default(),
            ready: VecDeque::new(),
        };
        (sender, events)
    }

    /// Creates the events of a request that failed before it started.
    pub(crate) fn failed(error: Error) -> Events {
        let (sender, events) = Events::channel(0, Canceller::new());
        sender.send(Err(error));
        events
    }

    /// Splits the text as a format says.
    pub(crate) fn split(mut self, format: &ChatFormat) -> Events {
        self.parser = Some(Box::new(format.parser()));
        self
    }

    /// Makes the events of a message ready to be returned.
    fn receive(&mut self, message: Message) {
        match message {
            Message::Event(event) => self.take(event),
            Message::Token { token, score, text } => {
                self.take(Event::Token { token, score });
                if !text.is_empty() {
                    self.take(Event::Text(text));
                }
            }
        }
    }

    /// Makes an event ready to be returned, after its text has been split.
    fn take(&mut self, event: Event) {
        let Some(parser) = &mut self.parser else {
            return self.ready.push_back(event);
        };
        let (events, rest) = match event {
            Event::Text(text) => {
                let events = parser.push(&text);
                self.thoughts.settle(&events, parser.is_thinking());
                (events, None)
            }
            Event::End { reason, mut usage } => {
                let is_thinking = parser.is_thinking();
                let events = parser.finish();
                self.thoughts.settle(&events, is_thinking);
                usage.reasoning_tokens = self.thoughts.count;
                (events, Some(Event::End { reason, usage }))
            }
            other => {
                self.thoughts.open += usize::from(matches!(other, Event::Token { .. }));
                (Vec::new(), Some(other))
            }
        };
        let events = events.into_iter().map(|event| match event {
            ChatEvent::Reasoning(text) => Event::Reasoning(text),
            ChatEvent::Content(text) => Event::Text(text),
            ChatEvent::Call(call) => Event::ToolCall(call),
        });
        self.ready.extend(events.chain(rest));
    }

    /// Returns the number of the request, unique within the model; [`Error::NonFinite`] contains it.
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Returns a canceller for the request.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Returns how long the parts of the request took so far.
    pub fn timings(&self) -> RequestTimings {
        self.clock.timings()
    }

    /// Returns whether the last event has been received.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Waits for the next event and returns it; `None` after the last one. [`Self::blocking`] returns
    /// an iterator that blocks the thread.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the next event if one is available, without blocking, for event loops.
    pub fn try_next(&mut self) -> Option<Result<Event, Error>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match Pin::new(self).poll_next(&mut context) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// Returns an iterator over the events that blocks the thread while it waits.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn blocking(self) -> BlockingEvents {
        BlockingEvents { events: self }
    }

    /// Waits for the end of the request and collects all events.
    ///
    /// # Errors
    ///
    /// If the request fails: its first error.
    pub async fn completion(mut self) -> Result<Completion, Error> {
        let mut completion = Completion::default();
        while let Some(event) = self.next().await {
            completion.push(event?);
        }
        Ok(completion)
    }
}

impl Stream for Events {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let event = loop {
            if let Some(event) = self.ready.pop_front() {
                break Ok(event);
            }
            match Pin::new(&mut self.receiver).poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(message))) => self.receive(message),
                Poll::Ready(Some(Err(error))) => break Err(error),
                // A request ends with an event; without one, the worker has ended.
                Poll::Ready(None) => break Err(Error::WorkerEnded),
            }
        };
        self.ended = matches!(event, Err(_) | Ok(Event::End { .. }));
        Poll::Ready(Some(event))
    }
}

/// [`Events`] as an iterator that blocks the thread while it waits.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug)]
pub struct BlockingEvents {
    events: Events,
}

#[cfg(not(target_arch = "wasm32"))]
impl BlockingEvents {
    /// Returns a canceller for the request.
    pub fn canceller(&self) -> Canceller {
        self.events.canceller()
    }

    /// Returns how long the parts of the request took so far.
    pub fn timings(&self) -> RequestTimings {
        self.events.timings()
    }

    /// Like [`Events::completion`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Events::completion`].
    pub fn completion(self) -> Result<Completion, Error> {
        pollster::block_on(self.events.completion())
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Iterator for BlockingEvents {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        pollster::block_on(self.events.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_before_its_text() {
        let (sender, mut events) = Events::channel(1, Canceller::new());
        sender.send_token(5, None, "a".into());
        sender.send_token(6, None, String::new());
        let token = |token| Event::Token { token, score: None };
        for expected in [token(5), Event::Text("a".into()), token(6)] {
            let event = events.try_next().expect("an event");
            assert_eq!(event.expect("no error"), expected);
        }
        assert!(events.try_next().is_none());
    }
}
