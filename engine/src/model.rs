//! A loaded model.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use futures_channel::{
    mpsc::{TrySendError, UnboundedSender},
    oneshot,
};
use wisp_pipelines::{
    EncodeRequest, EncoderTokenizer, GenerateOptions, ModelLimits, PipelineModel, TextEncoder,
    TextGenerator, TextProcessor, Utilization,
};
use wisp_session::InferenceSession;
use wisp_types::{BoxFuture, DeviceInfo};

use crate::{
    encoder_worker::{self, EncoderJob},
    error::Error,
    events::{Canceller, Events},
    worker::{self, Command, Ended, Job, SharedUtilization, reply},
};

/// A loaded model, which generates texts or computes embeddings.
///
/// Clones are cheap and share the loaded model. Several threads and tasks can use it at the same time:
/// one scheduler runs all their requests as one batch, and no request changes another's tokens. Native
/// builds run the model on its own thread, which ends after the last clone is dropped and the last
/// request has ended.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
}

struct Inner {
    info: ModelInfo,
    text: TextProcessor,
    limits: ModelLimits,
    session: InferenceSession,
    worker: Worker,
    /// Ready when the worker has ended and freed the model.
    ended: Ended,
    is_unloaded: AtomicBool,
    next_request: AtomicU64,
}

/// Facts about a loaded model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The name under which the model was loaded.
    pub name: String,
    /// The architecture, such as `llama`.
    pub architecture: String,
    /// True if the model computes embeddings, false if it generates text.
    pub is_encoder: bool,
    /// The number of elements of an embedding; `None` for a model that generates text.
    pub embedding_width: Option<usize>,
    /// True if the model has a chat template.
    pub has_chat_template: bool,
    /// The number of tokens in the vocabulary.
    pub vocab_size: u64,
    /// The context length in tokens: prompt and answer together.
    pub context_length: u64,
    /// Size of the weights in their files, in bytes.
    pub weight_bytes: u64,
}

/// The channel to the worker that owns the model.
enum Worker {
    Generator(UnboundedSender<Command>, SharedUtilization),
    Encoder(UnboundedSender<EncoderJob>, Arc<EncoderTokenizer>),
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("info", &self.inner.info)
            .field("device", &self.device().name)
            .finish_non_exhaustive()
    }
}

impl Model {
    /// Takes a model of your own: any implementation of [`PipelineModel`] generates like a built-in
    /// model. Its tokens are sampled on the session's device.
    ///
    /// # Errors
    ///
    /// If the device has no memory left for the sampler.
    pub async fn from_pipeline_model_async(
        session: &InferenceSession,
        model: impl PipelineModel,
        text: TextProcessor,
    ) -> Result<Model, Error> {
        let info = ModelInfo {
            name: text.name().into(),
            architecture: "custom".into(),
            is_encoder: false,
            embedding_width: None,
            has_chat_template: text.has_chat_template(),
            vocab_size: model.vocab_size(),
            context_length: model.limits().max_length,
            weight_bytes: 0,
        };
        let generator = TextGenerator::new(session, model, text).await?;
        Model::of_generator(info, session.clone(), generator)
    }

