//! What a running request brings: events, as an iterator and as a stream.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_core::Stream;
use wisp_pipelines::{FinishReason, TokenScore};

use crate::Error;

/// Something that happened to a request. Events come in this order: prefill progress, the prompt's
/// log-probabilities, tokens and texts, and the end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A part of the prompt has been computed, but not all of it.
    Prefill {
        /// Tokens of the prompt that are computed.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// The log-probabilities of the prompt's tokens, from the second on, where they were asked for.
    Prompt(Vec<TokenScore>),
    /// A token was sampled.
    Token {
        /// The token.
        token: u32,
        /// Its log-probability and those of the likeliest tokens, where they were asked for.
        score: Option<TokenScore>,
    },
    /// Text that is certain: it may lag behind the tokens while a character or a possible stop string
    /// is incomplete.
    Text(String),
    /// The request has ended; no further event comes. A cancelled request ends with this event too.
    End {
        /// Why it ended.
        reason: FinishReason,
        /// What it used.
        usage: Usage,
    },
}

/// What a request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens that were generated.
    pub completion_tokens: usize,
}

/// A whole generated text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Completion {
    /// The text; empty without a tokenizer.
    pub text: String,
    /// The tokens, without the one that ended the text.
    pub tokens: Vec<u32>,
    /// The tokens' log-probabilities, where they were asked for.
    pub scores: Vec<TokenScore>,
    /// The log-probabilities of the prompt's tokens, from the second on, where they were asked for.
    pub prompt_scores: Vec<TokenScore>,
    /// Why the text ended.
    pub finish_reason: FinishReason,
    /// What the request used.
    pub usage: Usage,
}

impl Default for Completion {
    fn default() -> Completion {
        Completion {
            text: String::new(),
            tokens: Vec::new(),
            scores: Vec::new(),
            prompt_scores: Vec::new(),
            finish_reason: FinishReason::Cancelled,
            usage: Usage::default(),
        }
    }
}

impl Completion {
    /// Adds what an event brought.
    pub fn push(&mut self, event: Event) {
        match event {
            Event::Prefill { .. } => {}
            Event::Prompt(scores) => self.prompt_scores = scores,
            Event::Token { token, score } => {
                self.tokens.push(token);
                self.scores.extend(score);
            }
            Event::Text(text) => self.text.push_str(&text),
            Event::End { reason, usage } => {
                self.finish_reason = reason;
                self.usage = usage;
            }
        }
    }
}

/// Cancels a request, or the loading of a model, from any thread. Clones cancel the same.
///
/// A request ends within one step, also while its prompt is being computed; its last event is an
/// [`Event::End`] with [`FinishReason::Cancelled`].
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    cancelled: Arc<AtomicBool>,
}

impl Canceller {
    /// A canceller that nothing listens to yet.
    pub fn new() -> Canceller {
        Canceller::default()
    }

    /// Cancels. Cancelling twice, or after the end, does nothing.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// True once it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// The events of a running request: a [`Stream`] for async code; [`Self::blocking`] is an iterator,
/// [`Self::try_next`] never waits. Dropping it cancels the request within one step.
#[derive(Debug)]
pub struct Events {
    receiver: UnboundedReceiver<Result<Event, Error>>,
    canceller: Canceller,
    request: u64,
    ended: bool,
}

/// The other end of [`Events`].
#[derive(Debug)]
pub(crate) struct EventSender {
    sender: UnboundedSender<Result<Event, Error>>,
    canceller: Canceller,
}

impl EventSender {
    /// Hands out an event; who has dropped the events does not miss it.
    pub fn send(&self, event: Result<Event, Error>) {
        let _ = self.sender.unbounded_send(event);
    }

    /// True if the request was cancelled, or nobody listens any more.
    pub fn is_cancelled(&self) -> bool {
        self.canceller.is_cancelled() || self.sender.is_closed()
    }
}

impl Events {
    /// Events of a request and where they come from.
    pub(crate) fn channel(request: u64, canceller: Canceller) -> (EventSender, Events) {
        let (sender, receiver) = unbounded();
        let sender = EventSender {
            sender,
            canceller: canceller.clone(),
        };
        let events = Events {
            receiver,
            canceller,
            request,
            ended: false,
        };
        (sender, events)
    }

    /// Events of a request that failed before it began.
    pub(crate) fn failed(error: Error) -> Events {
        let (sender, events) = Events::channel(0, Canceller::new());
        sender.send(Err(error));
        events
    }

    /// The number of the request, which no other request of the model has; [`Error::NonFinite`] names it.
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Cancels the request, from anywhere.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// True after the last event.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// The next event, waiting for it; `None` after the last one. [`Self::blocking`] gives an iterator that
    /// blocks the thread.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The next event if there is one now: for an event loop that must not block.
    pub fn try_next(&mut self) -> Option<Result<Event, Error>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match Pin::new(self).poll_next(&mut context) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// An iterator over the events that blocks the thread while it waits.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn blocking(self) -> BlockingEvents {
        BlockingEvents { events: self }
    }

    /// All events together.
    ///
    /// # Errors
    ///
    /// The first error among the events.
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
        let event = match Pin::new(&mut self.receiver).poll_next(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(event)) => event,
            // A request ends by an event; without one the worker is gone.
            Poll::Ready(None) => Err(Error::WorkerEnded),
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
    /// Cancels the request, from anywhere.
    pub fn canceller(&self) -> Canceller {
        self.events.canceller()
    }

    /// [`Events::completion`], blocking the thread.
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
