//! Text generation: requests in, tokens and text out.

use std::{collections::BTreeSet, ops::ControlFlow};

use crate::session::InferenceSession;

use super::{
    PipelineError, SamplingParams,
    checkpoint::ModelFiles,
    kv_cache::PagePool,
    model::{ModelLimits, PipelineModel, TokenInputs},
    scheduler::{Drawn, FinishReason, Limits, Request, RequestId, Scheduler},
    tokenizer::Detokenizer,
};

/// What the sampling kernel writes when no logit is a finite number.
const NOTHING_DRAWN: u32 = u32::MAX;

/// A model that generates for many requests at once.
#[derive(Debug)]
pub struct TextGenerator {
    model: PipelineModel,
    scheduler: Scheduler,
}

impl TextGenerator {
    /// Loads a model's files to a session's device.
    ///
    /// # Errors
    ///
    /// If the files do not fit together, or the device has not enough memory.
    pub async fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<&(dyn Fn(u64, u64) + Send + Sync)>,
    ) -> Result<TextGenerator, PipelineError> {
        let names = files.recognised.names;
        let spec = files.recognised.decoder()?.clone();
        let model =
            PipelineModel::load(session, spec, names, &files.checkpoint, limits, progress).await?;
        let limits = model.limits();
        let pool = PagePool::new(limits.total_pages() as u32, limits.page_size);
        let scheduler = Scheduler::new(
            Limits {
                max_batch: limits.max_batch as usize,
                max_step_tokens: limits.max_step_tokens as usize,
                max_length: limits
                    .max_length
                    .min(limits.total_pages() * u64::from(limits.page_size))
                    as usize,
                max_steps: limits.max_steps as usize,
                max_prefill: limits.max_prefill as usize,
            },
            pool,
        );
        Ok(TextGenerator { model, scheduler })
    }

    /// [`Self::load`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_blocking(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<TextGenerator, PipelineError> {
        pollster::block_on(TextGenerator::load(session, files, limits, None))
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

    /// The model.
    pub fn model(&self) -> &PipelineModel {
        &self.model
    }

    /// Queues a request.
    ///
    /// # Errors
    ///
    /// If it can never run: too long, a token outside the vocabulary, a parameter out of range.
    pub fn add(&mut self, request: Request) -> Result<RequestId, PipelineError> {
        request.sampling.check()?;
        let vocab_size = self.model.spec().vocab_size;
        if let Some(token) = request
            .tokens
            .iter()
            .find(|token| u64::from(**token) >= vocab_size)
        {
            return Err(PipelineError::UnknownToken {
                token: *token,
                vocab_size,
            });
        }
        Ok(self.scheduler.add(request)?)
    }

    /// Ends a request; its pages are free at once. False if there is none.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        self.scheduler.cancel(id)
    }

    /// True if nothing runs or waits.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Runs one step for all requests and returns what it drew.
    ///
    /// # Errors
    ///
    /// If the device fails, or the model computes no finite logits.
    pub async fn step(&mut self) -> Result<Vec<Drawn>, PipelineError> {
        for slot in self.scheduler.admit() {
            if let Some(sequence) = self.scheduler.sequence(slot) {
                self.model.set_seen(slot, &sequence.tokens)?;
            }
        }
        let step = self.scheduler.schedule();
        if step.chunks.is_empty() {
            return Ok(Vec::new());
        }
        let drawn = self.model.step(&self.scheduler, &step).await?;
        if drawn.iter().flatten().any(|token| *token == NOTHING_DRAWN) {
            return Err(PipelineError::NotFinite);
        }
        Ok(self.scheduler.accept(&step, &drawn))
    }

    /// The logits of every position of a text, `[tokens, vocab]`, in pieces as they come.
    ///
    /// # Errors
    ///
    /// If the text does not fit, or the device fails.
    pub async fn logits(
        &mut self,
        tokens: &[u32],
        mut piece: impl FnMut(&[f32]),
    ) -> Result<(), PipelineError> {
        let limits = *self.model.limits();
        let max_length = limits.max_length as usize;
        if tokens.len() > max_length || tokens.is_empty() || !self.is_idle() {
            return Err(PipelineError::Request(match tokens.len() {
                0 => super::RequestError::Empty,
                tokens => super::RequestError::TooLong { tokens, max_length },
            }));
        }
        let pages = limits.pages_per_sequence() as u32;
        let chunk = limits.max_logit_rows.min(limits.max_step_tokens).max(1) as usize;
        for (i, part) in tokens.chunks(chunk).enumerate() {
            let start = (i * chunk) as u32;
            let mut page_table: Vec<u32> = (0..pages).collect();
            page_table.resize((u64::from(pages) * limits.max_batch) as usize, 0);
            let inputs = TokenInputs {
                tokens: part.to_vec(),
                index: (start..start + part.len() as u32)
                    .map(|position| [0, position])
                    .collect(),
                logit_rows: (0..part.len() as u32).collect(),
                page_table,
            };
            let logits = self.model.execute(&inputs).await?;
            if logits.iter().any(|logit| !logit.is_finite()) {
                return Err(PipelineError::NotFinite);
            }
            piece(&logits);
        }
        Ok(())
    }

    /// Generates for one prompt and hands out its text as it comes: one piece a token, which is
    /// empty while a character or a stop string is incomplete. `on_text` may break off.
    ///
    /// # Errors
    ///
    /// As [`Self::add`] and [`Self::step`].
    pub async fn generate(
        &mut self,
        files: &ModelFiles,
        prompt: &[u32],
        options: &GenerateOptions,
        mut on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, PipelineError> {
        let max_length = self.model.limits().max_length as usize;
        let stop_tokens: Vec<u32> = if options.ignore_eos {
            Vec::new()
        } else {
            files.stop_tokens.iter().copied().collect()
        };
        let id = self.add(Request {
            tokens: prompt.to_vec(),
            sampling: options.sampling,
            max_new_tokens: options.max_new_tokens.unwrap_or(max_length),
            stop_tokens,
        })?;
        let detokenizer = files.tokenizer.as_ref().ok().map(|tokenizer| {
            let mut detokenizer = tokenizer.detokenizer(true);
            detokenizer.skip(prompt);
            detokenizer
        });
        let mut text = StoppableText::new(detokenizer, options.stop.clone());
        let mut generation = Generation {
            tokens: Vec::new(),
            text: String::new(),
            finish_reason: FinishReason::Length,
        };
        if options.max_new_tokens == Some(0) {
            self.cancel(id);
            return Ok(generation);
        }
        'steps: loop {
            let drawn = match self.step().await {
                Ok(drawn) => drawn,
                Err(error) => {
                    self.cancel(id);
                    return Err(error);
                }
            };
            for event in drawn.iter().filter(|event| event.id == id) {
                let mut flow = ControlFlow::Continue(());
                if event.finish != Some(FinishReason::Stop) {
                    generation.tokens.push(event.token);
                    let piece = text.push(event.token);
                    generation.text.push_str(&piece);
                    flow = on_text(&piece);
                }
                if let Some(reason) = event.finish {
                    generation.finish_reason = reason;
                    break 'steps;
                }
                if text.stopped {
                    generation.finish_reason = FinishReason::Stop;
                    self.cancel(id);
                    break 'steps;
                }
                if flow.is_break() {
                    generation.finish_reason = FinishReason::Cancelled;
                    self.cancel(id);
                    break 'steps;
                }
            }
            if self.is_idle() {
                break;
            }
        }
        let rest = text.finish();
        generation.text.push_str(&rest);
        if !rest.is_empty() {
            let _ = on_text(&rest);
        }
        Ok(generation)
    }
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
}

