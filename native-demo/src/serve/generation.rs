//! The texts of a request, which run in the model's scheduler at the same time.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_core::Stream;
use serde_json::{Value, json};
use tokio::time::timeout;
use wisp_engine::{
    Completion, Error, Event, Events, FinishReason, Generate, Model,
    chat::ChatPrompt,
    pipelines::{PipelineError, RequestError},
};

use super::{
    admission::Slots,
    error::ApiError,
    models::ServedModel,
    request_facts::RequestFacts,
    sampling::{GenerationParams, StreamUsage},
    state::Server,
    text_record::{TextPhase, TextRecord},
};

/// What tells clients that answers to equal seeds may differ: the program's version.
pub const FINGERPRINT: &str = concat!("wisp-", env!("CARGO_PKG_VERSION"));

/// The time that a stream waits for its first event. After it the stream begins, so that clients and proxies do not
/// take a request in the queue for a lost one.
const FIRST_EVENT_TIME: Duration = Duration::from_secs(10);

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Tokens of all prompts.
    pub prompt: usize,
    /// Tokens of the prompts that the prefix cache held when the first text of each prompt began; known once those
    /// have ended.
    pub cached: usize,
    /// Generated tokens of all texts, with those that ended them.
    pub completion: usize,
    /// Those among them that are thoughts; known once the texts have ended.
    pub reasoning: usize,
}

/// What a text continues.
#[derive(Debug)]
pub enum Source {
    /// Tokens.
    Tokens(Vec<u32>),
    /// A conversation.
    Chat(Box<ChatPrompt>),
}

impl Source {
    fn tokens(&self) -> &[u32] {
        match self {
            Source::Tokens(tokens) => tokens,
            Source::Chat(prompt) => &prompt.tokens,
        }
    }

    fn request(&self, model: &Model) -> Generate {
        match self {
            Source::Tokens(tokens) => model.generate_tokens(tokens.clone()),
            Source::Chat(prompt) => model.answer(prompt),
        }
    }
}

/// The running texts of a request. Dropping them cancels them within one step.
#[derive(Debug)]
pub struct Texts {
    texts: Vec<Text>,
    /// The text that is polled first, so that none has to wait for others.
    next: usize,
    /// Texts of each prompt.
    choices: usize,
    /// The tokens so far.
    pub counts: TokenCounts,
    facts: RequestFacts,
    _slots: Slots,
}

#[derive(Debug)]
struct Text {
    /// The tokens of its prompt.
    prompt_tokens: usize,
    events: Events,
    /// An event that was received, but not returned yet.
    early: Option<Result<Event, Error>>,
    tokens: usize,
    started: Instant,
    phase: TextPhase,
    /// Whether the model has begun to compute it.
    has_run: bool,
    served: Arc<ServedModel>,
    server: Arc<Server>,
}

impl Texts {
    /// Starts the texts of some prompts, `params.choices` of each, and waits for the first event, so that what is
    /// wrong with the parameters is known before the answer begins. A stream waits for some seconds only.
    ///
    /// # Errors
    ///
    /// If a prompt does not fit the model, a parameter is out of range, or the queue is full.
    pub async fn start(
        server: &Arc<Server>,
        served: &Arc<ServedModel>,
        prompts: Vec<Source>,
        params: &GenerationParams,
    ) -> Result<Texts, ApiError> {
        let mut texts = Texts::queue(server, served, prompts, params)?;
        let limit = params.stream.then_some(FIRST_EVENT_TIME);
        texts.wait(limit).await?;
        Ok(texts)
    }

    /// Queues the texts of some prompts.
    fn queue(
        server: &Arc<Server>,
        served: &Arc<ServedModel>,
        prompts: Vec<Source>,
        params: &GenerationParams,
    ) -> Result<Texts, ApiError> {
        if served.model.info().is_encoder {
            let model = served.id.clone();
            return Err(ApiError::from(Error::NotAGenerator { model }).about("model"));
        }
        prompts
            .iter()
            .try_for_each(|prompt| check(served, prompt.tokens()))?;
        let biases = params.options.sampling.logit_bias.iter();
        check_tokens(served, biases.map(|(token, _)| token))
            .map_err(|error| error.about("logit_bias"))?;
        let slots = served
            .admission
            .enter(params.options.client, prompts.len(), params.choices)?;
        let prompt_tokens = prompts.iter().map(|prompt| prompt.tokens().len()).sum();
        server.metrics.count_prompt(served, prompt_tokens);
        params.facts.set_prompt(&served.id, prompt_tokens);
        let mut texts = Vec::with_capacity(prompts.len() * params.choices);
        for (number, prompt) in prompts.into_iter().enumerate() {
            let tokens = prompt.tokens().len();
            for choice in 0..params.choices {
                let mut options = params.options_of(number, choice);
                options.adapter.clone_from(&served.adapter);
                let request = prompt.request(&served.model);
                let events = request.options(options).events();
                texts.push(Text::new(server, served, tokens, events));
            }
        }
        Ok(Texts {
            texts,
            next: 0,
            choices: params.choices,
            counts: TokenCounts {
                prompt: prompt_tokens,
                ..TokenCounts::default()
            },
            facts: params.facts.clone(),
            _slots: slots,
        })
    }

