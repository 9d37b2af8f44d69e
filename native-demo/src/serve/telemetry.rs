//! Traces for OpenTelemetry: a span for each request, sent to a collector by OTLP over HTTP. Spans have no content of
//! requests or answers.

use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result};
use axum::http::{HeaderMap, Method, Uri};
use opentelemetry::{
    Context, KeyValue,
    propagation::TextMapPropagator,
    trace::{Span, SpanKind, Status, Tracer, TracerProvider},
};
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider},
};

use super::{error::ApiError, request_facts::Facts};

/// The variables that other programs read for the address of a collector.
const VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// The variables that other programs read for the protocol.
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];

/// The variable that switches traces off.
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// The path of a collector that takes traces.
const PATH: &str = "/v1/traces";

/// The longest time in which a collector must answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The time between two warnings that spans were not sent.
const WARNING_TIME: Duration = Duration::from_secs(60);

/// The longest time to send the last spans.
const SHUTDOWN: Duration = Duration::from_secs(3);

/// Sends spans to a collector, from a thread of its own.
#[derive(Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

/// A request that has ended.
#[derive(Debug)]
pub struct EndedRequest<'r> {
    /// The value of its `x-request-id`.
    pub id: &'r str,
    /// The HTTP method, such as `POST`.
    pub method: &'r Method,
    /// Its path, as the router has it.
    pub endpoint: &'r str,
    /// The trace that its client began.
    pub parent: &'r Context,
    /// When it arrived.
    pub start: SystemTime,
    /// The status that was sent; `None` if its client went away before.
    pub status: Option<u16>,
    /// The status with which it is counted: that of a failure after the status was sent, too.
    pub outcome: u16,
    /// What else is known of it.
    pub facts: &'r Facts,
}

impl Telemetry {
    /// Begins to send to the collector at an address such as `http://localhost:4318`, or at the one that the environment
    /// names as `OTEL_EXPORTER_OTLP_ENDPOINT`; `None` if there is neither, or `OTEL_SDK_DISABLED` is true.
    ///
    /// # Errors
    ///
    /// If the address is invalid.
    pub fn start(endpoint: Option<&str>) -> Result<Option<Telemetry>> {
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let named = VARIABLES.iter().find(|name| is_set(name));
        let is_disabled = std::env::var(DISABLED).is_ok_and(|value| is_true(&value));
        if is_disabled || (endpoint.is_none() && named.is_none()) {
            return Ok(None);
        }
        if let Some(name) = PROTOCOLS.iter().find(|name| is_grpc(name)) {
            tracing::warn!(
                "{name}=grpc has no effect: traces are sent by HTTP, for which collectors have another port (4318)"
            );
        }
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client::new());
        if let Some(endpoint) = endpoint {
            exporter = exporter.with_endpoint(address_of_traces(endpoint));
        }
        let exporter = exporter.build();
        let exporter = exporter.with_context(|| match (endpoint, named) {
            (None, Some(name)) => format!("{name} cannot be used"),
            _ => format!(
                "--otlp-endpoint {} cannot be used",
                endpoint.unwrap_or_default()
            ),
        })?;
        let resource = Resource::builder();
        let resource = match is_set(&"OTEL_SERVICE_NAME") {
            true => resource,
            false => resource.with_service_name("wisp"),
        };
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.with_attribute(version).build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Telemetry {
            tracer: provider.tracer("wisp"),
            provider,
            propagator: TraceContextPropagator::new(),
        }))
    }

    /// Returns the trace that a client began, as the header `traceparent` names it.
    pub fn parent(&self, headers: &HeaderMap) -> Context {
        self.propagator
            .extract_with_context(&Context::new(), &HeaderExtractor(headers))
    }

    /// Sends the span of a request. The names are those of OpenTelemetry's conventions and of vLLM.
    pub fn record(&self, request: &EndedRequest<'_>) {
        let facts = request.facts;
        let mut attributes = vec![
            KeyValue::new("http.request.method", request.method.to_string()),
            KeyValue::new("http.route", request.endpoint.to_string()),
            KeyValue::new("gen_ai.request.id", request.id.to_string()),
        ];
        if let Some(status) = request.status {
            let status = i64::from(status);
            attributes.push(KeyValue::new("http.response.status_code", status));
        }
        if request.outcome >= 400 {
            let code = facts.error.as_ref().and_then(ApiError::code);
            let kind = code.map_or_else(|| request.outcome.to_string(), Into::into);
            attributes.push(KeyValue::new("error.type", kind));
        }
        if let Some(operation) = operation(request.endpoint) {
            attributes.push(KeyValue::new("gen_ai.operation.name", operation));
        }
        if let Some(model) = &facts.model {
            let count = |tokens: usize| i64::try_from(tokens).unwrap_or(i64::MAX);
            attributes.extend([
                KeyValue::new("gen_ai.provider.name", "wisp"),
                KeyValue::new("gen_ai.request.model", model.clone()),
                KeyValue::new("gen_ai.response.model", model.clone()),
                KeyValue::new("gen_ai.usage.input_tokens", count(facts.prompt_tokens)),
                KeyValue::new("gen_ai.usage.output_tokens", count(facts.completion_tokens)),
            ]);
        }
        let times = [
            ("gen_ai.latency.time_in_queue", facts.queued),
            ("gen_ai.latency.time_to_first_token", facts.first_token),
        ];
        let times = times.into_iter();
        attributes.extend(
            times.filter_map(|(name, time)| Some(KeyValue::new(name, time?.as_secs_f64()))),
        );
        let builder = self
            .tracer
            .span_builder(format!("{} {}", request.method, request.endpoint))
            .with_kind(SpanKind::Server)
            .with_start_time(request.start)
            .with_attributes(attributes);
        let mut span = self.tracer.build_with_context(builder, request.parent);
        if request.outcome >= 500 {
            span.set_status(Status::error(""));
        }
        span.end();
    }

    /// Sends the last spans.
    pub fn shut_down(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(SHUTDOWN) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Returns the address to which a collector wants traces.
fn address_of_traces(endpoint: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    format!("{}{PATH}", endpoint.strip_suffix(PATH).unwrap_or(endpoint))
}

/// Returns an address for messages, without what may be secret: a user's name, a password or a query.
fn shown(address: &Uri) -> String {
    let port = address.port().map(|port| format!(":{port}"));
    format!(
        "{}://{}{}{}",
        address.scheme_str().unwrap_or_default(),
        address.host().unwrap_or_default(),
        port.unwrap_or_default(),
        address.path()
    )
}

/// Returns whether a variable has the value `true`, as OpenTelemetry reads it.
fn is_true(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case("true")
}

fn is_grpc(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value.trim() == "grpc")
}

