//! Texts of many requests: options in, events out, or whole generations.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use super::TextGenerator;
use crate::{
    PipelineError, SamplingParams,
    log_probabilities::TokenScore,
    model_files::ModelFiles,
    request::{FinishReason, Request, RequestId},
    scheduler::SampledToken,
    stoppable_text::StoppableText,
};

/// The text of a request.
pub(super) struct Stream {
    text: StoppableText,
    /// It may generate nothing: what is drawn is only a by-product of the prompt's scores.
    empty: bool,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Stream { text, empty } = self;
        f.debug_struct("Stream")
            .field("stopped", &text.stopped)
            .field("empty", empty)
            .finish_non_exhaustive()
    }
}

/// What a step brought a request.
#[derive(Clone, Debug, PartialEq)]
pub struct TextEvent {
    /// The request.
    pub id: RequestId,
    /// The token drawn; `None` if it only ended the text.
    pub token: Option<u32>,
    /// The text that is certain with it: empty while a character or a stop string is incomplete.
    pub text: String,
    /// How likely the token was, if that is wanted.
    pub score: Option<TokenScore>,
    /// With the first event, if they are wanted: how likely the prompt's tokens were, from the second on.
    pub prompt_scores: Vec<TokenScore>,
    /// Why the text ended here.
    pub finish: Option<FinishReason>,
}

/// What one generation may do.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Most tokens to generate; `None`: until the context is full.
    pub max_new_tokens: Option<usize>,
    /// Texts that end it; they are not part of it.
    pub stop: Vec<String>,
    /// Go on after tokens that end a text.
    pub ignore_eos: bool,
    /// The name of the adapter that changes the model; `None`: none does.
    pub adapter: Option<String>,
}

/// What was generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// The tokens, without the one that ended the text.
    pub tokens: Vec<u32>,
    /// Their text; empty without a tokenizer.
    pub text: String,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// How likely the tokens were, if that is wanted.
    pub scores: Vec<TokenScore>,
    /// How likely the prompt's tokens were, from the second on, if that is wanted.
    pub prompt_scores: Vec<TokenScore>,
    /// Bytes of the text that were handed out.
    shown: usize,
}

impl Default for Generation {
    fn default() -> Generation {
        Generation {
            tokens: Vec::new(),
            text: String::new(),
            finish_reason: FinishReason::Length,
            scores: Vec::new(),
            prompt_scores: Vec::new(),
            shown: 0,
        }
    }
}

impl Generation {
    /// Takes in an event; true if it is the last.
    fn take(&mut self, event: TextEvent) -> bool {
        self.tokens.extend(event.token);
        self.text.push_str(&event.text);
        self.scores.extend(event.score);
        self.prompt_scores.extend(event.prompt_scores);
        if let Some(reason) = event.finish {
            self.finish_reason = reason;
        }
        event.finish.is_some()
    }
}

impl TextGenerator {
    /// Queues a prompt whose text [`Self::next_events`] will bring.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn add_request(
        &mut self,
        files: &ModelFiles,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<RequestId, PipelineError> {
        let max_length = self.model.limits().max_length as usize;
        let stop_tokens: Vec<u32> = if options.ignore_eos {
            Vec::new()
        } else {
            files.stop_tokens.iter().copied().collect()
        };
        let adapter = options.adapter.as_deref();
        let adapter = adapter.map(|name| self.adapter(name)).transpose()?;
        let id = self.add(Request {
            tokens: prompt.to_vec(),
            sampling: options.sampling.clone(),
            max_new_tokens: options.max_new_tokens.unwrap_or(max_length),
            stop_tokens,
            adapter,
        })?;
        let detokenizer = files.tokenizer.as_ref().ok().map(|tokenizer| {
            let mut detokenizer = tokenizer.detokenizer(true);
            detokenizer.skip(prompt);
            detokenizer
        });
        let stream = Stream {
            text: StoppableText::new(detokenizer, options.stop.clone()),
            empty: options.max_new_tokens == Some(0),
        };
        self.streams.insert(id, stream);
        Ok(id)
    }

    /// Runs one step for all requests and returns what it brought: events of one request in order,
    /// the last of them with its end. Empty once all have ended.
    ///
    /// # Errors
    ///
    /// As [`Self::step`].
    pub async fn next_events(&mut self) -> Result<Vec<TextEvent>, PipelineError> {
        if !self.pending.is_empty() {
            return Ok(std::mem::take(&mut self.pending));
        }
        self.run_events().await
    }

