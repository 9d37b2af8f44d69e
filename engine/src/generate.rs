//! Generation requests: a prompt, its settings, and the ways to receive its events.

use std::collections::BTreeSet;

use wisp_pipelines::{
    ClientId, GenerateOptions, SamplingParams,
    chat::{ChatFormat, ChatPrompt, ChatRequest},
    grammar::{Constraint, Grammar},
};

#[cfg(not(target_arch = "wasm32"))]
use crate::events::{BlockingEvents, Event};
use crate::{
    error::Error,
    events::{Canceller, Completion, Events},
    model::Model,
};

impl Model {
    /// Creates a request to continue a text.
    pub fn generate(&self, text: impl Into<String>) -> Generate {
        Generate::new(self, Prompt::Text(text.into()))
    }

    /// Creates a request to continue tokens, which are used unchanged.
    pub fn generate_tokens(&self, tokens: impl Into<Vec<u32>>) -> Generate {
        Generate::new(self, Prompt::Tokens(tokens.into()))
    }

    /// Formats a conversation with the model's chat template; [`Self::answer`] starts the answer.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer or no chat template, or the template refuses the conversation.
    pub fn prepare_chat(&self, request: &ChatRequest) -> Result<ChatPrompt, Error> {
        Ok(self.text().prepare_chat(request)?)
    }

    /// Creates a request to answer a conversation. Thoughts and calls of tools are events of their own.
    ///
    /// ```no_run
    /// use wisp_engine::{Message, Model, chat::ChatRequest};
    ///
    /// # fn main() -> Result<(), wisp_engine::Error> {
    /// let model = Model::load("Qwen/Qwen3-0.6B")?;
    /// let request = ChatRequest::new([Message::new("user", "Why is the sky blue?")]);
    /// let answer = model.answer(&model.prepare_chat(&request)?).complete()?;
    /// println!("{}\n---\n{}", answer.reasoning, answer.text);
    /// # Ok(())
    /// # }
    /// ```
    pub fn answer(&self, prompt: &ChatPrompt) -> Generate {
        let mut request = Generate::new(self, Prompt::Tokens(prompt.tokens.clone()));
        request.chat = Some(Box::new(Split {
            format: prompt.format.clone(),
            visible_tokens: prompt.visible_tokens.clone(),
            grammar: prompt.grammar.clone(),
        }));
        request
    }

    /// Runs many requests of this or other models at once, blocking the thread. Returns the completion
    /// or the error of each request, in the order of the requests: if one fails, the others continue.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn complete_many(
        &self,
        requests: impl IntoIterator<Item = Generate>,
    ) -> Vec<Result<Completion, Error>> {
        pollster::block_on(self.complete_many_async(requests))
    }

    /// Like [`Self::complete_many`], but does not block the task.
    pub async fn complete_many_async(
        &self,
        requests: impl IntoIterator<Item = Generate>,
    ) -> Vec<Result<Completion, Error>> {
        // All requests start before the first one is awaited.
        let events: Vec<Events> = requests.into_iter().map(Generate::events).collect();
        let mut completions = Vec::with_capacity(events.len());
        for events in events {
            completions.push(events.completion().await);
        }
        completions
    }
}

/// A request that has not started: a prompt and its settings. [`Self::events`], [`Self::complete`],
/// [`Self::text`] and similar methods start it; it is also an iterator over its events.
///
/// By default sampling is greedy (always the most likely token), and the text ends where the model
/// ends it or when the context is full.
#[derive(Clone, Debug)]
#[must_use = "a request begins with `events`, `complete`, `text` or a loop over it"]
pub struct Generate {
    model: Model,
    prompt: Prompt,
    options: GenerateOptions,
    /// Compiled when the request starts.
    pub(crate) constraint: Option<Constraint>,
    canceller: Canceller,
    chat: Option<Box<Split>>,
}

/// How the text of an answer is split.
#[derive(Clone, Debug)]
struct Split {
    format: ChatFormat,
    visible_tokens: BTreeSet<u32>,
    grammar: Option<Grammar>,
}

/// The prompt of a request.
#[derive(Clone, Debug)]
pub(crate) enum Prompt {
    /// Text, which the tokenizer encodes.
    Text(String),
    /// Tokens, which are used unchanged.
    Tokens(Vec<u32>),
}

impl Prompt {
    /// Returns the prompt's tokens.
    pub fn tokens(&self, model: &Model) -> Result<Vec<u32>, Error> {
        match self {
            Prompt::Text(text) => model.tokenize(text),
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
        }
    }
}

impl Generate {
    pub(crate) fn new(model: &Model, prompt: Prompt) -> Generate {
        Generate {
            model: model.clone(),
            prompt,
            options: GenerateOptions::default(),
            constraint: None,
            canceller: Canceller::new(),
            chat: None,
        }
    }

    /// Limits the number of tokens to generate.
    pub fn max_tokens(mut self, tokens: usize) -> Generate {
        self.options.max_new_tokens = Some(tokens);
        self
    }

