//! Text generation: requests in, tokens and text out.

mod adapters;
mod generation;
mod logits;
mod texts;

use std::collections::HashMap;

use wisp_session::{InferenceSession, OnProgress};

use super::{
    CheckpointModel, DecoderModel, ModelFiles, ModelLimits, PipelineError, PipelineModel,
    TextProcessor,
    kv_cache::PrefixHits,
    request::{Request, RequestId},
    runner::Runner,
    scheduler::{Scheduler, StepEvents},
};

use generation::Stream;
pub use generation::{GenerateOptions, Generation, TextEvent, TextEvents};

/// A model that generates for many requests at once.
///
/// Requests come and go at any time, each with its own settings; a step runs them all as one batch,
/// and none changes another's tokens. [`Self::add_request`] and [`Self::next_events`] are the level
/// of texts, [`Self::add`] and [`Self::step`] that of tokens; [`Self::cancel`] ends a request of either.
///
/// The model may be any [`PipelineModel`]: [`Self::load`] takes a checkpoint of a built-in architecture,
/// [`Self::new`] a model of one's own.
#[derive(Debug)]
pub struct TextGenerator {
    runner: Runner,
    scheduler: Scheduler,
    text: TextProcessor,
    /// The texts of requests that were added with their options.
    streams: HashMap<RequestId, Stream>,
    /// Events of requests that were added beside a running [`Self::generate_many`].
    pending: Vec<TextEvent>,
}

impl TextGenerator {
    /// Loads a model's files to a session's device; `progress` is called with the bytes of weights
    /// loaded so far and in all.
    ///
    /// # Errors
    ///
    /// If the files do not fit together, or the device has not enough memory.
    pub async fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<OnProgress<'_>>,
    ) -> Result<TextGenerator, PipelineError> {
        let model = DecoderModel::load(session, files, limits, progress).await?;
        TextGenerator::new(session, model, TextProcessor::of(files)).await
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

    /// Generates with a loaded model. Its tokens are sampled on the session's device.
    ///
    /// # Errors
    ///
    /// If the device has no memory left for the sampler.
    pub async fn new(
        session: &InferenceSession,
        model: impl PipelineModel,
        text: TextProcessor,
    ) -> Result<TextGenerator, PipelineError> {
        let runner = Runner::new(session, Box::new(model)).await?;
        Ok(TextGenerator {
            scheduler: Scheduler::new(*runner.model.limits()),
            runner,
            text,
            streams: HashMap::new(),
            pending: Vec::new(),
        })
    }

    /// [`Self::new`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new_blocking(
        session: &InferenceSession,
        model: impl PipelineModel,
        text: TextProcessor,
    ) -> Result<TextGenerator, PipelineError> {
        pollster::block_on(TextGenerator::new(session, model, text))
    }

    /// The model.
    pub fn model(&self) -> &dyn PipelineModel {
        &*self.runner.model
    }

    /// The model, if it is the built-in decoder.
    pub fn decoder(&self) -> Option<&DecoderModel> {
        let model: &dyn std::any::Any = self.model();
        model.downcast_ref()
    }

    /// The model's tokenizer, chat template and stop tokens.
    pub fn text(&self) -> &TextProcessor {
        &self.text
    }

    /// The sizes that the model was made for.
    pub fn limits(&self) -> &ModelLimits {
        self.model().limits()
    }

    /// Kernel calls of the sampler for one step.
    pub fn sampler_dispatches(&self) -> usize {
        self.runner.sampler_dispatches()
    }

    /// Queues a request.
    ///
    /// # Errors
    ///
    /// If it can never run: too long, a token outside the vocabulary, a parameter out of range, an
    /// adapter that is not loaded any more.
    pub fn add(&mut self, request: Request) -> Result<RequestId, PipelineError> {
        request.sampling.check()?;
        let vocab_size = self.model().vocab_size();
        let biased = request.sampling.logit_bias.iter().map(|(token, _)| token);
        let mut named = request.tokens.iter().chain(biased);
        if let Some(token) = named.find(|token| u64::from(**token) >= vocab_size) {
            return Err(PipelineError::UnknownToken {
                token: *token,
                vocab_size,
            });
        }
        if let Some(adapter) = request.adapter {
            self.check_adapter(adapter)?;
        }
        Ok(self.scheduler.add(request)?)
    }

    /// Ends a request; its pages are free at once. False if there is no such request.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        self.streams.remove(&id);
        self.scheduler.cancel(id)
    }

    /// How many tokens of the prompts were found in the cache.
    pub fn prefix_hits(&self) -> PrefixHits {
        self.scheduler.prefix_hits()
    }

    /// How often a request gave its pages to another and started over later.
    pub fn preemptions(&self) -> u64 {
        self.scheduler.preemptions()
    }

    /// True if no request runs or waits, and all events were handed out.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle() && self.pending.is_empty()
    }

    /// Runs one step for all requests and returns what it brought.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub async fn step(&mut self) -> Result<StepEvents, PipelineError> {
        let batch = self.scheduler.schedule();
        if batch.is_empty() {
            return Ok(StepEvents::default());
        }
        let outputs = self.runner.run(&batch).await?;
        Ok(self.scheduler.accept(&batch, outputs))
    }
}
