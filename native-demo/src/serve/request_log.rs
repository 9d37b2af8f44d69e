//! The record of each request: its id, the metrics and the log.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method},
    middleware::Next,
    response::Response,
};
use http_body::{Frame, SizeHint};
use tracing::{Instrument, Span};

use super::{
    error::ApiError,
    request_facts::RequestFacts,
    state::{ActiveRequest, Server},
};
#[cfg(feature = "otel")]
use super::{request_facts::Facts, telemetry::EndedRequest};

/// The header of a request's id, in requests and in answers.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken from a client.
const MAX_ID: usize = 64;

/// The status in metrics and the log, and the error in traces, of a request whose client went away before the end of the
/// answer.
const CLIENT_CLOSED: u16 = 499;

/// The endpoints that others ask every few seconds. Of these requests, the log above its level debug and traces
/// have only failures.
const PROBES: &[&str] = &["/health", "/metrics"];

/// The id of a request: the client's own, or a random one.
#[derive(Clone, Debug, Default)]
pub struct RequestId(String);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RequestId {
    fn of(headers: &HeaderMap) -> RequestId {
        let sent = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
        let is_id = |id: &&str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_allowed)
        };
        match sent.filter(is_id) {
            Some(id) => RequestId(id.into()),
            // Ids only tell requests apart in logs: without random numbers they are all alike.
            None => RequestId(format!("{:016x}", getrandom::u64().unwrap_or(0))),
        }
    }
}

/// Records a request from its arrival to the end of its answer.
pub async fn record(
    State(server): State<Arc<Server>>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = RequestId::of(request.headers());
    let endpoint = request.extensions().get::<MatchedPath>();
    let mut record = Record {
        start: Instant::now(),
        endpoint: endpoint.map_or("other".into(), |path| path.as_str().to_string()),
        status: None,
        is_complete: false,
        span: tracing::error_span!("request", id = %id),
        facts: RequestFacts::default(),
        #[cfg(feature = "otel")]
        trace: Trace::new(&server, &id, &request),
        _active: server.begin(),
        server,
    };
    request.extensions_mut().insert(id.clone());
    request.extensions_mut().insert(record.facts.clone());
    let is_head = request.method() == Method::HEAD;
    let mut response = next.run(request).instrument(record.span.clone()).await;
    record.status = Some(response.status().as_u16());
    // Nobody reads a body that is empty, or becomes so.
    record.is_complete = is_head || response.body().is_end_stream();
    if let Some(error) = response.extensions().get::<ApiError>() {
        record.facts.lock().error = Some(error.clone());
    }
    if let Ok(id) = HeaderValue::try_from(id.0) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response.map(|inner| Body::new(RecordedBody { inner, record }))
}

/// What is known of a request; dropping it counts and logs the request.
struct Record {
    start: Instant,
    endpoint: String,
    /// The status that the client was sent, unless it went away before.
    status: Option<u16>,
    /// Whether the client received the whole answer.
    is_complete: bool,
    span: Span,
    facts: RequestFacts,
    #[cfg(feature = "otel")]
    trace: Trace,
    server: Arc<Server>,
    _active: ActiveRequest,
}

impl Drop for Record {
    fn drop(&mut self) {
        let elapsed = self.start.elapsed();
        let (endpoint, is_complete) = (&*self.endpoint, self.is_complete);
        let facts = self.facts.lock();
        let status = match &facts.error {
            Some(error) => error.status().as_u16(),
            None => self.status.filter(|_| is_complete).unwrap_or(CLIENT_CLOSED),
        };
        self.server.metrics.count_request(endpoint, status, elapsed);
        let seconds = elapsed.as_secs_f64();
        if PROBES.contains(&endpoint) && status < 400 {
            tracing::debug!(parent: &self.span, endpoint, status, is_complete, seconds, "answered");
            return;
        }
        #[cfg(feature = "otel")]
        self.trace
            .send(&self.server, endpoint, self.status, status, &facts);
        let Some(model) = &facts.model else {
            tracing::info!(parent: &self.span, endpoint, status, is_complete, seconds, "answered");
            return;
        };
        let in_seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        tracing::info!(
            parent: &self.span, endpoint, status, is_complete, seconds, model,
            prompt_tokens = facts.prompt_tokens, completion_tokens = facts.completion_tokens,
            queue_seconds = in_seconds(facts.queued),
            first_token_seconds = in_seconds(facts.first_token), "answered"
        );
    }
}

/// What a span needs that the log does not.
#[cfg(feature = "otel")]
struct Trace {
    id: RequestId,
    method: Method,
    start: std::time::SystemTime,
    /// The trace that the client began.
    parent: opentelemetry::Context,
}

#[cfg(feature = "otel")]
impl Trace {
    fn new(server: &Server, id: &RequestId, request: &Request) -> Trace {
        let telemetry = server.telemetry.as_ref();
        let parent = telemetry.map(|telemetry| telemetry.parent(request.headers()));
        Trace {
            id: id.clone(),
            method: request.method().clone(),
            start: std::time::SystemTime::now(),
            parent: parent.unwrap_or_default(),
        }
    }

    fn send(
        &self,
        server: &Server,
        endpoint: &str,
        status: Option<u16>,
        outcome: u16,
        facts: &Facts,
    ) {
        if let Some(telemetry) = &server.telemetry {
            telemetry.record(&EndedRequest {
                id: &self.id.0,
                method: &self.method,
                endpoint,
                parent: &self.parent,
                start: self.start,
                status,
                outcome,
                facts,
            });
        }
    }
}

/// The body of an answer with the record of its request.
struct RecordedBody {
    inner: Body,
    record: Record,
}

impl HttpBody for RecordedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let body = &mut *self;
        let frame = body
            .record
            .span
            .in_scope(|| Pin::new(&mut body.inner).poll_frame(context));
        body.record.is_complete |= matches!(frame, Poll::Ready(None)) || body.inner.is_end_stream();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::options::Options, *};

    #[test]
    fn failed_and_abandoned_answers_are_not_counted_as_answered() {
        let server = Arc::new(Server::new(Options::default()));
        let failure = ApiError::unavailable("the device was lost");
        for (error, is_complete, status) in [
            (None, true, 200),
            (None, false, 499),
            (Some(failure), true, 503),
        ] {
            let facts = RequestFacts::default();
            facts.lock().error = error;
            drop(Record {
                start: Instant::now(),
                endpoint: "/a".into(),
                status: Some(200),
                is_complete,
                span: Span::none(),
                facts,
                #[cfg(feature = "otel")]
                trace: Trace::new(&server, &RequestId::default(), &Request::default()),
                _active: server.begin(),
                server: server.clone(),
            });
            let row = format!("wisp_requests_total{{endpoint=\"/a\",status=\"{status}\"}} 1");
            let metrics = server.metrics.text(None);
            assert!(metrics.contains(&row), "{row}: {metrics}");
        }
    }

    #[test]
    fn ids_of_clients_are_kept_if_they_are_plain() {
        let id = |sent: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_static(sent));
            RequestId::of(&headers).0
        };
        assert_eq!(id("a-B_0.9"), "a-B_0.9");
        const LONG: &str = "0123456789012345678901234567890123456789012345678901234567890123x";
        for odd in ["", "a b", "<script>", "\"", LONG] {
            let random = id(odd);
            assert!(random != odd && random.len() == 16, "{odd}: {random}");
        }
    }
}