/// What was generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The tokens, without the one that ended the text.
    pub tokens: Vec<u32>,
    /// Their text; empty without a tokenizer.
    pub text: String,
    /// Why it ended.
    pub finish_reason: FinishReason,
}

/// Text that ends at the first of some stop strings, however tokens cut them.
struct StoppableText {
    detokenizer: Option<Detokenizer>,
    stop: BTreeSet<String>,
    /// Text that might be the beginning of a stop string.
    held: String,
    stopped: bool,
}

impl StoppableText {
    fn new(detokenizer: Option<Detokenizer>, stop: Vec<String>) -> StoppableText {
        let stop = stop.into_iter().filter(|stop| !stop.is_empty()).collect();
        StoppableText {
            detokenizer,
            stop,
            held: String::new(),
            stopped: false,
        }
    }

    /// Takes a token and returns the text that is certain with it.
    fn push(&mut self, token: u32) -> String {
        let piece = self
            .detokenizer
            .as_mut()
            .and_then(|detokenizer| detokenizer.push(token));
        self.held.push_str(piece.as_deref().unwrap_or_default());
        if let Some(at) = self
            .stop
            .iter()
            .filter_map(|stop| self.held.find(stop.as_str()))
            .min()
        {
            self.stopped = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let open = |at: &usize| {
            self.stop
                .iter()
                .any(|stop| stop.starts_with(&self.held[*at..]))
        };
        let keep = self
            .held
            .char_indices()
            .map(|(at, _)| at)
            .find(open)
            .unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        std::mem::replace(&mut self.held, rest)
    }

    /// What is left at the end.
    fn finish(&mut self) -> String {
        if self.stopped {
            return String::new();
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend(self.detokenizer.as_mut().and_then(Detokenizer::finish));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds pieces of text past the detokenizer.
    fn feed(pieces: &[&str], stop: &[&str]) -> (String, bool) {
        let mut text = StoppableText::new(None, stop.iter().map(|stop| stop.to_string()).collect());
        let mut got = String::new();
        for piece in pieces {
            text.held.push_str(piece);
            got.push_str(&text.push(0));
            if text.stopped {
                break;
            }
        }
        got.push_str(&text.finish());
        (got, text.stopped)
    }

    #[test]
    fn stop_strings_are_found_across_pieces() {
        assert_eq!(
            feed(&["one ", "tw", "o three"], &["two"]),
            ("one ".into(), true)
        );
        assert_eq!(feed(&["a", "a", "b"], &["aab"]), ("".into(), true));
        assert_eq!(feed(&["ab", "ac"], &["abad"]), ("abac".into(), false));
        assert_eq!(feed(&["é", "à la"], &["à"]), ("é".into(), true));
        assert_eq!(feed(&["text"], &[]), ("text".into(), false));
    }
}
