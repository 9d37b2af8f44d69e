//! The metrics of the server, in the text format of OpenMetrics that Prometheus reads.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{
    models::{Models, ServedModel},
    text_record::TextRecord,
    vllm_metrics::VllmMetrics,
};
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// The type of the content.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Names and values that tell the rows of a metric apart.
type Labels = Vec<(&'static str, String)>;

/// A gauge of a fraction from 0 to 1.
type FractionGauge = Gauge<f64, AtomicU64>;

/// The metrics of the server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    request_seconds: Family<Labels, Histogram>,
    running: Family<Labels, Gauge>,
    queued: Family<Labels, Gauge>,
    kv_cache_use: Family<Labels, FractionGauge>,
    prefix_hits: Family<Labels, Counter>,
    preemptions: Family<Labels, Counter>,
    prompt_tokens: Family<Labels, Counter>,
    generated_tokens: Family<Labels, Counter>,
    queue_seconds: Family<Labels, Histogram>,
    prompt_length: Family<Labels, Histogram>,
    output_length: Family<Labels, Histogram>,
    first_token_seconds: Family<Labels, Histogram>,
    token_seconds: Family<Labels, Histogram>,
    /// The same under vLLM's names.
    vllm: Option<VllmMetrics>,
}

/// Seconds of a whole request, or to its first token: from a millisecond to half an hour.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 22))
}

/// Seconds of a token: from 0.1 milliseconds to three seconds.
fn token_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 16))
}

/// Tokens of a text: from one to half a million.
fn lengths() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 20))
}

impl Metrics {
    /// Creates metrics that are all zero, with those of vLLM beside them if these are wanted.
    pub fn new(with_vllm: bool) -> Metrics {
        let histograms = |new: fn() -> Histogram| Family::<Labels, _>::new_with_constructor(new);
        let metrics = Metrics {
            registry: Registry::with_prefix("wisp"),
            requests: Family::default(),
            request_seconds: histograms(seconds),
            running: Family::default(),
            queued: Family::default(),
            kv_cache_use: Family::default(),
            prefix_hits: Family::default(),
            preemptions: Family::default(),
            prompt_tokens: Family::default(),
            generated_tokens: Family::default(),
            queue_seconds: histograms(seconds),
            prompt_length: histograms(lengths),
            output_length: histograms(lengths),
            first_token_seconds: histograms(seconds),
            token_seconds: histograms(token_seconds),
            vllm: with_vllm.then(VllmMetrics::new),
        };
        metrics.registered()
    }

    #[rustfmt::skip]
    fn registered(mut self) -> Metrics {
        let to = &mut self.registry;
        to.register("requests", "Answered requests by endpoint and status; 499: the client went away", self.requests.clone());
        to.register("request_duration_seconds", "Time from a request to the end of its answer", self.request_seconds.clone());
        to.register("texts_running", "Texts that a model generates now", self.running.clone());
        to.register("texts_queued", "Texts that wait for others to end", self.queued.clone());
        to.register("kv_cache_use", "The fraction of the KV cache's pages that texts use", self.kv_cache_use.clone());
        to.register("prefix_cache_hit_tokens", "Tokens of prompts whose keys and values were in the KV cache", self.prefix_hits.clone());
        to.register("preemptions", "How often a text gave up its pages of the KV cache and later started over", self.preemptions.clone());
        to.register("prompt_tokens", "Tokens of prompts and of texts to embed", self.prompt_tokens.clone());
        to.register("generated_tokens", "Generated tokens", self.generated_tokens.clone());
        to.register("time_in_queue_seconds", "Time from the start of a text to the first step that computes something of it", self.queue_seconds.clone());
        to.register("prompt_length_tokens", "Tokens of the prompt of a text", self.prompt_length.clone());
        to.register("output_length_tokens", "Generated tokens of a text", self.output_length.clone());
        to.register("time_to_first_token_seconds", "Time from the start of a text to its first token, in the queue included", self.first_token_seconds.clone());
        to.register("time_per_output_token_seconds", "Mean time of the tokens of a text after the first", self.token_seconds.clone());
        self
    }

