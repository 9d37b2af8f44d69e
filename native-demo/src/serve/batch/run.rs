//! The run of a batch.

use std::{
    future::poll_fn,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{self, StatusCode, header},
};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use indicatif::{HumanCount, ProgressBar};
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::mpsc::Receiver,
    task::{JoinError, JoinSet},
    time::timeout,
};
use wisp_engine::Canceller;

use super::{
    super::{listener, models::Models, options::Options, router::router, state::Server},
    input::{self, Line, Lines},
    output::{Earlier, Outcome, Output},
    request::{Reader, Request, Task, answered},
};
use crate::{
    interrupt,
    output::message,
    progress::{LineTimer, progress_bar},
};

/// The longest line of the input in bytes.
const MAX_LINE: usize = 16 << 20;

/// The requests that run and wait at the same time, for each text that a model generates at the same time.
const REQUESTS_PER_TEXT: u64 = 2;

/// The least and the most requests that run and wait at the same time.
const REQUESTS: (u64, u64) = (8, 4096);

/// The time between two looks at whether a signal arrived.
const TICK: Duration = Duration::from_millis(50);

/// The files of a batch.
#[derive(Clone, Debug)]
pub struct BatchFiles {
    /// The requests.
    pub input: PathBuf,
    /// The answers.
    pub output: PathBuf,
    /// The answers to requests that failed; they are in the output too without it.
    pub errors: Option<PathBuf>,
    /// Whether requests that failed in earlier runs are answered again.
    pub retry_failed: bool,
}

/// What a batch waits for.
enum Event {
    /// The next line of the input; `None` at its end.
    Line(Option<io::Result<Line>>),
    /// A request has ended.
    Answer(Result<Result<Answer>, JoinError>),
}

/// An answer of the server.
struct Answer {
    request: Request,
    status: StatusCode,
    request_id: String,
    body: Box<RawValue>,
}

/// Answers the requests of a file that have no answer yet. A signal ends it after the current step.
///
/// # Errors
///
/// If a file cannot be read or written, the device of a model is lost, or requests failed, in this run or before.
pub fn run(files: &BatchFiles, load: impl FnOnce() -> Result<Models>) -> Result<()> {
    let mut batch = Batch::open(files)?;
    let total = input::count(&files.input, MAX_LINE);
    let models = load()?;
    if files.retry_failed {
        batch = batch.without_failed()?;
    }
    let parallel: u64 = models
        .all()
        .iter()
        .map(|served| served.model.limits().max_batch)
        .sum();
    let window = parallel.saturating_mul(REQUESTS_PER_TEXT);
    let window = window.clamp(REQUESTS.0, REQUESTS.1) as usize;
    let options = Options {
        max_body_bytes: MAX_LINE,
        ..Options::default()
    };
    let server = Arc::new(Server::new(options));
    server.set_models(models);
    let service = TowerToHyperService::new(router(server));
    batch.bar = progress_bar("{bar:32} {pos}/{len} requests {per_sec} {eta}");
    batch.bar.set_length(total.unwrap_or_default());
    batch.lines_due = LineTimer::start();
    let canceller = Canceller::new();
    interrupt::begin(canceller.clone());
    let runtime = listener::runtime()?;
    let result = runtime.block_on(batch.run(&service, window, &canceller));
    runtime.shutdown_timeout(TICK);
    interrupt::end();
    let synced = batch.sync();
    batch.bar.finish_and_clear();
    batch.report(canceller.is_cancelled());
    result.and(synced)?;
    let failed = batch.counts.failed + batch.counts.failed_before;
    if failed > 0 && !canceller.is_cancelled() {
        let answers = files.errors.as_ref().unwrap_or(&files.output);
        bail!(
            "{failed} of the requests failed, as {} says; --retry-failed tries them again",
            answers.display()
        );
    }
    Ok(())
}

struct Batch {
    lines: Receiver<io::Result<Line>>,
    reader: Reader,
    /// What became of requests in earlier runs.
    earlier: Earlier,
    output: Output,
    errors: Option<Output>,
    bar: ProgressBar,
    /// When lines say how far the batch is.
    lines_due: LineTimer,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    answered: u64,
    failed: u64,
    answered_before: u64,
    failed_before: u64,
}

impl Batch {
    fn open(files: &BatchFiles) -> Result<Batch> {
        let lines = Lines::open(&files.input, MAX_LINE)?;
        let mut earlier = Earlier::default();
        let mut open = |path: &Path| Output::open(path, &mut earlier);
        let output = open(&files.output)?;
        let errors = files.errors.as_deref().map(open);
        Ok(Batch {
            reader: Reader::default(),
            output,
            errors: errors.transpose()?,
            earlier,
            lines: lines.read_ahead().context("cannot read the input")?,
            bar: ProgressBar::hidden(),
            lines_due: LineTimer::start(),
            counts: Counts::default(),
        })
    }

    /// Forgets the requests that failed in earlier runs, and removes their lines.
    fn without_failed(mut self) -> Result<Batch> {
        self.earlier.forget_failed();
        let errors = self.errors.map(Output::without_failed);
        Ok(Batch {
            output: self.output.without_failed()?,
            errors: errors.transpose()?,
            ..self
        })
    }

