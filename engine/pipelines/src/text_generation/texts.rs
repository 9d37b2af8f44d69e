//! Texts of many requests: options in, events out, or whole generations.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use super::{
    TextGenerator,
    generation::{GenerateOptions, Generation, Stream, TextEvent, TextEvents},
};
use crate::{
    FinishReason, PipelineError, Request, RequestId, SampledToken, stoppable_text::StoppableText,
};

impl TextGenerator {
    /// Queues a prompt; [`Self::next_events`] brings its text.
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
        let stop_tokens = match options.ignore_eos {
            true => Vec::new(),
            false => self.text.stop_tokens().iter().copied().collect(),
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
        let detokenizer = self.text.detokenizer(prompt);
        let stream = Stream {
            text: StoppableText::new(detokenizer, options.stop.clone()),
            empty: options.max_new_tokens == Some(0),
        };
        self.streams.insert(id, stream);
        Ok(id)
    }

    /// Runs one step for all requests and returns what it brought: the events of one request in order,
    /// the last of them with its end. Empty once all have ended.
    ///
    /// # Errors
    ///
    /// As [`Self::step`].
    pub async fn next_events(&mut self) -> Result<TextEvents, PipelineError> {
        if !self.pending.is_empty() {
            let texts = std::mem::take(&mut self.pending);
            let prefill = Vec::new();
            return Ok(TextEvents { prefill, texts });
        }
        self.run_events().await
    }

    /// [`Self::next_events`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::next_events`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn next_events_blocking(&mut self) -> Result<TextEvents, PipelineError> {
        pollster::block_on(self.next_events())
    }

    async fn run_events(&mut self) -> Result<TextEvents, PipelineError> {
        let step = self.step().await?;
        let mut texts: Vec<TextEvent> = Vec::with_capacity(step.tokens.len());
        for sampled in step.tokens {
            // The steps of a batch go on behind a stop string.
            let ended = |event: &TextEvent| event.id == sampled.id && event.finish.is_some();
            if !texts.iter().any(ended) {
                let event = self.event(sampled);
                texts.push(event);
            }
        }
        let prefill = step.prefill;
        Ok(TextEvents { prefill, texts })
    }

    /// The event of a sampled token.
    fn event(&mut self, sampled: SampledToken) -> TextEvent {
        let ends = matches!(
            sampled.finish,
            Some(FinishReason::Stop | FinishReason::NonFinite)
        );
        let mut event = TextEvent {
            id: sampled.id,
            token: Some(sampled.token).filter(|_| !ends),
            text: String::new(),
            score: sampled.score,
            prompt_scores: sampled.prompt_scores,
            finish: sampled.finish,
        };
        let Some(stream) = self.streams.get_mut(&sampled.id) else {
            return event;
        };
        if stream.empty && event.finish != Some(FinishReason::NonFinite) {
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
            self.cancel(sampled.id);
        }
        event
    }

    /// Ends a request and returns the rest of its text: what was held back because a character or a stop
    /// string could have followed.
    pub fn finish_text(&mut self, id: RequestId) -> String {
        let stream = self.streams.get_mut(&id);
        let rest = stream.map(|stream| stream.text.finish());
        self.cancel(id);
        rest.unwrap_or_default()
    }

    /// Generates for one prompt and hands out its text as it comes: one piece a token, which is
    /// empty while a character or a stop string is incomplete. `on_text` may end it.
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
        Ok(generations.await?.pop().unwrap_or_default())
    }

    /// [`Self::generate`], blocking the thread.
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

    /// Generates for many prompts at once, each with its own options, and hands out their texts with
    /// the prompt's number as they come. `on_text` may end a prompt's text. The generations are in the
    /// order of the prompts, and each is the same as if it were generated alone.
    ///
    /// # Errors
    ///
    /// As [`Self::add`] and [`Self::step`], and [`PipelineError::NotFinite`] if a text ended so; then
    /// none of the prompts runs on.
    pub async fn generate_many(
        &mut self,
        requests: &[(&[u32], &GenerateOptions)],
        mut on_text: impl FnMut(usize, &str) -> ControlFlow<()>,
    ) -> Result<Vec<Generation>, PipelineError> {
        let mut many = Many::new(requests.len());
        let result = self.run_many(requests, &mut many, &mut on_text).await;
        // On an error none of them runs on; else none is left.
        for id in many.running.into_keys() {
            self.cancel(id);
        }
        result.map(|()| many.generations)
    }

    async fn run_many(
        &mut self,
        requests: &[(&[u32], &GenerateOptions)],
        many: &mut Many,
        on_text: &mut impl FnMut(usize, &str) -> ControlFlow<()>,
    ) -> Result<(), PipelineError> {
        for (number, (prompt, options)) in requests.iter().enumerate() {
            let id = self.add_request(prompt, options)?;
            if options.max_new_tokens == Some(0) && !options.sampling.scores_prompt() {
                // Nothing is wanted of the model.
                self.cancel(id);
            } else {
                many.running.insert(id, number);
            }
        }
        while !many.running.is_empty() {
            for event in self.run_events().await?.texts {
                self.take_event(event, many, on_text)?;
            }
            if self.scheduler.is_idle() {
                break;
            }
        }
        Ok(())
    }

    /// Takes an event to its generation; one of another request waits for [`Self::next_events`].
    fn take_event(
        &mut self,
        event: TextEvent,
        many: &mut Many,
        on_text: &mut impl FnMut(usize, &str) -> ControlFlow<()>,
    ) -> Result<(), PipelineError> {
        let Some(number) = many.running.get(&event.id).copied() else {
            // The steps of a batch go on behind a text that was ended here.
            if !many.ended.contains(&event.id) {
                self.pending.push(event);
            }
            return Ok(());
        };
        if event.finish == Some(FinishReason::NonFinite) {
            return Err(PipelineError::NotFinite);
        }
        let (id, generation) = (event.id, &mut many.generations[number]);
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
        Ok(())
    }
}

/// The state of [`TextGenerator::generate_many`].
struct Many {
    generations: Vec<Generation>,
    /// The requests that run, with their numbers.
    running: HashMap<RequestId, usize>,
    /// The requests that `on_text` ended.
    ended: HashSet<RequestId>,
}

impl Many {
    fn new(count: usize) -> Many {
        Many {
            generations: vec![Generation::default(); count],
            running: HashMap::new(),
            ended: HashSet::new(),
        }
    }
}
