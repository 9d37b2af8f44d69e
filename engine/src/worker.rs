//! The worker of a loaded model: a thread of its own in native builds, a task of the event loop in a
//! browser.
//!
//! All clones of a [`Model`](crate::Model) send their requests to it, and its scheduler runs them in
//! one batch. It ends when the last clone has been dropped and no request runs.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use futures_channel::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
    oneshot,
};
use futures_core::Stream;
use futures_util::{FutureExt, future::Shared};
use web_time::Instant;
use wisp_pipelines::{
    FinishReason, GenerateOptions, PipelineError, RequestId, StepError, TextEvent, TextGenerator,
    Utilization,
};
use wisp_types::{BoxFuture, MaybeSend};

#[cfg(not(target_arch = "wasm32"))]
use crate::events::{CancelOnDrop, Canceller};
use crate::{
    error::Error,
    events::{Event, EventSender, Usage},
};

/// Work with exclusive access to a generator.
pub(crate) type Job<T> = Box<dyn for<'a> FnOnce(&'a mut T) -> BoxFuture<'a, ()> + Send>;

/// A command to a generator's worker.
pub(crate) enum Command {
    /// Generates from a prompt.
    Generate {
        /// The number of the request.
        request: u64,
        prompt: Vec<u32>,
        options: Box<GenerateOptions>,
        events: EventSender,
    },
    /// Runs work when no request runs.
    Exclusive(Job<TextGenerator>),
    /// Runs short work between two steps.
    BetweenSteps(Job<TextGenerator>),
    /// Loads an adapter between two steps, once its slot is free.
    LoadAdapter(Job<TextGenerator>),
}

/// A running request.
struct Running {
    number: u64,
    events: EventSender,
    usage: Usage,
    /// Whether no token was requested.
    empty: bool,
}

/// Ready, with an error, when a worker has ended and has freed its model.
pub(crate) type Ended = Shared<oneshot::Receiver<()>>;

/// Starts a worker; returns what becomes ready when it ends.
pub(crate) fn spawn_until(
    work: impl Future<Output = ()> + MaybeSend + 'static,
) -> Result<Ended, Error> {
    let (runs, ended) = oneshot::channel::<()>();
    spawn(async move {
        work.await;
        drop(runs);
    })?;
    Ok(ended.shared())
}

/// The utilization of a generator, which its worker writes before each step and before it waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedUtilization(Arc<Mutex<Utilization>>);

impl SharedUtilization {
    /// Returns the utilization that was written last.
    pub fn get(&self) -> Utilization {
        // Poisoning is harmless: the value is set whole.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, utilization: Utilization) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = utilization;
    }
}

/// Starts the worker of a generator.
///
/// # Errors
///
/// If no thread can be started.
pub(crate) fn start(
    generator: TextGenerator,
) -> Result<(UnboundedSender<Command>, SharedUtilization, Ended), Error> {
    let (sender, receiver) = unbounded();
    let utilization = SharedUtilization::default();
    let worker = Worker {
        generator,
        utilization: utilization.clone(),
        receiver,
        waiting: Vec::new(),
        loads: Vec::new(),
        running: HashMap::new(),
    };
    let ended = spawn_until(worker.run())?;
    Ok((sender, utilization, ended))
}

struct Worker {
    generator: TextGenerator,
    utilization: SharedUtilization,
    receiver: UnboundedReceiver<Command>,
    /// Exclusive work and the commands after it, held back until no request runs.
    waiting: Vec<Command>,
    /// Adapters to load that wait for the slot of one that was unloaded, until its texts have ended.
    loads: Vec<Job<TextGenerator>>,
    running: HashMap<RequestId, Running>,
}

impl Worker {
    async fn run(mut self) {
        loop {
            self.load_adapters().await;
            if self.running.is_empty() && !self.run_waiting().await {
                self.utilization.set(self.generator.utilization());
                // Nothing runs: wait for a command, or until all clones are dropped.
                match next(&mut self.receiver).await {
                    Some(command) => self.take(command).await,
                    None => return,
                }
            }
            while let Ok(command) = self.receiver.try_recv() {
                self.take(command).await;
            }
            self.cancel();
            if !self.running.is_empty() {
                self.utilization.set(self.generator.utilization());
                self.step().await;
                pause().await;
            }
        }
    }

