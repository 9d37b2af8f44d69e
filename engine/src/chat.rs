//! Conversations with a model.

use wisp_pipelines::chat_template::{ControlTokens, Message};

use crate::{
    error::Error,
    events::{Event, Events},
    generate::{Generate, Prompt},
    model::Model,
};

impl Model {
    /// A new conversation.
    pub fn chat(&self) -> Chat {
        Chat::new(self)
    }
}

/// A conversation: its history, through the model's chat template.
///
/// What users write is text: it cannot become control tokens such as `<|im_end|>`, unless
/// [`Self::allow_control_tokens`] says so. Where the context runs out, the oldest messages are left out
/// of the prompt, two at a time, but never the system's; [`Self::dropped`] has them.
#[derive(Clone, Debug)]
pub struct Chat {
    model: Model,
    messages: Vec<Message>,
    dropped: Vec<Message>,
    control_tokens: ControlTokens,
}

/// Tokens that are kept free for an answer, where the context is long enough.
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

    /// Begins the conversation with instructions to the model.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Chat {
        self.messages.retain(|message| message.role != "system");
        self.messages.insert(0, Message::new("system", text));
        self
    }

    /// Continues an earlier conversation.
    #[must_use]
    pub fn with_messages(mut self, messages: impl IntoIterator<Item = Message>) -> Chat {
        self.messages.extend(messages);
        self
    }

    /// Whether control tokens that messages spell become such tokens. They do not by default.
    #[must_use]
    pub fn allow_control_tokens(mut self, allow: bool) -> Chat {
        self.control_tokens = ControlTokens::allowed(allow);
        self
    }

    /// The messages that the next prompt begins with.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The messages that were left out because the context ran out, oldest first.
    pub fn dropped(&self) -> &[Message] {
        &self.dropped
    }

    /// Forgets all messages but the system's.
    pub fn clear(&mut self) {
        self.messages.retain(|message| message.role == "system");
        self.dropped.clear();
    }

    /// Says something to the model; its answer begins. `settings` sets sampling and limits, as in
    /// `|answer| answer.temperature(0.7)`. The answer joins the history as it ends; one that fails, or is
    /// dropped before its first text, leaves the history as it was.
    pub fn send_with(
        &mut self,
        text: impl Into<String>,
        settings: impl FnOnce(Generate) -> Generate,
    ) -> Answer<'_> {
        self.messages.push(Message::new("user", text));
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
            settled: false,
        }
    }

    /// Says something to the model; its answer begins, with greedy sampling.
    pub fn send(&mut self, text: impl Into<String>) -> Answer<'_> {
        self.send_with(text, |answer| answer)
    }

    /// The tokens of the conversation, after leaving out what does not fit.
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

/// A model's answer in a [`Chat`]: events, as [`Events`] has them. It holds the conversation until it is
/// dropped.
#[derive(Debug)]
pub struct Answer<'a> {
    chat: &'a mut Chat,
    events: Events,
    text: String,
    /// The history has the answer, or is as it was.
    settled: bool,
}

impl Answer<'_> {
    /// The events so far unread; see [`Events::canceller`] and [`Events::is_ended`].
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The next event, waiting for it; `None` after the last one.
    pub async fn next_async(&mut self) -> Option<Result<Event, Error>> {
        let event = self.events.next().await;
        self.take(&event);
        event
    }

    /// The next event if there is one now: for an event loop that must not block.
    pub fn try_next(&mut self) -> Option<Result<Event, Error>> {
        let event = self.events.try_next();
        self.take(&event);
        event
    }

    /// The whole answer, waiting for it.
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

    /// [`Self::text_async`], blocking the thread.
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
            Some(Ok(Event::End { .. })) => self.settle(true),
            Some(Err(_)) => self.settle(false),
            _ => {}
        }
    }

    /// Adds the answer to the history, or takes the question back.
    fn settle(&mut self, answered: bool) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        match answered {
            true => {
                let answer = Message::new("assistant", self.text.trim());
                self.chat.messages.push(answer);
            }
            false => drop(self.chat.messages.pop()),
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Iterator for Answer<'_> {
    type Item = Result<Event, Error>;

    /// The next event, blocking the thread while it waits.
    fn next(&mut self) -> Option<Self::Item> {
        pollster::block_on(self.next_async())
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        // Cut off: what was said so far is the answer.
        self.settle(!self.text.is_empty());
    }
}