    /// Replaces all settings at once.
    pub fn options(mut self, options: GenerateOptions) -> Generate {
        self.options = options;
        self
    }

    /// Replaces all sampling settings at once.
    pub fn sampling(mut self, sampling: SamplingParams) -> Generate {
        self.options.sampling = sampling;
        self
    }

    /// Sets the temperature; 0, the default, is greedy. It gives the same tokens on every device
    /// [with a KV cache in single precision](crate::ModelBuilder::cache_format).
    pub fn temperature(mut self, temperature: f32) -> Generate {
        self.options.sampling.temperature = temperature;
        self
    }

    /// Samples from the `k` most likely tokens; 0 means all.
    pub fn top_k(mut self, k: u32) -> Generate {
        self.options.sampling.top_k = k;
        self
    }

    /// Samples from the smallest set of most likely tokens whose total probability is at least `p`.
    pub fn top_p(mut self, p: f32) -> Generate {
        self.options.sampling.top_p = p;
        self
    }

    /// Excludes tokens that are less than `p` times as likely as the most likely one.
    pub fn min_p(mut self, p: f32) -> Generate {
        self.options.sampling.min_p = p;
        self
    }

    /// Sets the seed; the same seed samples the same tokens.
    pub fn seed(mut self, seed: u32) -> Generate {
        self.options.sampling.seed = seed;
        self
    }

    /// Requests the log-probability of every token and of the `top` most likely tokens at its
    /// position, at most 20.
    pub fn log_probabilities(mut self, top: u32) -> Generate {
        self.options.sampling.log_probs = Some(top);
        self
    }

    /// Requests the log-probabilities of the prompt's tokens too, together with
    /// [`Self::log_probabilities`]. A model that is loaded with more [logit
    /// rows](crate::ModelBuilder::logit_rows) computes them faster.
    pub fn prompt_log_probabilities(mut self) -> Generate {
        self.options.sampling.prompt_log_probs = true;
        self
    }

    /// Ends the text at a string, which is not part of the text. May be called several times.
    pub fn stop(mut self, text: impl Into<String>) -> Generate {
        self.options.stop.push(text.into());
        self
    }

    /// Continues generating after tokens that would end the text.
    pub fn ignore_end(mut self) -> Generate {
        self.options.ignore_eos = true;
        self
    }

    /// Applies the low-rank adapter that is loaded under this name.
    pub fn adapter(mut self, name: impl Into<String>) -> Generate {
        self.options.adapter = Some(name.into());
        self
    }

    /// Names who asks: the model is shared so that all clients with waiting requests get about as many tokens.
    pub fn client(mut self, client: ClientId) -> Generate {
        self.options.client = client;
        self
    }

    /// Uses an existing canceller for the request, which may cancel other requests too.
    pub fn canceller(mut self, canceller: &Canceller) -> Generate {
        self.canceller = canceller.clone();
        self
    }

    /// Starts the request and returns its events as a stream. Errors are events too.
    pub fn events(self) -> Events {
        match self.prepare() {
            Ok((prompt, options)) => {
                // A constraint holds from the first byte on: the text is neither a thought nor a call.
                let is_free = self.constraint.is_none() && self.options.constraint.is_none();
                let events = self.model.submit(prompt, options, self.canceller);
                match self.chat {
                    Some(chat) if is_free => events.split(&chat.format),
                    _ => events,
                }
            }
            Err(error) => Events::failed(error),
        }
    }

    /// Returns the prompt's tokens and the settings.
    fn prepare(&self) -> Result<(Vec<u32>, GenerateOptions), Error> {
        let mut options = self.options.clone();
        if let Some(constraint) = &self.constraint {
            options.constraint = Some(self.model.grammar(constraint)?);
        }
        if let Some(chat) = &self.chat {
            options.visible_tokens.extend(&chat.visible_tokens);
            options.constraint = options.constraint.or(chat.grammar.clone());
        }
        Ok((self.prompt.tokens(&self.model)?, options))
    }

    /// Starts the request and returns an iterator over pieces of its text, which blocks the thread
    /// while it waits.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn text(self) -> impl Iterator<Item = Result<String, Error>> {
        self.into_iter().filter_map(|event| match event {
            Ok(Event::Text(text)) => Some(Ok(text)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Runs the request to its end, blocking the thread, and returns its result.
    ///
    /// # Errors
    ///
    /// If the prompt does not fit the context, a setting is out of range, or the device fails.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn complete(self) -> Result<Completion, Error> {
        pollster::block_on(self.complete_async())
    }

    /// Runs the request to its end and returns its result.
    ///
    /// # Errors
    ///
    /// As [`Self::complete`].
    pub async fn complete_async(self) -> Result<Completion, Error> {
        self.events().completion().await
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl IntoIterator for Generate {
    type Item = Result<Event, Error>;
    type IntoIter = BlockingEvents;

    /// Starts the request and returns an iterator over its events, which blocks the thread while it
    /// waits.
    fn into_iter(self) -> BlockingEvents {
        self.events().blocking()
    }
}