    /// Counts a request that has ended.
    pub fn count_request(&self, endpoint: &str, status: u16, elapsed: Duration) {
        let endpoint = ("endpoint", endpoint.to_string());
        let labels = vec![endpoint.clone(), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        let duration = self.request_seconds.get_or_create(&vec![endpoint]);
        duration.observe(elapsed.as_secs_f64());
    }

    /// Counts the tokens of prompts.
    pub fn count_prompt(&self, served: &ServedModel, tokens: usize) {
        let labels = of_model(&served.id);
        self.prompt_tokens
            .get_or_create(&labels)
            .inc_by(tokens as u64);
        if let Some(vllm) = &self.vllm {
            vllm.count_prompt(served, tokens);
        }
    }

    /// Takes note of a text that was queued.
    pub fn begin_text(&self, served: &ServedModel) {
        if let Some(vllm) = &self.vllm {
            vllm.begin_text(served);
        }
    }

    /// Takes note of the first progress of a text.
    pub fn run_text(&self, served: &ServedModel) {
        if let Some(vllm) = &self.vllm {
            vllm.run_text(served);
        }
    }

    /// Counts the tokens of a text that has ended, and their times.
    pub fn end_text(&self, text: &TextRecord<'_>) {
        let (labels, timings) = (of_model(&text.served.id), &text.timings);
        self.generated_tokens
            .get_or_create(&labels)
            .inc_by(text.tokens as u64);
        let prompt_length = self.prompt_length.get_or_create(&labels);
        prompt_length.observe(text.prompt_tokens as f64);
        let output_length = self.output_length.get_or_create(&labels);
        output_length.observe(text.tokens as f64);
        if let Some(queued) = timings.queued {
            let histogram = self.queue_seconds.get_or_create(&labels);
            histogram.observe(queued.as_secs_f64());
        }
        if let Some(first) = timings.first_token {
            let histogram = self.first_token_seconds.get_or_create(&labels);
            histogram.observe(first.as_secs_f64());
        }
        if timings.decoded_tokens > 0 {
            let mean = timings.decode.as_secs_f64() / timings.decoded_tokens as f64;
            self.token_seconds.get_or_create(&labels).observe(mean);
        }
        if let Some(vllm) = &self.vllm {
            vllm.end_text(text);
        }
    }

    /// Takes over what the engine tells of a model.
    fn read(&self, served: &ServedModel) {
        let (labels, used) = (of_model(&served.id), served.model.utilization());
        self.running.get_or_create(&labels).set(used.running as i64);
        self.queued.get_or_create(&labels).set(used.waiting as i64);
        let fraction = used.used_pages as f64 / used.total_pages.max(1) as f64;
        self.kv_cache_use.get_or_create(&labels).set(fraction);
        let hits = self.prefix_hits.get_or_create(&labels);
        hits.inner().store(used.prefix_hits.hits, Ordering::Relaxed);
        let preemptions = self.preemptions.get_or_create(&labels);
        preemptions
            .inner()
            .store(used.preemptions, Ordering::Relaxed);
        if let Some(vllm) = &self.vllm {
            vllm.read(served, &used);
        }
    }

    /// Returns all metrics as text, with the gauges of these models.
    pub fn text(&self, models: Option<&Models>) -> String {
        // Adapters run in their model.
        let all = models.map(Models::all).unwrap_or_default();
        if let Some(vllm) = &self.vllm {
            vllm.forget_rows();
        }
        for served in all.iter().filter(|served| served.adapter.is_none()) {
            self.read(served);
        }
        let registries = [
            Some(&self.registry),
            self.vllm.as_ref().map(VllmMetrics::registry),
        ];
        let mut text = String::new();
        // Writing to a string does not fail.
        for registry in registries.into_iter().flatten() {
            let _ = encode_registry(&mut text, registry);
        }
        let _ = encode_eof(&mut text);
        text
    }
}

fn of_model(id: &str) -> Labels {
    vec![("model", id.to_string())]
}
