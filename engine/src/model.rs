//! A loaded model.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_channel::{mpsc::UnboundedSender, oneshot};
use wisp_pipelines::{
    AdapterFiles, Embeddings, GenerateOptions, LoraManager, ModelFiles, ModelLimits, PipelineModel,
    TextEncoder, TextGenerator, TextProcessor,
};
use wisp_session::InferenceSession;
use wisp_types::{BoxFuture, DeviceInfo};

use crate::{
    Canceller, Chat, Completion, Embedder, Error, Events, Generate, ModelBuilder, OpenModel,
    embed::reply,
    generate::Prompt,
    worker::{self, Command, Job},
};

/// A loaded model, which generates texts or makes embeddings.
///
/// Clones are cheap and share the loaded model. It can be used from several threads and tasks at once:
/// one scheduler runs the requests of all of them as one batch, and no request changes another's tokens.
/// Natively it has a thread of its own, which ends with the last clone and the last request.
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
    next_request: AtomicU64,
}

/// What is known of a loaded model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The name that it was loaded by.
    pub name: String,
    /// The architecture, such as `llama`.
    pub architecture: String,
    /// True if it makes embeddings, false if it continues texts.
    pub is_encoder: bool,
    /// True if it has a chat template.
    pub has_chat_template: bool,
    /// The number of tokens in its vocabulary.
    pub vocab_size: u64,
    /// Tokens that the loaded model can see at once, prompt and answer together.
    pub context_length: u64,
    /// Bytes of the weights in their files.
    pub weight_bytes: u64,
}

