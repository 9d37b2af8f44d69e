//! Conversations with a model.

use wisp_pipelines::{
    FinishReason,
    chat_template::{ControlTokens, Message},
};

use crate::{
    error::Error,
    events::{Event, Events},
    generate::{Generate, Prompt},
    model::Model,
};

impl Model {
    /// Starts a new conversation.
    pub fn chat(&self) -> Chat {
        Chat::new(self)
    }
}

/// A conversation with a model: its history is formatted by the model's chat template.
///
/// Messages are plain text: they cannot produce control tokens such as `<|im_end|>` unless
/// [`Self::allow_control_tokens`] permits it. When the context is full, the oldest messages are left
/// out of the prompt, two at a time, but never the system message; [`Self::dropped`] returns them.
#[derive(Clone, Debug)]
pub struct Chat {
    model: Model,
    messages: Vec<Message>,
    dropped: Vec<Message>,
    control_tokens: ControlTokens,
}

/// Tokens that are reserved for the answer if the context is long enough.
const ANSWER_TOKENS: usize = 64;

impl Chat {
    pub(crate) fn new(model: &Model) -> Chat {
        Chat {
            model: model.clone(),
            messages: Vec::new(),
            dropped: Vec::new(),
            control_tokens: ControlTokens::FromTemplateOnly,
        }
    }

    /// Sets the system message: instructions to the model at the start of the conversation.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Chat {
        self.messages.retain(|message| message.role != "system");
        self.messages.insert(0, Message::new("system", text));
        self
    }

    /// Appends the messages of an earlier conversation.
    #[must_use]
    pub fn with_messages(mut self, messages: impl IntoIterator<Item = Message>) -> Chat {
        self.messages.extend(messages);
        self
    }

    /// Sets whether control tokens that are spelled out in messages are encoded as control tokens. The
    /// default is no.
    #[must_use]
    pub fn allow_control_tokens(mut self, allow: bool) -> Chat {
        self.control_tokens = ControlTokens::allowed(allow);
        self
    }

    /// Returns the messages that the next prompt begins with.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the messages that were left out because the context was full, oldest first.
    pub fn dropped(&self) -> &[Message] {
        &self.dropped
    }

    /// Removes all messages except the system message.
    pub fn clear(&mut self) {
        self.messages.retain(|message| message.role == "system");
        self.dropped.clear();
    }

    /// Sends a message and starts the model's answer. `settings` sets sampling and limits, as in
    /// `|answer| answer.temperature(0.7)`. The answer is added to the history when it ends. If it
    /// fails, or is dropped before its first text, the history stays as it was.
    pub fn send_with(
        &mut self,
        text: impl Into<String>,
        settings: impl FnOnce(Generate) -> Generate,
    ) -> Answer<'_> {
        self.messages.push(Message::new("user", text));
        let dropped = self.dropped.len();
        let events = match self.prompt() {
            Ok(tokens) => {
                let request = Generate::new(&self.model, Prompt::Tokens(tokens));
                settings(request).events()
            }
            Err(error) => Events::failed(error),
        };
        Answer {
            chat: self,
            events,
            text: String::new(),
            dropped,
            settled: false,
        }
    }

    /// Sends a message and starts the model's answer with greedy sampling.
    pub fn send(&mut self, text: impl Into<String>) -> Answer<'_> {
        self.send_with(text, |answer| answer)
    }

    /// Returns the tokens of the conversation after leaving out messages that do not fit.
    fn prompt(&mut self) -> Result<Vec<u32>, Error> {
        let max = self.model.context_length() as usize;
        let first = usize::from(self.messages.first().is_some_and(|m| m.role == "system"));
        loop {
            let prompt = Prompt::Chat {
                messages: self.messages.clone(),
                control_tokens: self.control_tokens,
            };
            let tokens = prompt.tokens(&self.model)?;
            let fits = tokens.len() + ANSWER_TOKENS.min(max / 2) <= max;
            if fits || self.messages.len() <= first + 2 {
                return Ok(tokens);
            }
            self.dropped.extend(self.messages.drain(first..first + 2));
        }
    }
}

/// A model's answer in a [`Chat`]: a sequence of events, like [`Events`]. It borrows the conversation
/// until it is dropped.
#[derive(Debug)]
pub struct Answer<'a> {
    chat: &'a mut Chat,
    events: Events,
    text: String,
    /// The number of left-out messages before this message was sent.
    dropped: usize,
    /// Whether the history already has the answer, or has been restored.
    settled: bool,
}

impl Answer<'_> {
    /// Returns the underlying events; see [`Events::canceller`] and [`Events::is_ended`].
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Waits for the next event and returns it; `None` after the last one.
    pub async fn next_async(&mut self) -> Option<Result<Event, Error>> {
        let event = self.events.next().await;
        self.take(&event);
        event
    }

    /// Returns the next event if one is available, without blocking, for event loops.
    pub fn try_next(&mut self) -> Option<Result<Event, Error>> {
        let event = self.events.try_next();
        self.take(&event);
        event
    }

    /// Waits for the end of the answer and returns its text.
    ///
    /// # Errors
    ///
    /// If the message does not fit the context, the model has no chat template, or the device fails.
    pub async fn text_async(mut self) -> Result<String, Error> {
        while let Some(event) = self.next_async().await {
            event?;
        }
        Ok(std::mem::take(&mut self.text))
    }

    /// Like [`Self::text_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::text_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn text(self) -> Result<String, Error> {
        pollster::block_on(self.text_async())
    }

    fn take(&mut self, event: &Option<Result<Event, Error>>) {
        match event {
            Some(Ok(Event::Text(text))) => self.text.push_str(text),
            // Cancelled before its first text, there is no answer.
            Some(Ok(Event::End { reason, .. })) => {
                self.settle(*reason != FinishReason::Cancelled || !self.text.is_empty());
            }
            Some(Err(_)) => self.settle(false),
            _ => {}
        }
    }

    /// Adds the answer to the history, or removes the question and restores the messages that were
    /// left out for it.
    fn settle(&mut self, answered: bool) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        match answered {
            true => {
                let answer = Message::new("assistant", self.text.trim());
                self.chat.messages.push(answer);
            }
            false => {
                let chat = &mut *self.chat;
                chat.messages.pop();
                // Messages that were left out for this message are restored behind the system message.
                let first = usize::from(chat.messages.first().is_some_and(|m| m.role == "system"));
                let restored = chat.dropped.drain(self.dropped..);
                chat.messages.splice(first..first, restored);
            }
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Iterator for Answer<'_> {
    type Item = Result<Event, Error>;

    /// Blocks the thread until the next event.
    fn next(&mut self) -> Option<Self::Item> {
        pollster::block_on(self.next_async())
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        // The answer was cut off: the history keeps the text so far.
        self.settle(!self.text.is_empty());
    }
}