    /// Waits for the first event, for no longer than `limit` if there is one.
    async fn wait(&mut self, limit: Option<Duration>) -> Result<(), ApiError> {
        let Some(first) = self.texts.first_mut() else {
            return Ok(());
        };
        let next = first.events.next();
        let event = match limit {
            // The stream begins without an event, and reports later errors itself.
            Some(limit) => timeout(limit, next).await.ok().flatten(),
            None => next.await,
        };
        match event {
            Some(Err(error)) => {
                first.enter(TextPhase::Failed);
                Err(first.served.failed(error))
            }
            event => {
                first.early = event;
                Ok(())
            }
        }
    }

    /// Takes note of the error that ends a stream.
    pub fn fail(&self, error: &ApiError) {
        self.facts.lock().error = Some(error.clone());
    }

    /// Returns the number of texts.
    pub fn count(&self) -> usize {
        self.texts.len()
    }

    /// Returns the next event of any text with the text's number; `None` when all have ended.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<(usize, Result<Event, Error>)>> {
        let count = self.texts.len();
        let mut all_ended = true;
        for at in (self.next..count).chain(0..self.next) {
            let text = &mut self.texts[at];
            let event = match text.early.take() {
                Some(event) => Poll::Ready(Some(event)),
                None => Pin::new(&mut text.events).poll_next(context),
            };
            match event {
                Poll::Ready(Some(event)) => {
                    text.note(&event);
                    match &event {
                        Ok(Event::Token { .. } | Event::Ending(_)) => self.counts.completion += 1,
                        Ok(Event::End { usage, .. }) => {
                            self.counts.reasoning += usage.reasoning_tokens;
                            if at % self.choices == 0 {
                                self.counts.cached += usage.cached_tokens;
                            }
                        }
                        _ => {}
                    }
                    self.next = at + 1;
                    return Poll::Ready(Some((at, event)));
                }
                Poll::Ready(None) => {}
                Poll::Pending => all_ended = false,
            }
        }
        match all_ended {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }

    /// Waits for the ends of all texts.
    ///
    /// # Errors
    ///
    /// If one fails; the others are cancelled.
    pub async fn complete(&mut self) -> Result<Vec<Completion>, ApiError> {
        let mut completions = vec![Completion::default(); self.count()];
        while let Some((text, event)) =
            std::future::poll_fn(|context| self.poll_next(context)).await
        {
            completions[text].push(event?);
        }
        Ok(completions)
    }
}

impl Drop for Texts {
    fn drop(&mut self) {
        let mut facts = self.facts.lock();
        facts.completion_tokens = self.counts.completion;
        if let Some(first) = self.texts.first() {
            let timings = first.events.timings();
            (facts.queued, facts.first_token) = (timings.queued, timings.first_token);
        }
    }
}

impl Text {
    fn new(
        server: &Arc<Server>,
        served: &Arc<ServedModel>,
        prompt_tokens: usize,
        events: Events,
    ) -> Text {
        server.metrics.begin_text(served);
        Text {
            prompt_tokens,
            events,
            early: None,
            tokens: 0,
            started: Instant::now(),
            phase: TextPhase::Waiting,
            has_run: false,
            served: served.clone(),
            server: server.clone(),
        }
    }

    /// Takes note of what an event says about the text's progress.
    fn note(&mut self, event: &Result<Event, Error>) {
        match event {
            Ok(Event::Token { .. } | Event::Ending(_)) => self.tokens += 1,
            Ok(Event::End { reason, .. }) => return self.enter(TextPhase::Ended(*reason)),
            Err(error) => {
                self.served.health.note(error);
                return self.enter(TextPhase::Failed);
            }
            _ => {}
        }
        if self.phase == TextPhase::Waiting {
            self.enter(TextPhase::Running);
        }
    }

    fn enter(&mut self, phase: TextPhase) {
        if phase == TextPhase::Running {
            self.has_run = true;
            self.server.metrics.run_text(&self.served);
        }
        self.phase = phase;
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.server.metrics.end_text(&TextRecord {
            served: &self.served,
            prompt_tokens: self.prompt_tokens,
            tokens: self.tokens,
            timings: self.events.timings(),
            elapsed: self.started.elapsed(),
            phase: self.phase,
            has_run: self.has_run,
        });
    }
}