    /// Answers requests, up to `window` at the same time.
    async fn run(
        &mut self,
        service: &TowerToHyperService<Router>,
        window: usize,
        canceller: &Canceller,
    ) -> Result<()> {
        // Dropping it cancels what runs; those requests are answered by the next run.
        let mut running = JoinSet::new();
        let mut has_more = true;
        while !canceller.is_cancelled() && (has_more || !running.is_empty()) {
            self.report_progress();
            self.sync_due()?;
            let takes_lines = has_more && running.len() < window;
            let event = poll_fn(|context| {
                if let Poll::Ready(Some(answer)) = running.poll_join_next(context) {
                    return Poll::Ready(Event::Answer(answer));
                }
                match takes_lines {
                    true => self.lines.poll_recv(context).map(Event::Line),
                    false => Poll::Pending,
                }
            });
            match timeout(TICK, event).await {
                Ok(Event::Answer(answer)) => {
                    self.take(answer.context("a request has no answer")??)?;
                }
                Ok(Event::Line(Some(line))) => {
                    if let Some(request) = self.request(&line.context("cannot read the input")?)? {
                        running.spawn(answer(service.clone(), request));
                    }
                }
                Ok(Event::Line(None)) => has_more = false,
                // Time to look whether a signal arrived.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Returns the request of a line; `None`, with the line counted and answered, if nothing is to be asked.
    fn request(&mut self, line: &Line) -> Result<Option<Request>> {
        match self.reader.task(line, &self.earlier) {
            Task::Answer(request) => return Ok(Some(request)),
            Task::Done(outcome) => {
                match outcome {
                    Outcome::Answered => self.counts.answered_before += 1,
                    Outcome::Failed => self.counts.failed_before += 1,
                }
                self.bar.inc(1);
            }
            Task::Bad(answer) => self.write(&answer, true)?,
        }
        Ok(None)
    }

    fn take(&mut self, answer: Answer) -> Result<()> {
        let body = &*answer.body;
        if answer.status == StatusCode::SERVICE_UNAVAILABLE && is_model_lost(body) {
            // It says nothing about the request, which is answered by the next run.
            bail!("the model has stopped, and the rest of the requests is left: {body}");
        }
        let line = answered(
            &answer.request,
            answer.status.as_u16(),
            &answer.request_id,
            body,
        );
        self.write(&line, !answer.status.is_success())
    }

    fn write(&mut self, line: &str, has_failed: bool) -> Result<()> {
        let count = match has_failed {
            true => &mut self.counts.failed,
            false => &mut self.counts.answered,
        };
        *count += 1;
        self.bar.inc(1);
        match &mut self.errors {
            Some(errors) if has_failed => errors.write(line),
            _ => self.output.write(line),
        }
    }

    /// Brings lines to the disk that have waited for long enough.
    fn sync_due(&mut self) -> Result<()> {
        self.output.sync_due()?;
        self.errors.as_mut().map_or(Ok(()), Output::sync_due)
    }

    fn sync(&mut self) -> Result<()> {
        self.output.sync()?;
        self.errors.as_mut().map_or(Ok(()), Output::sync)
    }

    /// Says from time to time how far the batch is, where no bar does.
    fn report_progress(&mut self) {
        if !self.lines_due.is_due() {
            return;
        }
        let done = HumanCount(self.bar.position());
        match self.bar.length().filter(|total| *total > 0) {
            Some(total) => message!("{done} of {} requests", HumanCount(total)),
            None => message!("{done} requests"),
        }
    }

    fn report(&self, is_cancelled: bool) {
        let Counts {
            answered,
            failed,
            answered_before,
            failed_before,
        } = self.counts;
        let before = match failed_before {
            0 => format!("{answered_before} answered before"),
            _ => format!("{answered_before} answered before, {failed_before} failed before"),
        };
        let rest = match is_cancelled {
            true => "; the same command answers the rest",
            false => "",
        };
        message!("{answered} answered, {failed} failed, {before}{rest}");
    }
}

/// Returns whether an error is that the device of a model was lost.
fn is_model_lost(body: &RawValue) -> bool {
    serde_json::from_str(body.get()).is_ok_and(|body: Value| body["error"]["code"] == "model_lost")
}

/// Answers a request through the server's endpoints.
async fn answer(service: TowerToHyperService<Router>, request: Request) -> Result<Answer> {
    let call = http::Request::post(&request.url)
        .header(header::HOST, "localhost")
        .header("x-request-id", format!("batch-{}", request.line))
        .body(Body::from(request.body.get().to_string()))
        .context("the request cannot be sent")?;
    let response = match service.call(call).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let (status, id) = (
        response.status(),
        response.headers().get("x-request-id").cloned(),
    );
    let body = to_bytes(response.into_body(), usize::MAX).await;
    let body = body.context("the answer cannot be read")?;
    Ok(Answer {
        request,
        status,
        request_id: id
            .and_then(|id| Some(id.to_str().ok()?.to_string()))
            .unwrap_or_default(),
        body: serde_json::from_slice(&body).context("the answer is no JSON")?,
    })
}