    /// Runs the commands that waited until no request ran. Returns false if there were none.
    async fn run_waiting(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.waiting);
        let any = !waiting.is_empty();
        for command in waiting {
            match command {
                Command::Exclusive(work) if self.running.is_empty() => {
                    work(&mut self.generator).await;
                }
                command => self.take(command).await,
            }
        }
        any
    }

    /// Loads the adapters that have waited for a slot, as far as slots are free now.
    async fn load_adapters(&mut self) {
        let mut loads = std::mem::take(&mut self.loads).into_iter();
        while !self.generator.awaits_adapter_slot()
            && let Some(load) = loads.next()
        {
            self.utilization.set(self.generator.utilization());
            load(&mut self.generator).await;
        }
        self.loads = loads.collect();
    }

    async fn take(&mut self, command: Command) {
        // Commands after exclusive work wait behind it, so that it gets its turn.
        let wait = !self.waiting.is_empty() || matches!(command, Command::Exclusive(_));
        match command {
            command if wait => self.waiting.push(command),
            Command::Generate {
                request: number,
                prompt,
                options,
                events,
            } => match self.generator.add_request(&prompt, &options) {
                Ok(id) => {
                    let usage = Usage {
                        prompt_tokens: prompt.len(),
                        ..Usage::default()
                    };
                    let scores_prompt =
                        options.sampling.log_probs.is_some() && options.sampling.prompt_log_probs;
                    let running = Running {
                        number,
                        events,
                        usage,
                        empty: options.max_new_tokens == Some(0) && !scores_prompt,
                    };
                    self.begin(id, running);
                }
                Err(error) => events.send(Err(error.into())),
            },
            Command::BetweenSteps(work) => work(&mut self.generator).await,
            Command::LoadAdapter(load) => {
                self.loads.push(load);
                self.load_adapters().await;
            }
            command @ Command::Exclusive(_) => self.waiting.push(command),
        }
    }

    /// Starts a request; a request for no tokens ends at once.
    fn begin(&mut self, id: RequestId, running: Running) {
        if running.empty {
            self.generator.cancel(id);
            let reason = FinishReason::Length;
            let usage = running.usage;
            running.events.send(Ok(Event::End { reason, usage }));
        } else {
            self.running.insert(id, running);
        }
    }

    /// Ends cancelled requests.
    fn cancel(&mut self) {
        self.waiting.retain(|command| match command {
            Command::Generate { prompt, events, .. } if events.is_cancelled() => {
                let usage = Usage {
                    prompt_tokens: prompt.len(),
                    ..Usage::default()
                };
                let reason = FinishReason::Cancelled;
                events.send(Ok(Event::End { reason, usage }));
                false
            }
            _ => true,
        });
        let cancelled =
            |(id, running): (&RequestId, &Running)| running.events.is_cancelled().then_some(*id);
        let cancelled: Vec<RequestId> = self.running.iter().filter_map(cancelled).collect();
        for id in cancelled {
            let rest = self.generator.finish_text(id);
            if let Some(running) = self.running.remove(&id) {
                running.send_text(rest);
                running.end(None, FinishReason::Cancelled);
            }
        }
    }

    async fn step(&mut self) {
        let begin = Instant::now();
        let step = match self.generator.next_events().await {
            Ok(step) => step,
            Err(error) => return self.fail(error),
        };
        let time = begin..Instant::now();
        for progress in step.prefill {
            if let Some(running) = self.running.get(&progress.id) {
                let (done, total) = (progress.done, progress.total);
                running.events.note_step(&time, 0);
                running.events.send(Ok(Event::Prefill { done, total }));
            }
        }
        self.note(&step.texts, &time);
        for event in step.texts {
            let Some(running) = self.running.get_mut(&event.id) else {
                continue;
            };
            let id = event.id;
            if running.take(event) {
                self.running.remove(&id);
            }
        }
    }

    /// Notes the time of a step for the requests with events in it.
    fn note(&self, texts: &[TextEvent], time: &Range<Instant>) {
        // A step returns the events of a request one after the other.
        for events in texts.chunk_by(|event, next| event.id == next.id) {
            let has_token = |event: &&TextEvent| event.token.is_some() || event.ending.is_some();
            let tokens = events.iter().filter(has_token).count();
            let id = events.first().map(|event| event.id);
            if let Some(running) = id.and_then(|id| self.running.get(&id)) {
                running.events.note_step(time, tokens);
            }
        }
    }

    /// Fails the requests of a failed step.
    fn fail(&mut self, error: StepError) {
        let source = Arc::<PipelineError>::from(error.source);
        for id in error.requests {
            if let Some(running) = self.running.remove(&id) {
                running.events.send(Err(Error::shared(source.clone())));
            }
        }
    }
}

