//! Texts of many requests, as events or as complete generations.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use super::{
    StepError, TextGenerator,
    generation::{EndingToken, GenerateOptions, Generation, Stream, TextEvent, TextEvents},
};
use crate::{
    FinishReason, PipelineError, Request, RequestId, SampledToken, sampler::NO_TOKEN,
    stoppable_text::StoppableText,
};

impl TextGenerator {
    /// Queues a prompt; [`Self::next_events`] returns its text.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn add_request(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<RequestId, PipelineError> {
        let max_length = self.limits().max_length as usize;
        let mut stop_tokens = options.stop_tokens.clone();
        if !options.ignore_eos {
            stop_tokens.extend(self.text.stop_tokens());
        }
        let adapter = options.adapter.as_deref();
        let adapter = adapter.map(|name| self.adapter(name)).transpose()?;
        let empty = options.max_new_tokens == Some(0);
        let id = self.add(Request {
            client: options.client,
            tokens: prompt.to_vec(),
            sampling: options.sampling.clone(),
            max_new_tokens: options.max_new_tokens.unwrap_or(max_length),
            stop_tokens,
            adapter,
            constraint: options.constraint.clone().filter(|_| !empty),
        })?;
        let mut detokenizer = self.text.detokenizer(prompt, &options.visible_tokens);
        if let (Some(detokenizer), Some(_)) = (&mut detokenizer, &options.constraint) {
            // The text is the constraint's from its first byte on.
            detokenizer.drop_incomplete();
        }
        let stream = Stream {
            text: StoppableText::new(detokenizer, options.stop.clone()),
            empty,
        };
        self.streams.insert(id, stream);
        Ok(id)
    }

    /// Runs one step for all requests and returns its results. The events of one request are in order,
    /// and the last one contains its end. Empty when all requests have ended.
    ///
    /// # Errors
    ///
    /// As [`Self::step`].
    pub async fn next_events(&mut self) -> Result<TextEvents, StepError> {
        if !self.pending.is_empty() {
            let texts = std::mem::take(&mut self.pending);
            let prefill = Vec::new();
            return Ok(TextEvents { prefill, texts });
        }
        self.run_events().await
    }

    /// Like [`Self::next_events`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::next_events`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn next_events_blocking(&mut self) -> Result<TextEvents, StepError> {
        pollster::block_on(self.next_events())
    }

    async fn run_events(&mut self) -> Result<TextEvents, StepError> {
        let step = self.step().await?;
        let mut texts: Vec<TextEvent> = Vec::with_capacity(step.tokens.len());
        let mut ended = HashSet::new();
        for sampled in step.tokens {
            // The remaining steps of a batch still run after a stop string.
            if ended.contains(&sampled.id) {
                continue;
            }
            let event = self.event(sampled);
            if event.finish.is_some() {
                ended.insert(event.id);
            }
            texts.push(event);
        }
        let prefill = step.prefill;
        Ok(TextEvents { prefill, texts })
    }

    /// Returns the event of a sampled token.
    fn event(&mut self, sampled: SampledToken) -> TextEvent {
        let ends = matches!(
            sampled.finish,
            Some(FinishReason::Stop | FinishReason::NonFinite | FinishReason::ConstraintFailed)
        );
        // No token ends a text whose constraint is complete.
        let has_ending = sampled.finish == Some(FinishReason::Stop) && sampled.token != NO_TOKEN;
        let mut event = TextEvent {
            id: sampled.id,
            token: Some(sampled.token).filter(|_| !ends),
            ending: has_ending.then(|| EndingToken {
                token: sampled.token,
                score: sampled.score.clone(),
            }),
            text: String::new(),
            score: sampled.score,
            prompt_scores: sampled.prompt_scores,
            cached_tokens: sampled.cached_tokens,
            stop_string: None,
            finish: sampled.finish,
        };
        let Some(stream) = self.streams.get_mut(&sampled.id) else {
            return event;
        };
        if stream.empty && event.finish != Some(FinishReason::NonFinite) {
            event.token = None;
            event.ending = None;
            event.finish = Some(FinishReason::Length);
        }
        if let Some(token) = event.token {
            event.text = stream.text.push(token);
        } else {
            event.score = None;
        }
        event.stop_string.clone_from(&stream.text.stopped);
        if event.stop_string.is_some() {
            event.finish = Some(FinishReason::Stop);
        }
        if event.finish.is_some() {
            event.text.push_str(&stream.text.finish());
            self.cancel(sampled.id);
        }
        event
    }

    /// Ends a request and returns the rest of its text: the part that was held back because it could
    /// be an incomplete character or stop string.
    pub fn finish_text(&mut self, id: RequestId) -> String {
        let stream = self.streams.get_mut(&id);
        let rest = stream.map(|stream| stream.text.finish());
        self.cancel(id);
        rest.unwrap_or_default()
    }

    /// Generates for one prompt and passes its text to `on_text`: one piece per token, which is empty
    /// while a character or a stop string is incomplete, and an empty piece for each computed part of
    /// a long prompt. `on_text` can end the generation at any of them.
    ///
    /// # Errors
    ///
    /// As [`Self::generate_many`].
    pub async fn generate(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        mut on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, PipelineError> {
        let requests = [(prompt, options)];
        let generations = self.generate_many(&requests, |_, text| on_text(text));
        let generation = generations.await?.pop();
        generation.unwrap_or_else(|| Ok(Generation::default()))
    }

    /// Like [`Self::generate`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::generate`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn generate_blocking(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, PipelineError> {
        pollster::block_on(self.generate(prompt, options, on_text))
    }

    /// Generates for many prompts at once, each with its own options, and passes pieces of their texts
    /// to `on_text` with the prompt's number. `on_text` can end a prompt's generation. Returns the
    /// generations in the order of the prompts; each is the same as if it were generated alone. A
    /// prompt that fails gets its error in place of a generation, and the others continue: errors of
    /// [`Self::add`], and [`PipelineError::NotFinite`] if the model computes no finite logits for it.
    ///
    /// # Errors
    ///
    /// As [`Self::step`]. All prompts are then cancelled, as they are when the future is dropped.
    pub async fn generate_many(
        &mut self,
        requests: &[(&[u32], &GenerateOptions)],
        mut on_text: impl FnMut(usize, &str) -> ControlFlow<()>,
    ) -> Result<Vec<Result<Generation, PipelineError>>, PipelineError> {
        let mut running = Running {
            many: Many::new(requests.len()),
            generator: self,
        };
        let Running { many, generator } = &mut running;
        generator.add_many(requests, many);
        generator.run_many(many, &mut on_text).await?;
        Ok(std::mem::take(&mut many.generations))
    }

    /// Like [`Self::generate_many`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::generate_many`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn generate_many_blocking(
        &mut self,
        requests: &[(&[u32], &GenerateOptions)],
        on_text: impl FnMut(usize, &str) -> ControlFlow<()>,
    ) -> Result<Vec<Result<Generation, PipelineError>>, PipelineError> {
        pollster::block_on(self.generate_many(requests, on_text))
    }

    /// Queues prompts; those that cannot run get their error.
    fn add_many(&mut self, requests: &[(&[u32], &GenerateOptions)], many: &mut Many) {
        for (number, (prompt, options)) in requests.iter().enumerate() {
            match self.add_request(prompt, options) {
                Err(error) => many.generations[number] = Err(error),
                // No token is requested from the model.
                Ok(id)
                    if options.max_new_tokens == Some(0) && !options.sampling.scores_prompt() =>
                {
                    self.cancel(id);
                }
                Ok(id) => {
                    many.running.insert(id, number);
                }
            }
        }
    }

    async fn run_many(
        &mut self,
        many: &mut Many,
        on_text: &mut impl FnMut(usize, &str) -> ControlFlow<()>,
    ) -> Result<(), PipelineError> {
        while !many.running.is_empty() {
            match self.run_events().await {
                Ok(events) => {
                    for progress in events.prefill {
                        self.offer_break(progress.id, many, on_text);
                    }
                    for event in events.texts {
                        self.take_event(event, many, on_text);
                    }
                }
                Err(error) => {
                    self.keep_failed(&error, many);
                    return Err(*error.source);
                }
            }
            if self.scheduler.is_idle() {
                break;
            }
        }
        Ok(())
    }

    /// Lets `on_text` end a generation whose prompt is being computed.
    fn offer_break(
        &mut self,
        id: RequestId,
        many: &mut Many,
        on_text: &mut impl FnMut(usize, &str) -> ControlFlow<()>,
    ) {
        let Some(number) = many.running.get(&id).copied() else {
            return;
        };
        if let Ok(generation) = &mut many.generations[number]
            && on_text(number, "").is_break()
        {
            generation.finish_reason = FinishReason::Cancelled;
            self.cancel(id);
            many.running.remove(&id);
        }
    }

    /// Keeps the ends of other requests that a failed step ended, for [`Self::next_events`].
    fn keep_failed(&mut self, error: &StepError, many: &Many) {
        let others = error.requests.iter();
        let others = others.filter(|id| !many.running.contains_key(id));
        self.pending.extend(others.map(|id| TextEvent {
            id: *id,
            token: None,
            ending: None,
            text: String::new(),
            score: None,
            prompt_scores: Vec::new(),
            cached_tokens: 0,
            stop_string: None,
            finish: Some(FinishReason::Failed),
        }));
    }

    /// Adds an event to its generation; events of other requests are kept for [`Self::next_events`].
    fn take_event(
        &mut self,
        event: TextEvent,
        many: &mut Many,
        on_text: &mut impl FnMut(usize, &str) -> ControlFlow<()>,
    ) {
        let Some(number) = many.running.get(&event.id).copied() else {
            // The remaining steps of a batch still run after `on_text` has ended the text.
            if !many.ended.contains(&event.id) {
                self.pending.push(event);
            }
            return;
        };
        let id = event.id;
        let request = Some(id);
        let failure = match event.finish {
            Some(FinishReason::NonFinite) => Some(PipelineError::NotFinite { request }),
            Some(FinishReason::ConstraintFailed) => {
                Some(PipelineError::ConstraintFailed { request: id })
            }
            _ => None,
        };
        if let Some(failure) = failure {
            many.generations[number] = Err(failure);
            many.running.remove(&id);
            return;
        }
        let Ok(generation) = &mut many.generations[number] else {
            return;
        };
        let shown = event.token.is_some() || !event.text.is_empty();
        let finish = generation.take(event);
        if shown && on_text(number, &generation.text[generation.shown..]).is_break() {
            generation.finish_reason = FinishReason::Cancelled;
            generation.text.push_str(&self.finish_text(id));
            many.running.remove(&id);
            many.ended.insert(id);
        } else if finish {
            many.running.remove(&id);
        }
        generation.shown = generation.text.len();
    }
}

/// A run of [`TextGenerator::generate_many`], which cancels what is left when it ends: after an error, and when its
/// future is dropped.
struct Running<'g> {
    many: Many,
    generator: &'g mut TextGenerator,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        for (id, _) in self.many.running.drain() {
            self.generator.cancel(id);
        }
    }
}

/// The state of [`TextGenerator::generate_many`].
struct Many {
    generations: Vec<Result<Generation, PipelineError>>,
    /// The running requests with their prompts' numbers.
    running: HashMap<RequestId, usize>,
    /// The requests that `on_text` ended.
    ended: HashSet<RequestId>,
}

impl Many {
    fn new(count: usize) -> Many {
        Many {
            generations: (0..count).map(|_| Ok(Generation::default())).collect(),
            running: HashMap::new(),
            ended: HashSet::new(),
        }
    }
}
