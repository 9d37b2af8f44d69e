//! HTTP requests that the caller can cancel.
//!
//! The client is the blocking one of `hf-hub`: it adds the token, drops it when a redirect leads to
//! another host, and reads the proxy variables. Each request runs on a thread of its own and sends
//! what it receives through a bounded channel, while the calling thread reports progress and can
//! stop at any time. A request that is given up ends with its thread, at the latest when the server
//! has been silent for the timeout.

use std::{
    io::Read,
    ops::ControlFlow,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use hf_hub::api::sync::ApiRepo;
use ureq::{
    RequestBuilder,
    http::HeaderMap,
    tls::{RootCerts, TlsConfig},
    typestate::WithoutBody,
};

use super::words::{one_line, root_cause};

/// The interval at which the caller is asked whether to go on.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// How many times a request is repeated after a transient failure.
const MAX_RETRIES: u32 = 5;
/// The pause before the first repetition; each further one is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Bytes that a thread reads at once.
const CHUNK: usize = 128 << 10;
/// Chunks that wait for the caller before a thread stops reading.
const QUEUE: usize = 8;
/// The largest answer that is kept in memory, in bytes.
const MAX_TEXT: usize = 64 << 20;
/// The fewest bytes of a body that must arrive within a timeout. A server that sends a byte now and then would
/// otherwise hold a caller for ever.
const MIN_BYTES: usize = 1 << 10;
/// The longest time that a server may ask to wait before a request is repeated. For a longer one the caller decides.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Why a request failed.
#[derive(Debug)]
pub(super) enum HttpError {
    /// The connection could not be made or broke; the text says why.
    Connection(String),
    /// The server answered with an error status.
    Status(Refusal),
    /// The server's answer is not what the hub's interface promises; the text says how.
    Malformed(String),
    /// The server sent nothing for longer than the timeout.
    Stalled,
    /// The caller stopped the request.
    Cancelled,
}

/// An answer with a status other than success.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    pub status: u16,
    /// The hub's name for the error, such as `GatedRepo`.
    pub code: Option<String>,
    /// The hub's explanation for people; may be empty.
    pub message: String,
    /// When to ask again, in seconds.
    pub retry_after: Option<u64>,
}

impl HttpError {
    /// Returns whether the same request may succeed a little later.
    fn is_transient(&self) -> bool {
        match self {
            HttpError::Connection(_) => true,
            HttpError::Status(refusal) => {
                matches!(refusal.status, 408 | 429 | 500 | 502 | 503 | 504)
            }
            _ => false,
        }
    }

    /// Returns how long the server asks to wait before the same request.
    pub fn pause(&self) -> Duration {
        let seconds = match self {
            HttpError::Status(refusal) => refusal.retry_after,
            _ => None,
        };
        Duration::from_secs(seconds.unwrap_or(0))
    }

    /// Returns whether the hub as a whole is out of reach, whatever it is asked for.
    pub fn is_outage(&self) -> bool {
        match self {
            HttpError::Connection(_) | HttpError::Stalled => true,
            HttpError::Status(refusal) => refusal.status == 429 || refusal.status >= 500,
            _ => false,
        }
    }
}

/// A request for an address of the hub.
pub(super) struct Request<'r> {
    /// The repository, whose client adds the headers.
    pub repo: &'r ApiRepo,
    pub url: &'r str,
    /// The first byte wanted and the one after the last.
    pub range: Option<std::ops::Range<u64>>,
    pub follow_redirects: bool,
    /// How long the server may be silent.
    pub timeout: Duration,
}

/// An answer whose body is still arriving.
pub(super) struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    events: Receiver<Event>,
    timeout: Duration,
    /// When the present window of [`Response::timeout`] began, and the bytes that arrived in it.
    window: (Instant, usize),
}

enum Event {
    Head(u16, HeaderMap),
    Body(Vec<u8>),
    Failed(HttpError),
}

impl Request<'_> {
    /// Sends the request, again if a failure may pass, and waits for a successful answer's headers.
    /// `go_on` is called several times a second.
    pub fn send(&self, go_on: &dyn Fn() -> ControlFlow<()>) -> Result<Response, HttpError> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..MAX_RETRIES {
            match self.send_once(go_on) {
                Err(error) if error.is_transient() && error.pause() <= MAX_WAIT => {
                    wait(pause.max(error.pause()), go_on)?;
                }
                result => return result,
            }
            pause *= 2;
        }
        self.send_once(go_on)
    }

    fn send_once(&self, go_on: &dyn Fn() -> ControlFlow<()>) -> Result<Response, HttpError> {
        let request = self.build();
        let (sender, events) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("wisp-hub".into());
        let started = thread.spawn(move || {
            if let Err(error) = receive(request, &sender) {
                // Nobody listens after a cancellation.
                let _ = sender.send(Event::Failed(error));
            }
        });
        started.map_err(|error| HttpError::Connection(error.to_string()))?;
        let (status, headers) = match next_event(&events, self.timeout, go_on)? {
            Some(Event::Head(status, headers)) => (status, headers),
            _ => return Err(HttpError::Malformed("the answer has no status".into())),
        };
        let response = Response {
            status,
            headers,
            events,
            timeout: self.timeout,
            window: (Instant::now(), 0),
        };
        let expected = 200..300;
        if expected.contains(&status) || (!self.follow_redirects && status < 400) {
            return Ok(response);
        }
        Err(HttpError::Status(response.refusal(go_on)))
    }

    fn build(&self) -> RequestBuilder<WithoutBody> {
        let mut request = self.repo.info_request().uri(self.url);
        if let Some(range) = &self.range {
            let last = range.end.saturating_sub(1);
            request = request.header("Range", format!("bytes={}-{last}", range.start));
        }
        let certificates = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
        let redirects = if self.follow_redirects { 10 } else { 0 };
        request
            .config()
            .tls_config(certificates.build())
            .http_status_as_error(false)
            .max_redirects(redirects)
            .max_redirects_will_error(self.follow_redirects)
            // A redirect must not lead from an encrypted connection to one that anyone can read.
            .https_only(self.url.starts_with("https://"))
            // The bytes of a file are counted and hashed as they are stored.
            .accept_encoding("identity")
            .timeout_connect(Some(self.timeout))
            .timeout_per_read(Some(self.timeout))
            .timeout_per_write(Some(self.timeout))
            .build()
    }
}

