//! The worker of a loaded model: natively a thread of its own, in a browser a task of the event loop.
//!
//! All clones of a [`Model`](crate::Model) send it their requests; its scheduler runs them in one
//! batch. It ends when the last clone is dropped and no request runs.

use std::{collections::HashMap, sync::Arc};

use futures_channel::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
    oneshot,
};
use futures_core::Stream;
use wisp_pipelines::{
    FinishReason, GenerateOptions, PipelineError, RequestId, TextEncoder, TextEvent, TextGenerator,
};
use wisp_types::BoxFuture;

use crate::{
    error::Error,
    events::{Event, EventSender, Usage},
};

/// Work that has a generator or an encoder for itself.
pub(crate) type Job<T> = Box<dyn for<'a> FnOnce(&'a mut T) -> BoxFuture<'a, ()> + Send>;

/// What a generating model is asked for.
pub(crate) enum Command {
    /// A prompt to continue.
    Generate {
        /// The number of the request.
        request: u64,
        prompt: Vec<u32>,
        options: GenerateOptions,
        events: EventSender,
    },
    /// Work that runs when no request does.
    Exclusive(Job<TextGenerator>),
}

/// A request that runs.
struct Running {
    number: u64,
    events: EventSender,
    usage: Usage,
    /// No token was asked for.
    empty: bool,
}

/// Starts the worker of an encoder, which does its jobs one by one.
pub(crate) fn start_encoder(mut encoder: TextEncoder) -> UnboundedSender<Job<TextEncoder>> {
    let (sender, mut receiver) = unbounded::<Job<TextEncoder>>();
    spawn(async move {
        while let Some(job) = next(&mut receiver).await {
            job(&mut encoder).await;
        }
    });
    sender
}

/// Starts the worker of a generator.
pub(crate) fn start(generator: TextGenerator) -> UnboundedSender<Command> {
    let (sender, receiver) = unbounded();
    let worker = Worker {
        generator,
        receiver,
        waiting: Vec::new(),
        running: HashMap::new(),
    };
    spawn(worker.run());
    sender
}

struct Worker {
    generator: TextGenerator,
    receiver: UnboundedReceiver<Command>,
    /// Exclusive work and the commands after it, until no request runs.
    waiting: Vec<Command>,
    running: HashMap<RequestId, Running>,
}

impl Worker {
    async fn run(mut self) {
        loop {
            if self.running.is_empty() && !self.run_waiting().await {
                // Nothing runs: wait for a command, or for the end of all models.
                match next(&mut self.receiver).await {
                    Some(command) => self.take(command),
                    None => return,
                }
            }
            while let Ok(command) = self.receiver.try_recv() {
                self.take(command);
            }
            self.cancel();
            if !self.running.is_empty() {
                self.step().await;
                pause().await;
            }
        }
    }

    /// Runs what waited until no request ran. False if nothing did.
    async fn run_waiting(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.waiting);
        let any = !waiting.is_empty();
        for command in waiting {
            match command {
                Command::Exclusive(work) if self.running.is_empty() => {
                    work(&mut self.generator).await;
                }
                command => self.take(command),
            }
        }
        any
    }

    fn take(&mut self, command: Command) {
        // What comes after exclusive work waits with it, so that it gets its turn.
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
                        completion_tokens: 0,
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
            command => self.waiting.push(command),
        }
    }

    /// Lets a request run; one that asks for no token ends at once.
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

    /// Ends the requests that were cancelled.
    fn cancel(&mut self) {
        let cancelled =
            |(id, running): (&RequestId, &Running)| running.events.is_cancelled().then_some(*id);
        let cancelled: Vec<RequestId> = self.running.iter().filter_map(cancelled).collect();
        for id in cancelled {
            let rest = self.generator.finish_text(id);
            if let Some(running) = self.running.remove(&id) {
                running.end(rest, FinishReason::Cancelled);
            }
        }
    }

    async fn step(&mut self) {
        let step = match self.generator.next_events().await {
            Ok(step) => step,
            Err(error) => return self.fail(error),
        };
        for progress in step.prefill {
            if let Some(running) = self.running.get(&progress.id) {
                let (done, total) = (progress.done, progress.total);
                running.events.send(Ok(Event::Prefill { done, total }));
            }
        }
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

    /// A step failed: so did all requests that it ran.
    fn fail(&mut self, error: PipelineError) {
        let error = Arc::new(error);
        for (id, running) in self.running.drain() {
            self.generator.cancel(id);
            running.events.send(Err(Error::shared(error.clone())));
        }
    }
}

impl Running {
    /// Hands out what a step brought; true if it was the end.
    fn take(&mut self, event: TextEvent) -> bool {
        if event.finish == Some(FinishReason::NonFinite) {
            let request = self.number;
            self.events.send(Err(Error::NonFinite { request }));
            return true;
        }
        if !event.prompt_scores.is_empty() {
            self.events.send(Ok(Event::Prompt(event.prompt_scores)));
        }
        if let Some(token) = event.token {
            self.usage.completion_tokens += 1;
            let score = event.score;
            self.events.send(Ok(Event::Token { token, score }));
        }
        match event.finish {
            Some(reason) => self.end(event.text, reason),
            None if event.text.is_empty() => {}
            None => self.events.send(Ok(Event::Text(event.text))),
        }
        event.finish.is_some()
    }

    /// Hands out the last text and the end.
    fn end(&self, text: String, reason: FinishReason) {
        if !text.is_empty() {
            self.events.send(Ok(Event::Text(text)));
        }
        let usage = self.usage;
        self.events.send(Ok(Event::End { reason, usage }));
    }
}

/// The next item of a channel, waiting for it; `None` when all senders are gone.
pub(crate) async fn next<T>(receiver: &mut UnboundedReceiver<T>) -> Option<T> {
    std::future::poll_fn(|context| std::pin::Pin::new(&mut *receiver).poll_next(context)).await
}

/// Waits for what a worker sends back.
pub(crate) async fn reply<T>(receiver: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
    receiver.await.unwrap_or(Err(Error::WorkerEnded))
}

/// Runs a future to its end, on a thread of its own.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    let thread = std::thread::Builder::new().name("wisp model".into());
    // Without a thread its channels close, and who waits for it gets `Error::WorkerEnded`.
    let _ = thread.spawn(|| pollster::block_on(work));
}

/// Runs a future to its end, as a task of the event loop.
#[cfg(target_arch = "wasm32")]
pub(crate) fn spawn(work: impl Future<Output = ()> + 'static) {
    wasm_bindgen_futures::spawn_local(work);
}

/// Lets the event loop run other tasks between steps; a thread of its own needs no such pause.
#[cfg(not(target_arch = "wasm32"))]
async fn pause() {}

/// Lets the event loop run other tasks between steps: a message to oneself comes after theirs. (Timers
/// would wait for 4 ms, and a task that only yields would keep the event loop from all but its own kind.)
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
