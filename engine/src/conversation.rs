//! Conversations with a model.

use wisp_pipelines::{
    FinishReason,
    chat::{ChatPrompt, ChatRequest, ReasoningEffort, answer_message, result_messages},
    chat_template::{ControlTokens, Message},
    tools::{Tool, ToolChoice, ToolError, Tools},
};

use crate::{
    error::Error,
    events::{Completion, Event, Events},
    generate::Generate,
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
/// out of the prompt, a question with its answer at a time, but never the system message;
/// [`Self::dropped`] returns them.
///
/// A model that is offered [`tools`](Self::tools) answers with text or with calls. Their results are sent
/// with [`Self::send_results`]:
///
/// ```no_run
/// use serde_json::json;
/// use wisp_engine::{Model, tools::{Tool, ToolChoice}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let city = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
/// let weather = Tool::new("get_weather", city)?.with_description("Returns the weather of a city.");
/// let model = Model::load("Qwen/Qwen3-0.6B")?;
/// let mut chat = model.chat().tools([weather], ToolChoice::Auto)?;
/// let mut answer = chat.send("How is the weather in Paris?").complete()?;
/// while !answer.tool_calls.is_empty() {
///     let results = answer.tool_calls.iter().map(|call| format!("{} is sunny.", call.arguments));
///     answer = chat.send_results(results.collect::<Vec<_>>()).complete()?;
/// }
/// println!("{}", answer.text);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Chat {
    model: Model,
    messages: Vec<Message>,
    dropped: Vec<Message>,
    control_tokens: ControlTokens,
    tools: Tools,
    tool_choice: ToolChoice,
    thinking: Option<bool>,
    effort: Option<ReasoningEffort>,
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
            tools: Tools::default(),
            tool_choice: ToolChoice::Auto,
            thinking: None,
            effort: None,
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

    /// Offers tools that the model may call, or must call as `choice` says.
    ///
    /// # Errors
    ///
    /// If two tools have the same name, there are too many, or the choice names none of them.
    pub fn tools(
        mut self,
        tools: impl IntoIterator<Item = Tool>,
        choice: ToolChoice,
    ) -> Result<Chat, ToolError> {
        self.tools = Tools::new(tools)?;
        choice.check(&self.tools)?;
        self.tool_choice = choice;
        Ok(self)
    }

    /// Sets whether the model thinks before it answers, if it can do both.
    #[must_use]
    pub fn thinking(mut self, thinking: bool) -> Chat {
        self.thinking = Some(thinking);
        self
    }

    /// Sets how much the model thinks before it answers, if its template can tell it.
    #[must_use]
    pub fn reasoning_effort(mut self, effort: ReasoningEffort) -> Chat {
        self.effort = Some(effort);
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
        self.answer(1, settings)
    }

    /// Sends the results of the calls in the model's last answer, in their order, and starts the next
    /// answer. `settings` sets sampling and limits, as in [`Self::send_with`].
    pub fn send_results_with<T: Into<String>>(
        &mut self,
        results: impl IntoIterator<Item = T>,
        settings: impl FnOnce(Generate) -> Generate,
    ) -> Answer<'_> {
        let results = results.into_iter().map(Into::into);
        let results = match self.messages.last() {
            Some(answer) => result_messages(answer, results),
            None => Vec::new(),
        };
        let added = results.len();
        self.messages.extend(results);
        self.answer(added, settings)
    }

    /// Sends the results of the calls in the model's last answer, in their order, and starts the next
    /// answer with greedy sampling.
    pub fn send_results<T: Into<String>>(
        &mut self,
        results: impl IntoIterator<Item = T>,
    ) -> Answer<'_> {
        self.send_results_with(results, |answer| answer)
    }

    /// Starts the answer to the last `added` messages.
    fn answer(&mut self, added: usize, settings: impl FnOnce(Generate) -> Generate) -> Answer<'_> {
        let dropped = self.dropped.len();
        let events = match self.prompt() {
            Ok(prompt) => settings(self.model.answer(&prompt)).events(),
            Err(error) => Events::failed(error),
        };
        Answer {
            chat: self,
            events,
            completion: Completion::default(),
            added,
            dropped,
            settled: false,
        }
    }

    /// Sends a message and starts the model's answer with greedy sampling.
    pub fn send(&mut self, text: impl Into<String>) -> Answer<'_> {
        self.send_with(text, |answer| answer)
    }

    /// Returns the prompt of the conversation after leaving out messages that do not fit.
    fn prompt(&mut self) -> Result<ChatPrompt, Error> {
        let max = self.model.context_length() as usize;
        let fits = |prompt: &ChatPrompt| prompt.tokens.len() + ANSWER_TOKENS.min(max / 2) <= max;
        let prompt = self.prompt_without(0)?;
        if fits(&prompt) {
            return Ok(prompt);
        }
        let first = self.first();
        // With an answer and the results of its calls, the question before them is left out.
        let is_question = |at: &usize| self.messages[*at].role == "user";
        let questions: Vec<usize> = (first + 1..self.messages.len())
            .filter(is_question)
            .collect();
        // The first question that the prompt can begin with is among these; if none fits, it begins with the last.
        let (mut low, mut high) = (0, questions.len().saturating_sub(1));
        while low < high {
            let middle = (low + high) / 2;
            match fits(&self.prompt_without(questions[middle] - first)?) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let Some(question) = questions.get(low) else {
            return Ok(prompt);
        };
        let prompt = self.prompt_without(question - first)?;
        self.dropped.extend(self.messages.drain(first..*question));
        Ok(prompt)
    }

    /// Returns the position of the first message behind the system message.
    fn first(&self) -> usize {
        let system = self.messages.first();
        usize::from(system.is_some_and(|message| message.role == "system"))
    }

    /// Returns the prompt without the oldest `count` messages behind the system message.
    fn prompt_without(&self, count: usize) -> Result<ChatPrompt, Error> {
        let (system, others) = self.messages.split_at(self.first());
        let kept = others.get(count..).unwrap_or_default();
        let mut request = ChatRequest::new([system, kept].concat());
        request.control_tokens = self.control_tokens;
        request.thinking = self.thinking;
        if let Some(effort) = self.effort {
            request.set_effort(effort);
        }
        let (tools, choice) = (self.tools.clone(), self.tool_choice.clone());
        self.model
            .prepare_chat(&request.with_tools(tools, choice, true)?)
    }
}

