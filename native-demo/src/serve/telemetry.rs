//! Traces for OpenTelemetry: a span for each request, sent to a collector by OTLP over HTTP. Spans have no content of
//! requests or answers.

use std::{
    pin::Pin,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use axum::http::{HeaderMap, Method};
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

use super::request_facts::Facts;

/// The variables that other programs read for the address of a collector.
const VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// The path of a collector that takes traces.
const PATH: &str = "v1/traces";

/// The longest time in which a collector must answer.
const TIMEOUT: Duration = Duration::from_secs(10);

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
    /// The status of its answer.
    pub status: u16,
    /// What else is known of it.
    pub facts: &'r Facts,
}

impl Telemetry {
    /// Begins to send to the collector at an address such as `http://localhost:4318`, or at the one that the environment
    /// names as `OTEL_EXPORTER_OTLP_ENDPOINT`; `None` if there is neither.
    ///
    /// # Errors
    ///
    /// If the address is invalid.
    pub fn start(endpoint: Option<&str>) -> Result<Option<Telemetry>> {
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let named = VARIABLES.iter().find(|name| is_set(name));
        if endpoint.is_none() && named.is_none() {
            return Ok(None);
        }
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client::new());
        if let Some(endpoint) = endpoint {
            exporter = exporter.with_endpoint(format!("{}/{PATH}", endpoint.trim_end_matches('/')));
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
            KeyValue::new("http.response.status_code", i64::from(request.status)),
            KeyValue::new("gen_ai.request.id", request.id.to_string()),
        ];
        if let Some(model) = &facts.model {
            let count = |tokens: usize| i64::try_from(tokens).unwrap_or(i64::MAX);
            attributes.extend([
                KeyValue::new("gen_ai.request.model", model.clone()),
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
        if request.status >= 500 {
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

/// The HTTP client that downloads models too. It is only used by the thread that sends spans, and blocks it.
#[derive(Debug)]
struct Client(ureq::Agent);

impl Client {
    fn new() -> Client {
        let roots = ureq::tls::RootCerts::PlatformVerifier;
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .tls_config(ureq::tls::TlsConfig::builder().root_certs(roots).build());
        Client(config.build().into())
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.0.run(request.map(|body| body.to_vec()))?;
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