    async fn run_events(&mut self) -> Result<Vec<TextEvent>, PipelineError> {
        let drawn = self.step().await?;
        let mut events: Vec<TextEvent> = Vec::with_capacity(drawn.len());
        for drawn in drawn {
            // Steps go on behind a stop string.
            let ended = |event: &TextEvent| event.id == drawn.id && event.finish.is_some();
            if !events.iter().any(ended) {
                let event = self.event(drawn);
                events.push(event);
            }
        }
        Ok(events)
    }

    /// What a token is to its request's text.
    fn event(&mut self, drawn: SampledToken) -> TextEvent {
        let mut event = TextEvent {
            id: drawn.id,
            token: Some(drawn.token).filter(|_| drawn.finish != Some(FinishReason::Stop)),
            text: String::new(),
            score: drawn.score,
            prompt_scores: drawn.prompt_scores,
            finish: drawn.finish,
        };
        let Some(stream) = self.streams.get_mut(&drawn.id) else {
            return event;
        };
        if stream.empty {
            event.token = None;
            event.finish = Some(FinishReason::Length);
        }
        if let Some(token) = event.token {
            event.text = stream.text.push(token);
        } else {
            event.score = None;
        }
        if stream.text.stopped {
            event.finish = Some(FinishReason::Stop);
        }
        if event.finish.is_some() {
            event.text.push_str(&stream.text.finish());
            self.cancel(drawn.id);
        }
        event
    }

    /// Generates for one prompt and hands out its text as it comes: one piece a token, which is
    /// empty while a character or a stop string is incomplete. `on_text` may break off.
    ///
    /// # Errors
    ///
    /// As [`Self::generate_many`].
    pub async fn generate(
        &mut self,
        files: &ModelFiles,
        prompt: &[u32],
        options: &GenerateOptions,
        mut on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, PipelineError> {
        let requests = [(prompt, options)];
        let mut generations = self
            .generate_many(files, &requests, |_, text| on_text(text))
            .await?;
        Ok(generations.pop().unwrap_or_default())
    }

    /// Generates for many prompts at once, each with its own options, and hands out their texts with
    /// the prompt's number as they come. `on_text` may break off a prompt's. What it returns is in
    /// the order of the prompts, and the same as of each alone.
    ///
    /// # Errors
    ///
    /// As [`Self::add`] and [`Self::step`]; then none of them runs on.
    pub async fn generate_many(
        &mut self,
        files: &ModelFiles,
        requests: &[(&[u32], &GenerateOptions)],
        mut on_text: impl FnMut(usize, &str) -> ControlFlow<()>,
    ) -> Result<Vec<Generation>, PipelineError> {
        let mut generations = vec![Generation::default(); requests.len()];
        // The requests that run, with their numbers.
        let mut running = HashMap::new();
        let mut broken_off = HashSet::new();
        let mut failed = None;
        for (number, (prompt, options)) in requests.iter().enumerate() {
            match self.add_request(files, prompt, options) {
                // Nothing is wanted of the model.
                Ok(id)
                    if options.max_new_tokens == Some(0) && !options.sampling.scores_prompt() =>
                {
                    self.cancel(id);
                }
                Ok(id) => {
                    running.insert(id, number);
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        while !running.is_empty() && failed.is_none() {
            let events = match self.run_events().await {
                Ok(events) => events,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            for event in events {
                let Some(number) = running.get(&event.id).copied() else {
                    // Steps go on behind what was broken off; the rest is another's.
                    if !broken_off.contains(&event.id) {
                        self.pending.push(event);
                    }
                    continue;
                };
                let (id, generation) = (event.id, &mut generations[number]);
                let shown = event.token.is_some() || !event.text.is_empty();
                let finish = generation.take(event);
                if shown && on_text(number, &generation.text[generation.shown..]).is_break() {
                    generation.finish_reason = FinishReason::Cancelled;
                    let rest = self.streams.get_mut(&id).map(|stream| stream.text.finish());
                    generation.text.push_str(&rest.unwrap_or_default());
                    self.cancel(id);
                    running.remove(&id);
                    broken_off.insert(id);
                } else if finish {
                    running.remove(&id);
                }
                generation.shown = generation.text.len();
            }
            if self.scheduler.is_idle() {
                break;
            }
        }
        match failed {
            None => Ok(generations),
            Some(error) => {
                for id in running.into_keys() {
                    self.cancel(id);
                }
                Err(error)
            }
        }
    }

    /// [`Self::generate`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::generate`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn generate_blocking(
        &mut self,
        files: &ModelFiles,
        prompt: &[u32],
        options: &GenerateOptions,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, PipelineError> {
        pollster::block_on(self.generate(files, prompt, options, on_text))
    }
}