impl Running {
    /// Forwards a step's event to its request; returns true if it was the last one.
    fn take(&mut self, event: TextEvent) -> bool {
        let request = self.number;
        let failure = match event.finish {
            Some(FinishReason::NonFinite) => Some(Error::NonFinite { request }),
            Some(FinishReason::ConstraintFailed) => Some(Error::ConstraintFailed { request }),
            _ => None,
        };
        if let Some(failure) = failure {
            self.events.send(Err(failure));
            return true;
        }
        if !event.prompt_scores.is_empty() {
            self.events.send(Ok(Event::Prompt(event.prompt_scores)));
        }
        self.usage.cached_tokens = event.cached_tokens;
        match event.token {
            Some(token) => {
                self.usage.completion_tokens += 1;
                self.events.send_token(token, event.score, event.text);
            }
            None => self.send_text(event.text),
        }
        if let Some(ending) = event.ending {
            self.usage.completion_tokens += 1;
            self.events.send(Ok(Event::Ending(ending)));
        }
        if let Some(reason) = event.finish {
            self.end(event.stop_string, reason);
        }
        event.finish.is_some()
    }

    /// Sends text, unless it is empty.
    fn send_text(&self, text: String) {
        if !text.is_empty() {
            self.events.send(Ok(Event::Text(text)));
        }
    }

    /// Sends the stop string that ended the text, and the end.
    fn end(&self, stop: Option<String>, reason: FinishReason) {
        if let Some(stop) = stop {
            self.events.send(Ok(Event::StopString(stop)));
        }
        let usage = self.usage;
        self.events.send(Ok(Event::End { reason, usage }));
    }
}

/// Waits for the next item of a channel; `None` when all senders are dropped.
pub(crate) async fn next<T>(receiver: &mut UnboundedReceiver<T>) -> Option<T> {
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *receiver).poll_next(context)).await
}

/// Waits for a worker's reply.
pub(crate) async fn reply<T>(receiver: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
    receiver.await.unwrap_or(Err(Error::WorkerEnded))
}

/// Runs work on a thread of its own and returns its result. If the returned future is dropped, the canceller that `work`
/// is given is cancelled.
///
/// # Errors
///
/// If no thread can be started, or the work fails.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) async fn run_on_thread<T, W>(work: impl FnOnce(Canceller) -> W) -> Result<T, Error>
where
    T: Send + 'static,
    W: Future<Output = Result<T, Error>> + Send + 'static,
{
    let waits = CancelOnDrop::default();
    let work = work(waits.0.clone());
    let (sender, receiver) = oneshot::channel();
    spawn(async move {
        let _ = sender.send(work.await);
    })?;
    reply(receiver).await
}

/// Runs a future to completion on a thread of its own.
///
/// # Errors
///
/// If no thread can be started.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name("wisp model".into());
    match thread.spawn(|| pollster::block_on(work)) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::NoThread(Arc::new(error))),
    }
}

/// Runs a future to completion as a task of the event loop.
#[cfg(target_arch = "wasm32")]
pub(crate) fn spawn(work: impl Future<Output = ()> + 'static) -> Result<(), Error> {
    wasm_bindgen_futures::spawn_local(work);
    Ok(())
}

/// Does nothing: a thread of its own need not yield to an event loop.
#[cfg(not(target_arch = "wasm32"))]
async fn pause() {}

/// Yields to the event loop between steps by awaiting a message to itself, which is queued behind
/// other tasks. (A timer would wait for 4 ms, and a plain yield would let only microtasks run.)
#[cfg(target_arch = "wasm32")]
async fn pause() {
    let Ok(channel) = web_sys::MessageChannel::new() else {
        return;
    };
    let (port, other) = (channel.port1(), channel.port2());
    let message = js_sys::Promise::new(&mut |resolve, _| port.set_onmessage(Some(&resolve)));
    if other.post_message(&wasm_bindgen::JsValue::NULL).is_ok() {
        // The promise is never rejected.
        let _ = wasm_bindgen_futures::JsFuture::from(message).await;
    }
    port.close();
}