/// Refuses a prompt that the engine would refuse: here, because the others of the request may wait for a long time.
fn check(served: &ServedModel, prompt: &[u32]) -> Result<(), ApiError> {
    let (tokens, max_length) = (prompt.len(), served.model.context_length() as usize);
    if tokens > max_length {
        return Err(Error::from(RequestError::TooLong { tokens, max_length }).into());
    }
    if tokens == 0 {
        return Err(Error::EmptyPrompt.into());
    }
    check_tokens(served, prompt.iter())
}

/// Refuses tokens outside the vocabulary.
fn check_tokens<'t>(
    served: &ServedModel,
    mut tokens: impl Iterator<Item = &'t u32>,
) -> Result<(), ApiError> {
    let vocab_size = served.model.info().vocab_size;
    match tokens.find(|token| u64::from(**token) >= vocab_size) {
        Some(&token) => Err(Error::from(PipelineError::UnknownToken { token, vocab_size }).into()),
        None => Ok(()),
    }
}

/// Returns OpenAI's name of a reason.
pub fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Length => "length",
        _ => "stop",
    }
}

impl StreamUsage {
    /// Adds the numbers of tokens so far to a chunk, if it is to have any; a stream that ends with them has null before.
    pub fn add_to(self, chunk: &mut Value, counts: TokenCounts) {
        match self {
            StreamUsage::None => {}
            StreamUsage::Last => chunk["usage"] = Value::Null,
            StreamUsage::Each => chunk["usage"] = usage(counts),
        }
    }
}

/// Returns the object with the numbers of tokens.
pub fn usage(counts: TokenCounts) -> Value {
    json!({
        "prompt_tokens": counts.prompt,
        "completion_tokens": counts.completion,
        "total_tokens": counts.prompt + counts.completion,
        "prompt_tokens_details": { "cached_tokens": counts.cached },
        "completion_tokens_details": { "reasoning_tokens": counts.reasoning },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use wisp_engine::{
        ModelBuilder, SamplingDefaults,
        pipelines::{ModelFiles, PipelineConfig},
    };

    use super::{
        super::{admission::Admission, fields::Fields, listener, options::Options},
        *,
    };

    const MODEL: &[u8] = include_bytes!("../../model/wisp-tiny.gguf");

    /// Returns the built-in model, which runs one text at a time.
    fn served() -> Arc<ServedModel> {
        let files = ModelFiles::from_bytes("tiny", MODEL).unwrap();
        let builder = ModelBuilder::from_config(PipelineConfig::default());
        let builder = builder.default_context_length().parallel_sequences(1);
        let opened = builder.device("host").unwrap().with_files(files).unwrap();
        Arc::new(ServedModel {
            id: "tiny".into(),
            base: "tiny".into(),
            model: opened.load().unwrap(),
            adapter: None,
            sampling_defaults: SamplingDefaults::default(),
            health: Arc::default(),
            admission: Admission::new(1, 1),
        })
    }

    #[test]
    fn a_stream_in_the_queue_begins_without_an_event() {
        let (server, served) = (Arc::new(Server::new(Options::default())), served());
        let body = br#"{"temperature": 0, "ignore_eos": true}"#;
        let fields = Fields::parse(body).unwrap();
        let params = GenerationParams::of(&fields, &SamplingDefaults::default()).unwrap();
        let queue = |max_tokens: Option<usize>| {
            let mut params = params.clone();
            params.options.max_new_tokens = max_tokens;
            Texts::queue(&server, &served, vec![Source::Tokens(vec![1])], &params).unwrap()
        };
        let runtime = listener::runtime().unwrap();
        runtime.block_on(async {
            // The model does something else until it is released.
            let (release, released) = mpsc::channel::<()>();
            let (begun, first) = mpsc::channel();
            let model = served.model.clone();
            let busy = std::thread::spawn(move || {
                model.exclusive_blocking(move |_| {
                    begun.send(()).unwrap();
                    let _ = released.recv();
                    Box::pin(async { Ok(()) })
                })
            });
            first.recv().unwrap();
            let mut queued = queue(Some(2));
            queued.wait(Some(Duration::from_millis(1))).await.unwrap();
            assert!(queued.texts[0].early.is_none());
            drop(release);
            busy.join().unwrap().unwrap();
            let completions = queued.complete().await.unwrap();
            assert_eq!(completions[0].tokens.len(), 2);
        });
    }
}
