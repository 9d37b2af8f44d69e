//! Text generation: turns requests into tokens and text.

mod adapters;
mod generation;
mod logits;
mod step_error;
mod texts;
mod tune;

use std::collections::{HashMap, VecDeque};

use web_time::Instant;
use wisp_session::{InferenceSession, OnProgress};

use super::{
    CheckpointModel, DecoderModel, ModelFiles, ModelLimits, PipelineError, PipelineModel,
    TextProcessor,
    batch::Batch,
    kv_cache::PrefixHits,
    pace::Pace,
    request::{Request, RequestId},
    runner::{Runner, SubmittedBatch},
    scheduler::{Scheduler, StepEvents},
    utilization::Utilization,
};

use generation::Stream;
pub use generation::{EndingToken, GenerateOptions, Generation, TextEvent, TextEvents};
pub use step_error::StepError;

/// A model that generates for many requests at once.
///
/// Requests can be added and cancelled at any time, each with its own settings. A step runs all of
/// them as one batch, and no request changes another's tokens. [`Self::add_request`] and
/// [`Self::next_events`] work with texts, [`Self::add`] and [`Self::step`] with tokens;
/// [`Self::cancel`] ends a request of either kind.
///
/// The model can be any [`PipelineModel`]: [`Self::load`] loads a checkpoint of a built-in
/// architecture, [`Self::new`] takes a model of your own.
#[derive(Debug)]
pub struct TextGenerator {
    runner: Runner,
    scheduler: Scheduler,
    /// The batches that the device works on, the oldest first: at most the one whose tokens are awaited and the
    /// one after it.
    submitted: VecDeque<SubmittedBatch>,
    /// The requests of the batch whose submission has begun and not ended. If the future that submits it is
    /// dropped, nobody knows how far the device came.
    submitting: Vec<RequestId>,
    /// Whether the device may still work on a batch that was dropped. The next one waits for it, so that its duration
    /// does not tell the pace.
    abandoned: bool,
    text: TextProcessor,
    /// The texts of requests from [`Self::add_request`].
    streams: HashMap<RequestId, Stream>,
    /// How much work a step takes.
    pace: Pace,
    /// Events of other requests that arrived during [`Self::generate_many`].
    pending: Vec<TextEvent>,
}

impl TextGenerator {
    /// Loads a model's files to a session's device. `progress` is called with the bytes of weights
    /// loaded so far and the total.
    ///
    /// # Errors
    ///
    /// If the files are inconsistent, or the device has too little memory.
    pub async fn load(
        session: &InferenceSession,
        files: &ModelFiles,
        limits: ModelLimits,
        progress: Option<OnProgress<'_>>,
    ) -> Result<TextGenerator, PipelineError> {
        let model = DecoderModel::load(session, files, limits, progress).await?;
        TextGenerator::new(session, model, TextProcessor::of(files)).await
    }

    /// Like [`Self::load`], but blocks the thread.
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

    /// Creates a generator from a loaded model. Its tokens are sampled on the session's device.
    ///
    /// # Errors
    ///
    /// If the device has no memory left for the sampler, a limit of the model is zero or absurdly large, or its steps
    /// have no room for a token of every sequence of a batch.
    pub async fn new(
        session: &InferenceSession,
        model: impl PipelineModel,
        text: TextProcessor,
    ) -> Result<TextGenerator, PipelineError> {
        model.limits().check_loaded()?;
        let splits_prompts = model.splits_prompts();
        let runner = Runner::new(session, Box::new(model)).await?;
        Ok(TextGenerator {
            scheduler: Scheduler::new(*runner.model.limits()),
            runner,
            submitted: VecDeque::new(),
            submitting: Vec::new(),
            abandoned: false,
            text,
            streams: HashMap::new(),
            pace: Pace::new(splits_prompts),
            pending: Vec::new(),
        })
    }

    /// Like [`Self::new`], but blocks the thread.
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

    /// Returns the model.
    pub fn model(&self) -> &dyn PipelineModel {
        &*self.runner.model
    }

    /// Returns the model if it is the built-in decoder.
    pub fn decoder(&self) -> Option<&DecoderModel> {
        let model: &dyn std::any::Any = self.model();
        model.downcast_ref()
    }

    /// Returns the model's tokenizer, chat template and stop tokens.
    pub fn text(&self) -> &TextProcessor {
        &self.text
    }

    /// Returns the size limits with which the model was loaded.
    pub fn limits(&self) -> &ModelLimits {
        self.model().limits()
    }

    /// Returns the kernel calls of the sampler per step.
    pub fn sampler_dispatches(&self) -> usize {
        self.runner.sampler_dispatches()
    }

    /// Queues a request.
    ///
    /// # Errors
    ///
    /// If the request can never run: it is too long, has a token outside the vocabulary or a parameter
    /// out of range, or its adapter has been unloaded.
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