/// The worker that owns the model.
enum Worker {
    Generator(UnboundedSender<Command>),
    Encoder(UnboundedSender<Job<TextEncoder>>),
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
    /// Loads a model with default settings, blocking the thread: a `.gguf` file, a directory in Hugging
    /// Face's layout, or a repository of a hub (`org/name`, `org/name:q4_k` or `org/name:file.gguf`),
    /// which is downloaded unless the cache has it. [`Self::builder`] has all settings.
    ///
    /// # Errors
    ///
    /// If there is no such model, its files are damaged, or the device has not enough memory.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load(name: impl Into<String>) -> Result<Model, Error> {
        Model::builder(name).load()
    }

    /// [`Self::load`] without blocking the task: a thread of its own does the work.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub async fn load_async(name: impl Into<String>) -> Result<Model, Error> {
        Model::builder(name).load_async().await
    }

    /// The settings to load a model with; the name is that of [`Self::load`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn builder(name: impl Into<String>) -> ModelBuilder {
        ModelBuilder::new(name)
    }

    /// Bytes of device memory that a model would take with default settings, without loading it (but
    /// downloading it, if need be).
    ///
    /// # Errors
    ///
    /// If there is no such model, or its files are damaged.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn estimate(name: impl Into<String>) -> Result<wisp_compiler::Footprint, Error> {
        Model::builder(name).estimate()
    }

    /// A model whose files are open already: in memory, or streamed by a browser. The settings are the
    /// default ones; [`ModelBuilder::with_files`] takes others.
    ///
    /// # Errors
    ///
    /// If the files are not what Wisp can run.
    pub fn from_files(files: ModelFiles) -> Result<OpenModel, Error> {
        ModelBuilder::default().with_files(files)
    }

    /// A model of one's own: whatever implements [`PipelineModel`] generates like a built-in one. Its
    /// tokens are sampled on the session's device.
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
            has_chat_template: text.has_chat_template(),
            vocab_size: model.vocab_size(),
            context_length: model.limits().max_length,
            weight_bytes: 0,
        };
        let generator = TextGenerator::new(session, model, text).await?;
        Ok(Model::of_generator(info, session.clone(), generator))
    }

    /// [`Self::from_pipeline_model_async`], blocking the thread.
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

    /// The model of a loaded generator.
    pub(crate) fn of_generator(
        info: ModelInfo,
        session: InferenceSession,
        generator: TextGenerator,
    ) -> Model {
        let (text, limits) = (generator.text().clone(), *generator.limits());
        let worker = Worker::Generator(worker::start(generator));
        Model::new(info, text, limits, session, worker)
    }

    /// The model of a loaded encoder.
    pub(crate) fn of_encoder(
        info: ModelInfo,
        session: InferenceSession,
        text: TextProcessor,
        encoder: TextEncoder,
    ) -> Model {
        let limits = *encoder.limits();
        let worker = Worker::Encoder(worker::start_encoder(encoder));
        Model::new(info, text, limits, session, worker)
    }

    fn new(
        info: ModelInfo,
        text: TextProcessor,
        limits: ModelLimits,
        session: InferenceSession,
        worker: Worker,
    ) -> Model {
        let inner = Inner {
            info,
            text,
            limits,
            session,
            worker,
            next_request: AtomicU64::new(1),
        };
        Model {
            inner: Arc::new(inner),
        }
    }

    /// What is known of the model.
    pub fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// The name that the model was loaded by.
    pub fn name(&self) -> &str {
        &self.inner.info.name
    }

    /// Tokens that the model can see at once, prompt and answer together.
    pub fn context_length(&self) -> u64 {
        self.inner.info.context_length
    }

    /// The sizes that the model was made for.
    pub fn limits(&self) -> &ModelLimits {
        &self.inner.limits
    }

    /// The device that the model runs on.
    pub fn device(&self) -> &DeviceInfo {
        self.inner.session.device().info()
    }

    /// The session that the model runs in: its profiler, start times and memory.
    pub fn session(&self) -> &InferenceSession {
        &self.inner.session
    }

    /// The tokenizer, chat template and stop tokens.
    pub fn text(&self) -> &TextProcessor {
        &self.inner.text
    }

    /// The tokens of a text as a prompt has them: with the tokens that the tokenizer begins a text with.
    ///
    /// # Errors
    ///
    /// If there is no tokenizer, or it has no token for a part of the text.
    pub fn tokenize(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(self.inner.text.tokenizer()?.encode(text, true, true)?)
    }

    /// The text of tokens, without control tokens.
    ///
    /// # Errors
    ///
    /// If there is no tokenizer.
    pub fn detokenize(&self, tokens: &[u32]) -> Result<String, Error> {
        Ok(self.inner.text.tokenizer()?.decode(tokens, true))
    }

    /// A request to continue a text.
    pub fn generate(&self, text: impl Into<String>) -> Generate {
        Generate::new(self, Prompt::Text(text.into()))
    }

    /// A request to continue tokens, which are used as they are.
    pub fn generate_tokens(&self, tokens: impl Into<Vec<u32>>) -> Generate {
        Generate::new(self, Prompt::Tokens(tokens.into()))
    }

    /// A new conversation.
    pub fn chat(&self) -> Chat {
        Chat::new(self)
    }

    /// An embedding of each text, blocking the thread; [`Self::embedder`] has settings.
    ///
    /// # Errors
    ///
    /// If the model is no encoder, a text is empty, or the device fails.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn embed<T: AsRef<str>>(&self, texts: &[T]) -> Result<Embeddings, Error> {
        self.embedder().embed(texts)
    }

    /// [`Self::embed`] without blocking the task.
    ///
    /// # Errors
    ///
    /// As [`Self::embed`].
    pub async fn embed_async<T: AsRef<str>>(&self, texts: &[T]) -> Result<Embeddings, Error> {
        self.embedder().embed_async(texts).await
    }

    /// The settings of embeddings.
    pub fn embedder(&self) -> Embedder {
        Embedder::new(self)
    }

    /// Runs many requests of this or other models at once, blocking the thread; the completions are in
    /// the requests' order.
    ///
    /// # Errors
    ///
    /// The first failure; the other requests are then cancelled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn complete_many(
        &self,
        requests: impl IntoIterator<Item = Generate>,
    ) -> Result<Vec<Completion>, Error> {
        pollster::block_on(self.complete_many_async(requests))
    }

    /// [`Self::complete_many`] without blocking the task.
    ///
    /// # Errors
    ///
    /// As [`Self::complete_many`].
    pub async fn complete_many_async(
        &self,
        requests: impl IntoIterator<Item = Generate>,
    ) -> Result<Vec<Completion>, Error> {
        // All begin before any is waited for.
        let events: Vec<Events> = requests.into_iter().map(Generate::events).collect();
        let mut completions = Vec::with_capacity(events.len());
        for events in events {
            completions.push(events.completion().await?);
        }
        Ok(completions)
    }

    /// The logits of every position of a text, `[tokens, vocab_size]`. Waits until no request runs.
    ///
    /// # Errors
    ///
    /// If the tokens do not fit the context, the adapter is not loaded, a logit is not finite, or the
    /// device fails.
    pub async fn logits_async(
        &self,
        tokens: &[u32],
        adapter: Option<&str>,
    ) -> Result<Vec<f32>, Error> {
        let append = |all: &mut Vec<f32>, rows: &[f32]| all.extend_from_slice(rows);
        self.fold_logits_async(tokens, adapter, Vec::new(), append)
            .await
    }

    /// [`Self::logits_async`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::logits_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn logits(&self, tokens: &[u32], adapter: Option<&str>) -> Result<Vec<f32>, Error> {
        pollster::block_on(self.logits_async(tokens, adapter))
    }

    /// Folds the logits of every position of a text, which need not be in memory all at once: `fold` is
    /// called with the rows `[rows, vocab_size]` of some positions at a time, in their order. Waits until
    /// no request runs.
    ///
    /// # Errors
    ///
    /// As [`Self::logits_async`].
    pub async fn fold_logits_async<T: Send + 'static>(
        &self,
        tokens: &[u32],
        adapter: Option<&str>,
        mut folded: T,
        mut fold: impl FnMut(&mut T, &[f32]) + Send + 'static,
    ) -> Result<T, Error> {
        let (tokens, adapter) = (tokens.to_vec(), adapter.map(String::from));
        let work = self.exclusive(move |generator| {
            Box::pin(async move {
                let adapter = adapter.map(|name| generator.adapter(&name)).transpose()?;
                let logits = generator.logits(&tokens, adapter, |rows| fold(&mut folded, rows));
                logits.await?;
                Ok(folded)
            })
        });
        work.await
    }

    /// [`Self::fold_logits_async`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::logits_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn fold_logits<T: Send + 'static>(
        &self,
        tokens: &[u32],
        adapter: Option<&str>,
        folded: T,
        fold: impl FnMut(&mut T, &[f32]) + Send + 'static,
    ) -> Result<T, Error> {
        pollster::block_on(self.fold_logits_async(tokens, adapter, folded, fold))
    }

    /// The names of the low-rank adapters that are loaded. Waits until no request runs.
    ///
    /// # Errors
    ///
    /// If the model is an encoder.
    pub async fn adapters_async(&self) -> Result<Vec<String>, Error> {
        let work = self.exclusive(move |generator| {
            let loras = generator.lora_manager().map(LoraManager::loras);
            let names = loras.into_iter().flatten().map(String::from).collect();
            Box::pin(async move { Ok(names) })
        });
        work.await
    }

    /// [`Self::adapters_async`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::adapters_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn adapters(&self) -> Result<Vec<String>, Error> {
        pollster::block_on(self.adapters_async())
    }

    /// Loads a low-rank adapter under a name, after which requests can [use it](Generate::adapter). Waits
    /// until no request runs.
    ///
    /// # Errors
    ///
    /// If the name is taken, the model has no room for adapters
    /// ([`ModelBuilder::adapters`]), or the adapter does not fit it.
    pub async fn load_adapter_async(&self, name: &str, files: AdapterFiles) -> Result<(), Error> {
        let name = name.to_string();
        let work = self.exclusive(move |generator| {
            Box::pin(async move { Ok(generator.load_adapter(&name, &files)?) })
        });
        work.await
    }

    /// [`Self::load_adapter_async`] from a folder as PEFT writes it, blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::load_adapter_async`], and if the folder cannot be read.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn load_adapter(
        &self,
        name: &str,
        folder: impl AsRef<std::path::Path>,
    ) -> Result<(), Error> {
        let files = AdapterFiles::open(folder.as_ref())?;
        pollster::block_on(self.load_adapter_async(name, files))
    }

    /// Unloads an adapter. Waits until no request runs.
    ///
    /// # Errors
    ///
    /// If no adapter of that name is loaded.
    pub async fn unload_adapter_async(&self, name: &str) -> Result<(), Error> {
        let name = name.to_string();
        let work = self.exclusive(move |generator| {
            Box::pin(async move { Ok(generator.unload_adapter(&name)?) })
        });
        work.await
    }

    /// [`Self::unload_adapter_async`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::unload_adapter_async`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn unload_adapter(&self, name: &str) -> Result<(), Error> {
        pollster::block_on(self.unload_adapter_async(name))
    }

    /// Runs work on the generator itself, when no request runs: for measurements and for what this type
    /// does not offer.
    ///
    /// # Errors
    ///
    /// The work's own, or [`Error::NotAGenerator`].
    pub async fn exclusive<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut TextGenerator) -> BoxFuture<'a, Result<T, Error>>
        + Send
        + 'static,
    ) -> Result<T, Error> {
        let Worker::Generator(commands) = &self.inner.worker else {
            return Err(self.not_a_generator());
        };
        let (sender, receiver) = oneshot::channel();
        let job: Job<TextGenerator> = Box::new(move |generator| {
            let work = work(generator);
            Box::pin(async move {
                let _ = sender.send(work.await);
            })
        });
        let _ = commands.unbounded_send(Command::Exclusive(job));
        reply(receiver).await
    }

    /// Runs work on the encoder.
    pub(crate) async fn encode<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut TextEncoder) -> BoxFuture<'a, Result<T, Error>>
        + Send
        + 'static,
    ) -> Result<T, Error> {
        let Worker::Encoder(jobs) = &self.inner.worker else {
            let model = self.name().to_string();
            return Err(Error::NotAnEncoder { model });
        };
        let (sender, receiver) = oneshot::channel();
        let job: Job<TextEncoder> = Box::new(move |encoder| {
            let work = work(encoder);
            Box::pin(async move {
                let _ = sender.send(work.await);
            })
        });
        let _ = jobs.unbounded_send(job);
        reply(receiver).await
    }

    fn not_a_generator(&self) -> Error {
        let model = self.name().to_string();
        Error::NotAGenerator { model }
    }

    /// The tokens of a prompt.
    pub(crate) fn prompt_tokens(&self, prompt: &Prompt) -> Result<Vec<u32>, Error> {
        match prompt {
            Prompt::Text(text) => self.tokenize(text),
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
            Prompt::Chat {
                messages,
                control_tokens,
            } => Ok(self.inner.text.chat_prompt(messages, *control_tokens)?),
        }
    }

    /// Begins a request.
    pub(crate) fn submit(
        &self,
        prompt: Vec<u32>,
        options: GenerateOptions,
        canceller: Canceller,
    ) -> Events {
        let Worker::Generator(commands) = &self.inner.worker else {
            return Events::failed(self.not_a_generator());
        };
        let request = self.inner.next_request.fetch_add(1, Ordering::Relaxed);
        let (sender, events) = Events::channel(request, canceller);
        let command = Command::Generate {
            request,
            prompt,
            options,
            events: sender,
        };
        // If the worker is gone, the command is dropped, and the events end with `Error::WorkerEnded`.
        let _ = commands.unbounded_send(command);
        events
    }
}
