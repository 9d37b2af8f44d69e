//! Text generation: requests in, tokens and text out.

use std::collections::HashMap;

use wisp_session::InferenceSession;

use super::{
    PipelineError,
    kv_cache::{PagePool, PrefixHits},
    limits::ModelLimits,
    lora::{Adapter, LoraError, LoraManager},
    model::DecoderModel,
    model_files::ModelFiles,
    pipeline_model::{PipelineModel, TokenInputs},
    request::{Request, RequestId},
    sampler::NO_TOKEN,
    scheduler::{Limits, SampledToken, Scheduler},
};

mod adapters;
mod texts;

use texts::Stream;
pub use texts::{GenerateOptions, Generation, TextEvent};

/// A model that generates for many requests at once.
///
/// Requests come and go at any time, each with its own settings; a step runs them all as one batch,
/// and none changes another's tokens. [`Self::add_request`] and [`Self::next_events`] are the level
/// of texts, [`Self::add`] and [`Self::step`] that of tokens; [`Self::cancel`] ends a request of either.
///
/// ```
/// use wisp_engine::{
///     device::Device,
///     pipelines::{
///         ModelLimits, SamplingParams,
///         model_files::ModelFiles,
///         text_generation::{GenerateOptions, TextGenerator},
///     },
///     session::InferenceSession,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../native-demo/model/wisp-tiny.gguf");
/// let files = ModelFiles::open(path.as_ref())?;
/// let session = InferenceSession::new(Device::host(0)?);
/// let limits = ModelLimits { max_length: 64, max_batch: 2, ..ModelLimits::default() };
/// let mut generator = TextGenerator::load_blocking(&session, &files, limits)?;
///
/// let greedy = GenerateOptions { max_new_tokens: Some(8), ..GenerateOptions::default() };
/// let sampling = SamplingParams { temperature: 0.8, seed: 1, ..SamplingParams::default() };
/// let drawn = GenerateOptions { sampling, ..greedy.clone() };
/// let first = generator.add_request(&files, &[1, 5, 9], &greedy)?;
/// let second = generator.add_request(&files, &[1, 7], &drawn)?;
/// let mut texts = [String::new(), String::new()];
/// while !generator.is_idle() {
///     for event in pollster::block_on(generator.next_events())? {
///         texts[usize::from(event.id == second)] += &event.text;
///     }
/// }
/// assert!(!generator.cancel(first), "it has ended");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TextGenerator {
    model: DecoderModel,
    scheduler: Scheduler,
    /// The texts of requests that were added with their options.
    streams: HashMap<RequestId, Stream>,
    /// Events that [`Self::generate_many`] met and that are another's.
    pending: Vec<TextEvent>,
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
        let model = DecoderModel::load(session, files, limits, progress).await?;
        let limits = model.limits();
        let pool = PagePool::new(limits.total_pages() as u32, limits.page_size)
            .with_prefix_caching(limits.prefix_caching);
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
                max_logit_rows: limits.max_logit_rows as usize,
            },
            pool,
        );
        Ok(TextGenerator {
            model,
            scheduler,
            streams: HashMap::new(),
            pending: Vec::new(),
        })
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

    /// The model.
    pub fn model(&self) -> &DecoderModel {
        &self.model
    }

    /// Queues a request.
    ///
    /// # Errors
    ///
    /// If it can never run: too long, a token outside the vocabulary, a parameter out of range, an
    /// adapter that is not loaded any more.
    pub fn add(&mut self, request: Request) -> Result<RequestId, PipelineError> {
        request.sampling.check()?;
        let vocab_size = self.model.spec().vocab_size;
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

    /// Ends a request; its pages are free at once. False if there is none.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        self.streams.remove(&id);
        self.scheduler.cancel(id)
    }

    /// How much of the prompts was found in the cache.
    pub fn prefix_hits(&self) -> PrefixHits {
        self.scheduler.prefix_hits()
    }

    /// How often a request gave its pages to another and started over later.
    pub fn preemptions(&self) -> u64 {
        self.scheduler.preemptions()
    }

    /// True if nothing runs or waits, and all events were handed out.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle() && self.pending.is_empty()
    }

    /// Runs one step for all requests and returns what it drew.
    ///
    /// # Errors
    ///
    /// If the device fails, or the model computes no finite logits.
    pub async fn step(&mut self) -> Result<Vec<SampledToken>, PipelineError> {
        for slot in self.scheduler.admit() {
            if let Some(sequence) = self.scheduler.sequence(slot) {
                self.model.begin(sequence)?;
            }
        }
        let step = self.scheduler.schedule();
        if step.chunks.is_empty() {
            return Ok(Vec::new());
        }
        let outputs = self.model.step(&self.scheduler, &step).await?;
        let mut drawn = outputs.iter().flat_map(|output| &output.tokens);
        if drawn.any(|token| *token == NO_TOKEN) {
            return Err(PipelineError::NotFinite);
        }
        Ok(self.scheduler.accept(&step, outputs))
    }

    /// The logits of every position of a text, `[tokens, vocab]`, in pieces as they come.
    ///
    /// # Errors
    ///
    /// If the text does not fit, or the device fails.
    pub async fn logits(
        &mut self,
        tokens: &[u32],
        piece: impl FnMut(&[f32]),
    ) -> Result<(), PipelineError> {
        self.adapted_logits(tokens, None, piece).await
    }

    /// [`Self::logits`] with an adapter.
    ///
    /// # Errors
    ///
    /// As [`Self::logits`], or if the adapter is not loaded any more.
    pub async fn adapted_logits(
        &mut self,
        tokens: &[u32],
        adapter: Option<Adapter>,
        mut piece: impl FnMut(&[f32]),
    ) -> Result<(), PipelineError> {
        let limits = *self.model.limits();
        let positions = limits.total_pages() * u64::from(limits.page_size);
        let max_length = limits.max_length.min(positions) as usize;
        if tokens.len() > max_length || tokens.is_empty() || !self.is_idle() {
            return Err(PipelineError::Request(match tokens.len() {
                0 => super::RequestError::Empty,
                tokens => super::RequestError::TooLong { tokens, max_length },
            }));
        }
        if let Some(adapter) = adapter {
            self.check_adapter(adapter)?;
        }
        // It writes to the first pages, whatever they hold.
        self.scheduler.forget_prefixes();
        let pages = limits.pages_per_sequence() as u32;
        let chunk = limits.max_logit_rows.min(limits.max_step_tokens).max(1) as usize;
        for (i, part) in tokens.chunks(chunk).enumerate() {
            let start = (i * chunk) as u32;
            // Those that there are; no position is beyond them.
            let mut page_table: Vec<u32> = (0..pages.min(limits.total_pages() as u32)).collect();
            page_table.resize((u64::from(pages) * limits.max_batch) as usize, 0);
            let mut inputs = TokenInputs {
                tokens: part.to_vec(),
                index: (start..start + part.len() as u32)
                    .map(|position| [0, position])
                    .collect(),
                logit_rows: (0..part.len() as u32).collect(),
                page_table,
                adapters: Vec::new(),
            };
            inputs.adapt(0, adapter);
            let logits = self.model.execute(&inputs).await?.logits;
            if logits.iter().any(|logit| !logit.is_finite()) {
                return Err(PipelineError::NotFinite);
            }
            piece(&logits);
        }
        Ok(())
    }
}