    /// Ends a request and frees its pages at once. Returns false if there is no such request.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        self.streams.remove(&id);
        self.scheduler.cancel(id)
    }

    /// Forgets the prefixes of earlier prompts: later prompts are computed whole.
    pub fn forget_prefixes(&mut self) {
        self.scheduler.forget_prefixes();
    }

    /// Returns how many prompt tokens were found in the cache.
    pub fn prefix_hits(&self) -> PrefixHits {
        self.scheduler.prefix_hits()
    }

    /// Returns the number of preemptions: how often a request gave up its pages and later started
    /// over.
    pub fn preemptions(&self) -> u64 {
        self.scheduler.preemptions()
    }

    /// Returns how much of the generator's capacity its requests use.
    pub fn utilization(&self) -> Utilization {
        self.scheduler.utilization()
    }

    /// Returns whether no request runs or waits and all events have been returned.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle() && self.pending.is_empty()
    }

    /// Runs one step for all requests and returns its results. If the model
    /// [executes asynchronously](PipelineModel::executes_asynchronously), the next step is submitted before the results
    /// of this one are awaited.
    ///
    /// The future may be dropped: no token is lost. If a step was being submitted, its requests start over with
    /// the tokens they have.
    ///
    /// # Errors
    ///
    /// If the device or the model fails. The requests that took part in the step have then ended, and
    /// the error names them; the others continue with the next step.
    pub async fn step(&mut self) -> Result<StepEvents, StepError> {
        self.scheduler.set_pace(self.pace);
        // A batch whose requests have all ended needs no waiting for: what follows runs after it on the device.
        let before = self.submitted.len();
        self.submitted
            .retain(|submitted| self.scheduler.runs_any(&submitted.batch));
        if self.submitted.len() < before || !self.submitting.is_empty() {
            self.abandoned = true;
            for submitted in &mut self.submitted {
                submitted.since = None;
            }
        }
        if self.submitted.is_empty() {
            self.scheduler
                .start_over(&std::mem::take(&mut self.submitting));
            let batch = self.scheduler.schedule();
            if batch.is_empty() {
                return Ok(StepEvents::default());
            }
            self.submit(batch).await?;
        }
        self.sample().await?;
        self.submit_ahead().await?;
        let Some(oldest) = self.submitted.front_mut() else {
            return Ok(StepEvents::default());
        };
        let outputs = oldest.outputs().await;
        let Some(SubmittedBatch { batch, since, .. }) = self.submitted.pop_front() else {
            return Ok(StepEvents::default());
        };
        if let Some(next) = self.submitted.front_mut() {
            // The device begins with it now, unless it works on an abandoned one first.
            next.since = next.since.map(|_| Instant::now());
        }
        match outputs {
            Ok(outputs) => {
                if let Some(since) = since {
                    self.pace.observe(&batch, since.elapsed().as_secs_f64());
                }
                Ok(self.scheduler.accept(&batch, outputs))
            }
            Err(source) => Err(self.fail(batch.requests(), source)),
        }
    }

    /// Samples the oldest batch, if it awaited the tokens of the one before it. The call that returned these did not do it:
    /// its caller should have them at once, and they would be lost if it were dropped.
    async fn sample(&mut self) -> Result<(), StepError> {
        let oldest = self.submitted.front();
        if !oldest.is_some_and(SubmittedBatch::awaits_sampling) {
            return Ok(());
        }
        let Some(mut awaiting) = self.submitted.pop_front() else {
            return Ok(());
        };
        self.scheduler.update(&mut awaiting.batch);
        self.submitting = awaiting.batch.requests();
        let scheduler = &mut self.scheduler;
        let masks = |ids: &[RequestId], words: &mut [u32]| scheduler.masks(ids, words);
        match self.runner.sample(awaiting, masks).await {
            Ok(sampled) => {
                self.submitted.push_front(sampled);
                self.submitting.clear();
                Ok(())
            }
            Err(source) => Err(self.fail(Vec::new(), source)),
        }
    }

    /// Submits a batch, behind the one that is in flight if there is one.
    async fn submit(&mut self, batch: Batch) -> Result<(), StepError> {
        self.submitting = batch.requests();
        let is_idle = self.submitted.is_empty();
        let scheduler = &mut self.scheduler;
        let masks = |ids: &[RequestId], words: &mut [u32]| scheduler.masks(ids, words);
        match self.runner.submit(batch, is_idle, masks).await {
            Ok(mut submitted) => {
                if std::mem::take(&mut self.abandoned) {
                    submitted.since = None;
                }
                self.submitted.push_back(submitted);
                self.submitting.clear();
                Ok(())
            }
            Err(source) => Err(self.fail(Vec::new(), source)),
        }
    }

    /// Submits the batch after the one whose tokens are awaited, if there is one that can be scheduled before.
    async fn submit_ahead(&mut self) -> Result<(), StepError> {
        let [awaited] = self.submitted.make_contiguous() else {
            return Ok(());
        };
        // If an earlier call was dropped halfway, its requests must start over first.
        if !self.runner.runs_ahead() || !self.submitting.is_empty() {
            return Ok(());
        }
        let batch = self.scheduler.schedule_behind(&awaited.batch);
        if batch.is_empty() {
            return Ok(());
        }
        self.submit(batch).await
    }

    /// Ends the requests of a batch that failed, and those of the batches that are in flight or were being submitted.
    fn fail(&mut self, mut requests: Vec<RequestId>, source: PipelineError) -> StepError {
        let in_flight = self.submitted.drain(..);
        requests.extend(in_flight.flat_map(|submitted| submitted.batch.requests()));
        requests.append(&mut self.submitting);
        self.abandoned = true;
        // Each once: the others have ended by then.
        let requests = self.scheduler.fail(&requests);
        for id in &requests {
            self.streams.remove(id);
        }
        StepError {
            requests,
            source: Box::new(source),
        }
    }

    /// Like [`Self::step`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::step`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn step_blocking(&mut self) -> Result<StepEvents, StepError> {
        pollster::block_on(self.step())
    }
}