/// Runs on the request's thread; ends early when the receiver is gone.
fn receive(
    request: RequestBuilder<WithoutBody>,
    sender: &SyncSender<Event>,
) -> Result<(), HttpError> {
    let response = request.call().map_err(http_error)?;
    let (head, body) = response.into_parts();
    if sender
        .send(Event::Head(head.status.as_u16(), head.headers))
        .is_err()
    {
        return Ok(());
    }
    let mut reader = body.into_reader();
    loop {
        let mut chunk = vec![0; CHUNK];
        let count = reader
            .read(&mut chunk)
            .map_err(|error| http_error(error.into()))?;
        chunk.truncate(count);
        if count == 0 || sender.send(Event::Body(chunk)).is_err() {
            return Ok(());
        }
    }
}

fn http_error(error: ureq::Error) -> HttpError {
    match error {
        ureq::Error::Timeout(_) => HttpError::Stalled,
        // Without the words that ureq puts before it.
        ureq::Error::Io(error) => HttpError::Connection(root_cause(&error)),
        ureq::Error::BadUri(_)
        | ureq::Error::Decompress(..)
        | ureq::Error::Http(_)
        | ureq::Error::LargeResponseHeader(..)
        | ureq::Error::Protocol(_)
        | ureq::Error::RedirectFailed
        | ureq::Error::RequireHttpsOnly(_)
        | ureq::Error::TooManyRedirects => HttpError::Malformed(root_cause(&error)),
        error => HttpError::Connection(root_cause(&error)),
    }
}

/// Waits for the next event; `None` is the end of the body.
fn next_event(
    events: &Receiver<Event>,
    timeout: Duration,
    go_on: &dyn Fn() -> ControlFlow<()>,
) -> Result<Option<Event>, HttpError> {
    let start = Instant::now();
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::Failed(error)) => return Err(error),
            Ok(event) => return Ok(Some(event)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if go_on().is_break() {
            return Err(HttpError::Cancelled);
        }
        if start.elapsed() > timeout {
            return Err(HttpError::Stalled);
        }
    }
}

/// Sleeps, but asks the caller several times a second whether to go on.
pub(super) fn wait(pause: Duration, go_on: &dyn Fn() -> ControlFlow<()>) -> Result<(), HttpError> {
    let end = Instant::now() + pause;
    loop {
        if go_on().is_break() {
            return Err(HttpError::Cancelled);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(TICK));
    }
}

impl Response {
    /// Returns a header's value, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Reads why the server refuses a request.
    fn refusal(mut self, go_on: &dyn Fn() -> ControlFlow<()>) -> Refusal {
        let message = self.header("x-error-message").map(str::to_owned);
        let message = message.or_else(|| {
            let body = self.text(go_on).ok()?;
            let json: serde_json::Value = serde_json::from_slice(&body).ok()?;
            Some(json["error"].as_str()?.to_owned())
        });
        let retry_after = self.header("retry-after");
        Refusal {
            status: self.status,
            code: self.header("x-error-code").map(str::to_owned),
            message: one_line(&message.unwrap_or_default()),
            retry_after: retry_after.and_then(|seconds| seconds.trim().parse().ok()),
        }
    }

    /// Returns the next bytes of the body, or `None` at its end.
    pub fn chunk(
        &mut self,
        go_on: &dyn Fn() -> ControlFlow<()>,
    ) -> Result<Option<Vec<u8>>, HttpError> {
        let Some(Event::Body(bytes)) = next_event(&self.events, self.timeout, go_on)? else {
            return Ok(None);
        };
        let (began, received) = &mut self.window;
        *received += bytes.len();
        if began.elapsed() > self.timeout {
            if *received < MIN_BYTES {
                return Err(HttpError::Stalled);
            }
            self.window = (Instant::now(), 0);
        }
        Ok(Some(bytes))
    }

    /// Returns the whole body.
    pub fn text(&mut self, go_on: &dyn Fn() -> ControlFlow<()>) -> Result<Vec<u8>, HttpError> {
        let mut text = Vec::new();
        while let Some(bytes) = self.chunk(go_on)? {
            if text.len() + bytes.len() > MAX_TEXT {
                let problem = format!("an answer of more than {MAX_TEXT} bytes");
                return Err(HttpError::Malformed(problem));
            }
            text.extend(bytes);
        }
        Ok(text)
    }
}

/// Percent-encodes text so that it is one segment of an address.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// Percent-encodes the segments of a path.
pub(super) fn encode_path(path: &str) -> String {
    let segments: Vec<String> = path.split('/').map(encode).collect();
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_percent_encoded() {
        assert_eq!(encode("feature/x"), "feature%2Fx");
        assert_eq!(encode("100% done"), "100%25%20done");
        assert_eq!(encode("v1.0-rc_2~a"), "v1.0-rc_2~a");
        assert_eq!(encode_path("a b/c#1.bin"), "a%20b/c%231.bin");
    }
}