/// Returns OpenTelemetry's name of what an endpoint does, if it has one.
fn operation(endpoint: &str) -> Option<&'static str> {
    let path = endpoint.strip_prefix("/v1").unwrap_or(endpoint);
    match path {
        "/chat/completions" | "/responses" | "/messages" => Some("chat"),
        "/completions" => Some("text_completion"),
        "/embeddings" => Some("embeddings"),
        _ => None,
    }
}

/// The HTTP client that downloads models too. It is only used by the thread that sends spans, and blocks it.
#[derive(Debug)]
struct Client {
    agent: ureq::Agent,
    /// When it last warned that spans were not sent.
    warned: Mutex<Option<Instant>>,
}

impl Client {
    fn new() -> Client {
        let roots = ureq::tls::RootCerts::PlatformVerifier;
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .tls_config(ureq::tls::TlsConfig::builder().root_certs(roots).build());
        Client {
            agent: config.build().into(),
            warned: Mutex::new(None),
        }
    }

    /// Sends spans, and warns if they do not arrive.
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let address = shown(request.uri());
        let response = self.exchange(request);
        match &response {
            Ok(response) if response.status().is_success() => {}
            Ok(response) => self.warn(&address, &format!("status {}", response.status())),
            Err(error) => self.warn(&address, &error.to_string()),
        }
        response
    }

    /// Warns that spans were not sent, once a minute at most.
    fn warn(&self, address: &str, problem: &str) {
        // Poisoning is harmless: the time is stored whole.
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|last| last.elapsed() >= WARNING_TIME) {
            *warned = Some(Instant::now());
            tracing::warn!("traces are lost: {address}: {problem}");
        }
    }

    fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.agent.run(request.map(|body| body.to_vec()))?;
        let (parts, mut body) = response.into_parts();
        let body = Bytes::from(body.read_to_vec()?);
        Ok(Response::from_parts(parts, body))
    }
}

impl HttpClient for Client {
    fn send_bytes<'c, 'f>(
        &'c self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'c: 'f,
        Self: 'f,
    {
        Box::pin(async move { self.send(request) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_traces_is_added_once() {
        for endpoint in [
            "http://a:4318",
            "http://a:4318/",
            "http://a:4318/v1/traces",
            "http://a:4318/v1/traces/",
        ] {
            assert_eq!(address_of_traces(endpoint), "http://a:4318/v1/traces");
        }
        assert_eq!(address_of_traces("http://a/b"), "http://a/b/v1/traces");
    }

    #[test]
    fn shown_addresses_have_no_secrets() {
        for (address, expected) in [
            (
                "http://user:s3cret@a:4318/v1/traces?token=s3cret",
                "http://a:4318/v1/traces",
            ),
            (
                "https://[::1]:4318/v1/traces",
                "https://[::1]:4318/v1/traces",
            ),
            ("http://a/v1/traces", "http://a/v1/traces"),
        ] {
            assert_eq!(shown(&address.parse().unwrap()), expected);
        }
    }

    #[test]
    fn operations_have_names() {
        assert_eq!(operation("/v1/chat/completions"), Some("chat"));
        assert_eq!(operation("/v1/completions"), Some("text_completion"));
        assert_eq!(operation("/v1/models"), None);
    }
}