    /// Like [`Self::from_pipeline_model_async`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::from_pipeline_model_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn from_pipeline_model(
        session: &InferenceSession,
        model: impl PipelineModel,
        text: TextProcessor,
    ) -> Result<Model, Error> {
        pollster::block_on(Model::from_pipeline_model_async(session, model, text))
    }

    /// Creates the model of a loaded generator.
    pub(crate) fn of_generator(
        info: ModelInfo,
        session: InferenceSession,
        generator: TextGenerator,
    ) -> Result<Model, Error> {
        let (text, limits) = (generator.text().clone(), *generator.limits());
        let (commands, utilization, ended) = worker::start(generator)?;
        let worker = Worker::Generator(commands, utilization);
        Ok(Model::new(info, text, limits, session, worker, ended))
    }

    /// Creates the model of a loaded encoder.
    pub(crate) fn of_encoder(
        info: ModelInfo,
        session: InferenceSession,
        text: TextProcessor,
        encoder: TextEncoder,
    ) -> Result<Model, Error> {
        let limits = *encoder.limits();
        let tokenizer = encoder.tokenizer().clone();
        let (jobs, ended) = encoder_worker::start_encoder(encoder)?;
        let worker = Worker::Encoder(jobs, tokenizer);
        Ok(Model::new(info, text, limits, session, worker, ended))
    }

    fn new(
        info: ModelInfo,
        text: TextProcessor,
        limits: ModelLimits,
        session: InferenceSession,
        worker: Worker,
        ended: Ended,
    ) -> Model {
        let inner = Inner {
            info,
            text,
            limits,
            session,
            worker,
            ended,
            is_unloaded: AtomicBool::new(false),
            next_request: AtomicU64::new(1),
        };
        Model {
            inner: Arc::new(inner),
        }
    }

    /// Unloads the model: waits until the requests that have begun or wait have ended, and its memory is free. Later
    /// calls of other clones return [`Error::Unloaded`]. (Without this call, the memory becomes free some time after the
    /// last clone was dropped.)
    pub async fn unload_async(self) {
        self.inner.is_unloaded.store(true, Ordering::Relaxed);
        match &self.inner.worker {
            Worker::Generator(commands, _) => commands.close_channel(),
            Worker::Encoder(jobs, _) => jobs.close_channel(),
        }
        // The sender is dropped with the worker.
        let _ = self.inner.ended.clone().await;
    }

    /// Like [`Self::unload_async`], but blocks the thread.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn unload(self) {
        pollster::block_on(self.unload_async());
    }

    /// Returns facts about the model.
    pub fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// Returns the name under which the model was loaded.
    pub fn name(&self) -> &str {
        &self.inner.info.name
    }

    /// Returns the context length in tokens: prompt and answer together.
    pub fn context_length(&self) -> u64 {
        self.inner.info.context_length
    }

    /// Returns the size limits with which the model was loaded.
    pub fn limits(&self) -> &ModelLimits {
        &self.inner.limits
    }

    /// Returns how much of the model's capacity its requests used at the last step; nothing for an encoder.
    pub fn utilization(&self) -> Utilization {
        match &self.inner.worker {
            Worker::Generator(_, utilization) => utilization.get(),
            Worker::Encoder(..) => Utilization::default(),
        }
    }

    /// Returns the device that the model runs on.
    pub fn device(&self) -> &DeviceInfo {
        self.inner.session.device().info()
    }

    /// Returns the session that the model runs in, with its profiler, start-up times and memory use.
    pub fn session(&self) -> &InferenceSession {
        &self.inner.session
    }

    /// Returns the tokenizer, chat template and stop tokens.
    pub fn text(&self) -> &TextProcessor {
        &self.inner.text
    }

    /// Encodes a text as a prompt, with the tokens that the tokenizer puts at the beginning of a text.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer, or the tokenizer has no token for a part of the text.
    pub fn tokenize(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(self.inner.text.tokenizer()?.encode(text, true, true)?)
    }

    /// Returns the text of tokens, without control tokens.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer.
    pub fn detokenize(&self, tokens: &[u32]) -> Result<String, Error> {
        Ok(self.inner.text.tokenizer()?.decode(tokens, true))
    }

    /// Runs work on the generator itself when no request runs, for measurements and for features that
    /// this type does not offer. Requests wait until the work ends, so the work must not wait for one of
    /// this model. If it panics, the model ends, and later calls return [`Error::WorkerEnded`].
    ///
    /// # Errors
    ///
    /// The error of the work, or [`Error::NotAGenerator`].
    pub async fn exclusive<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut TextGenerator) -> BoxFuture<'a, Result<T, Error>>
        + Send
        + 'static,
    ) -> Result<T, Error> {
        self.run_as(Command::Exclusive, work).await
    }

    /// Runs work on the generator itself, as this command.
    pub(crate) async fn run_as<T: Send + 'static>(
        &self,
        command: fn(Job<TextGenerator>) -> Command,
        work: impl for<'a> FnOnce(&'a mut TextGenerator) -> BoxFuture<'a, Result<T, Error>>
        + Send
        + 'static,
    ) -> Result<T, Error> {
        let Worker::Generator(commands, _) = &self.inner.worker else {
            return Err(self.not_a_generator());
        };
        let (sender, receiver) = oneshot::channel();
        let job: Job<TextGenerator> = Box::new(move |generator| {
            // The caller may have gone while other work ran.
            let work = (!sender.is_canceled()).then(|| work(generator));
            Box::pin(async move {
                if let Some(work) = work {
                    let _ = sender.send(work.await);
                }
            })
        });
        self.sent(commands.unbounded_send(command(job)))?;
        reply(receiver).await
    }

    /// Like [`Self::exclusive`], but blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::exclusive`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn exclusive_blocking<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut TextGenerator) -> BoxFuture<'a, Result<T, Error>>
        + Send
        + 'static,
    ) -> Result<T, Error> {
        pollster::block_on(self.exclusive(work))
    }

    /// Returns the tokenizer of an encoder.
    ///
    /// # Errors
    ///
    /// [`Error::NotAnEncoder`] for a model that generates.
    pub(crate) fn encoder_tokenizer(&self) -> Result<&EncoderTokenizer, Error> {
        match &self.inner.worker {
            Worker::Encoder(_, tokenizer) => Ok(tokenizer),
            Worker::Generator(..) => Err(self.not_an_encoder()),
        }
    }

    /// Computes what an encoder is asked for of each text, in parts of at most as many texts as one batch has. Texts of
    /// others run between the parts, or together with them.
    pub(crate) async fn encode<I>(
        &self,
        texts: Vec<I>,
        request: impl Fn(Vec<I>) -> EncodeRequest,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let most = usize::try_from(self.limits().max_batch).unwrap_or(usize::MAX);
        let mut results = Vec::with_capacity(texts.len());
        let mut texts = texts.into_iter().peekable();
        loop {
            let part = texts.by_ref().take(most.max(1)).collect();
            let part = self.encode_part(request(part), results.len()).await?;
            results.extend(part);
            if texts.peek().is_none() {
                return Ok(results);
            }
        }
    }

    /// Computes what an encoder is asked for of texts that follow `before` others.
    async fn encode_part(
        &self,
        request: EncodeRequest,
        before: usize,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let Worker::Encoder(jobs, _) = &self.inner.worker else {
            return Err(self.not_an_encoder());
        };
        let (sender, receiver) = oneshot::channel();
        let job = EncoderJob {
            request,
            before,
            sender,
        };
        self.sent(jobs.unbounded_send(job))?;
        reply(receiver).await
    }

    /// Returns an error if a command could not be sent.
    fn sent<T>(&self, sent: Result<(), TrySendError<T>>) -> Result<(), Error> {
        sent.map_err(|_| self.gone())
    }

    /// Returns why there is no worker any more.
    fn gone(&self) -> Error {
        match self.inner.is_unloaded.load(Ordering::Relaxed) {
            true => Error::Unloaded,
            false => Error::WorkerEnded,
        }
    }

    fn not_a_generator(&self) -> Error {
        let model = self.name().to_string();
        Error::NotAGenerator { model }
    }

    fn not_an_encoder(&self) -> Error {
        let model = self.name().to_string();
        Error::NotAnEncoder { model }
    }

    /// Starts a request.
    pub(crate) fn submit(
        &self,
        prompt: Vec<u32>,
        options: GenerateOptions,
        canceller: Canceller,
    ) -> Events {
        let Worker::Generator(commands, _) = &self.inner.worker else {
            return Events::failed(self.not_a_generator());
        };
        let request = self.inner.next_request.fetch_add(1, Ordering::Relaxed);
        let (sender, events) = Events::channel(request, canceller);
        let command = Command::Generate {
            request,
            prompt,
            options: Box::new(options),
            events: sender,
        };
        match self.sent(commands.unbounded_send(command)) {
            Ok(()) => events,
            Err(error) => Events::failed(error),
        }
    }
}