/// A model's answer in a [`Chat`]: a sequence of events, like [`Events`]. It borrows the conversation
/// until it is dropped.
#[derive(Debug)]
pub struct Answer<'a> {
    chat: &'a mut Chat,
    events: Events,
    completion: Completion,
    /// The number of messages that are answered.
    added: usize,
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
    pub async fn text_async(self) -> Result<String, Error> {
        Ok(self.complete_async().await?.text)
    }

    /// Waits for the end of the answer and returns it with its thoughts and calls of tools.
    ///
    /// # Errors
    ///
    /// As [`Self::text_async`].
    pub async fn complete_async(mut self) -> Result<Completion, Error> {
        while let Some(event) = self.next_async().await {
            event?;
        }
        Ok(std::mem::take(&mut self.completion))
    }

    /// Like [`Self::complete_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::text_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn complete(self) -> Result<Completion, Error> {
        pollster::block_on(self.complete_async())
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
            Some(Ok(event)) => {
                self.completion.push(event.clone());
                if let Event::End { reason, .. } = event {
                    match reason {
                        FinishReason::Cancelled => self.settle_partial(),
                        _ => self.settle(true),
                    }
                }
            }
            Some(Err(_)) => self.settle(false),
            None => {}
        }
    }

    /// Adds what there is of an answer that was cut off: cancelled before its first text, there is no
    /// answer, and calls may lack arguments.
    fn settle_partial(&mut self) {
        let calls = std::mem::take(&mut self.completion.tool_calls);
        self.settle(!self.completion.text.is_empty());
        self.completion.tool_calls = calls;
    }

    /// Adds the answer to the history, or removes the question and restores the messages that were
    /// left out for it.
    fn settle(&mut self, answered: bool) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        match answered {
            true => {
                let Completion {
                    text,
                    reasoning,
                    tool_calls,
                    ..
                } = &self.completion;
                let number = self.chat.messages.len();
                let answer = answer_message(text.trim(), reasoning, tool_calls, number);
                self.chat.messages.push(answer);
            }
            false => {
                let chat = &mut *self.chat;
                let kept = chat.messages.len().saturating_sub(self.added);
                chat.messages.truncate(kept);
                // Messages that were left out for this message are restored behind the system message.
                let first = chat.first();
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
        self.settle_partial();
    }
}
