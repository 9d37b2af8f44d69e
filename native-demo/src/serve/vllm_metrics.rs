//! The metrics of the server under vLLM's names (`--metrics-compat vllm`), for dashboards, autoscalers and gateways that
//! read those. They are written beside the server's own, with the same meaning as in vLLM 0.10 and later.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use wisp_engine::{FinishReason, pipelines::Utilization};

use super::{
    clock::now,
    models::ServedModel,
    text_record::{TextPhase, TextRecord},
};

/// Names and values that tell the rows of a metric apart.
type Labels = Vec<(&'static str, String)>;

type FloatGauge = Gauge<f64, AtomicU64>;

/// vLLM's bounds of seconds to the first token.
const FIRST_TOKEN: [f64; 21] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0,
];

/// vLLM's bounds of seconds between two tokens.
const BETWEEN_TOKENS: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];

/// vLLM's bounds of seconds of a whole text.
const WHOLE_TEXT: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];

/// vLLM's bounds of the tokens of a text.
const TOKENS: [f64; 17] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5,
];

/// The texts of an adapter that wait and that run.
#[derive(Clone, Copy, Debug, Default)]
struct AdapterTexts {
    waiting: usize,
    running: usize,
}

/// The metrics, whose label `model_name` is the name of the model without an adapter.
#[derive(Debug)]
pub struct VllmMetrics {
    registry: Registry,
    running: Family<Labels, Gauge>,
    waiting: Family<Labels, Gauge>,
    cache_use: Family<Labels, FloatGauge>,
    cache_config: Family<Labels, Gauge>,
    prefix_queries: Family<Labels, Counter>,
    prefix_hits: Family<Labels, Counter>,
    preemptions: Family<Labels, Counter>,
    prompt_tokens: Family<Labels, Counter>,
    generated_tokens: Family<Labels, Counter>,
    successes: Family<Labels, Counter>,
    queue_time: Family<Labels, Histogram>,
    prompt_length: Family<Labels, Histogram>,
    output_length: Family<Labels, Histogram>,
    first_token: Family<Labels, Histogram>,
    between_tokens: Family<Labels, Histogram>,
    token_of_request: Family<Labels, Histogram>,
    whole_text: Family<Labels, Histogram>,
    lora: Family<Labels, FloatGauge>,
    /// The adapters that are in use, by the names of model and adapter.
    adapters: Mutex<BTreeMap<(String, String), AdapterTexts>>,
}

fn histograms(new: fn() -> Histogram) -> Family<Labels, Histogram> {
    Family::new_with_constructor(new)
}

fn of_model(served: &ServedModel) -> Labels {
    vec![("model_name", served.base.clone())]
}

impl VllmMetrics {
    /// Creates metrics that are all zero.
    pub fn new() -> VllmMetrics {
        let between = || Histogram::new(BETWEEN_TOKENS);
        let metrics = VllmMetrics {
            registry: Registry::default(),
            running: Family::default(),
            waiting: Family::default(),
            cache_use: Family::default(),
            cache_config: Family::default(),
            prefix_queries: Family::default(),
            prefix_hits: Family::default(),
            preemptions: Family::default(),
            prompt_tokens: Family::default(),
            generated_tokens: Family::default(),
            successes: Family::default(),
            queue_time: histograms(|| Histogram::new(WHOLE_TEXT)),
            prompt_length: histograms(|| Histogram::new(TOKENS)),
            output_length: histograms(|| Histogram::new(TOKENS)),
            first_token: histograms(|| Histogram::new(FIRST_TOKEN)),
            between_tokens: histograms(between),
            token_of_request: histograms(between),
            whole_text: histograms(|| Histogram::new(WHOLE_TEXT)),
            lora: Family::default(),
            adapters: Mutex::default(),
        };
        metrics.registered()
    }

    /// Registers the metrics; the names of counters get the ending `_total` when they are written.
    #[rustfmt::skip]
    fn registered(mut self) -> VllmMetrics {
        let to = &mut self.registry;
        to.register("vllm:num_requests_running", "Texts that the model generates now", self.running.clone());
        to.register("vllm:num_requests_waiting", "Texts that wait for others to end", self.waiting.clone());
        to.register("vllm:kv_cache_usage_perc", "The fraction of the KV cache's pages in use; 1 is all", self.cache_use.clone());
        to.register("vllm:gpu_cache_usage_perc", "The same as vllm:kv_cache_usage_perc, under its older name", self.cache_use.clone());
        to.register("vllm:cache_config_info", "The KV cache's pages and their length in tokens", self.cache_config.clone());
        to.register("vllm:prefix_cache_queries", "Tokens of prompts that were looked up in the KV cache", self.prefix_queries.clone());
        to.register("vllm:prefix_cache_hits", "Tokens of prompts whose keys and values were in the KV cache", self.prefix_hits.clone());
        to.register("vllm:num_preemptions", "How often a text gave up its pages of the KV cache", self.preemptions.clone());
        to.register("vllm:prompt_tokens", "Tokens of prompts", self.prompt_tokens.clone());
        to.register("vllm:generation_tokens", "Generated tokens", self.generated_tokens.clone());
        to.register("vllm:request_success", "Texts that have ended, by reason", self.successes.clone());
        to.register("vllm:request_queue_time_seconds", "Time from the start of a text to the first step that computes something of it", self.queue_time.clone());
        to.register("vllm:request_prompt_tokens", "Tokens of the prompt of a text", self.prompt_length.clone());
        to.register("vllm:request_generation_tokens", "Generated tokens of a text", self.output_length.clone());
        to.register("vllm:time_to_first_token_seconds", "Time from the start of a text to its first token", self.first_token.clone());
        to.register("vllm:time_per_output_token_seconds", "Time between two tokens of a text, its mean counted once a token", self.between_tokens.clone());
        to.register("vllm:inter_token_latency_seconds", "The same as vllm:time_per_output_token_seconds", self.between_tokens.clone());
        to.register("vllm:request_time_per_output_token_seconds", "Mean time of the tokens of a text after the first", self.token_of_request.clone());
        to.register("vllm:e2e_request_latency_seconds", "Time from the start of a text to its end", self.whole_text.clone());
        to.register("vllm:lora_requests_info", "Adapters in use, with the time in seconds of Unix time", self.lora.clone());
        self
    }

    /// Returns the registry, to write it.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Counts the tokens of prompts.
    pub fn count_prompt(&self, served: &ServedModel, tokens: usize) {
        let counter = self.prompt_tokens.get_or_create(&of_model(served));
        counter.inc_by(tokens as u64);
    }

    /// Takes note of a text that was queued.
    pub fn begin_text(&self, served: &ServedModel) {
        self.change_adapter(served, |texts| texts.waiting += 1);
    }

    /// Takes note of the first progress of a text.
    pub fn run_text(&self, served: &ServedModel) {
        self.change_adapter(served, |texts| {
            texts.waiting = texts.waiting.saturating_sub(1);
            texts.running += 1;
        });
    }

    fn change_adapter(&self, served: &ServedModel, change: impl FnOnce(&mut AdapterTexts)) {
        let Some(adapter) = &served.adapter else {
            return;
        };
        // Poisoning is harmless: counts are changed one by one.
        let mut adapters = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (served.base.clone(), adapter.clone());
        let texts = adapters.entry(key.clone()).or_default();
        change(texts);
        if texts.waiting + texts.running == 0 {
            adapters.remove(&key);
        }
    }

    /// Counts a text that has ended, or whose client went away.
    pub fn end_text(&self, text: &TextRecord<'_>) {
        self.change_adapter(text.served, |texts| {
            let count = match text.has_run {
                true => &mut texts.running,
                false => &mut texts.waiting,
            };
            *count = count.saturating_sub(1);
        });
        let (labels, timings) = (of_model(text.served), &text.timings);
        let generated = self.generated_tokens.get_or_create(&labels);
        generated.inc_by(text.tokens as u64);
        let mut by_reason = labels.clone();
        by_reason.push(("finished_reason", finished_reason(text.phase).into()));
        self.successes.get_or_create(&by_reason).inc();
        let prompt_length = self.prompt_length.get_or_create(&labels);
        prompt_length.observe(text.prompt_tokens as f64);
        let output_length = self.output_length.get_or_create(&labels);
        output_length.observe(text.tokens as f64);
        if let Some(queued) = timings.queued {
            let histogram = self.queue_time.get_or_create(&labels);
            histogram.observe(queued.as_secs_f64());
        }
        if let Some(first) = timings.first_token {
            let histogram = self.first_token.get_or_create(&labels);
            histogram.observe(first.as_secs_f64());
        }
        if timings.decoded_tokens > 0 {
            let mean = timings.decode.as_secs_f64() / timings.decoded_tokens as f64;
            self.token_of_request.get_or_create(&labels).observe(mean);
            let between = self.between_tokens.get_or_create(&labels);
            (0..timings.decoded_tokens).for_each(|_| between.observe(mean));
        }
        let whole = self.whole_text.get_or_create(&labels);
        whole.observe(text.elapsed.as_secs_f64());
    }

    /// Takes over what the engine tells of a model.
    pub fn read(&self, served: &ServedModel, used: &Utilization) {
        let labels = of_model(served);
        self.running.get_or_create(&labels).set(used.running as i64);
        self.waiting.get_or_create(&labels).set(used.waiting as i64);
        let fraction = used.used_pages as f64 / used.total_pages.max(1) as f64;
        self.cache_use.get_or_create(&labels).set(fraction);
        let store = |counters: &Family<Labels, Counter>, value: u64| {
            let counter = counters.get_or_create(&labels);
            counter.inner().store(value, Ordering::Relaxed);
        };
        store(&self.prefix_queries, used.prefix_hits.tokens);
        store(&self.prefix_hits, used.prefix_hits.hits);
        store(&self.preemptions, used.preemptions);
        let limits = served.model.limits();
        let mut config = labels.clone();
        config.push(("block_size", limits.page_size.to_string()));
        config.push(("num_gpu_blocks", used.total_pages.to_string()));
        self.cache_config.get_or_create(&config).set(1);
        self.read_adapters(served, limits.max_num_loras);
    }

    /// Replaces the rows of adapters, whose labels are the names of those in use.
    fn read_adapters(&self, served: &ServedModel, slots: u64) {
        if slots == 0 {
            return;
        }
        let adapters = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        let own = adapters
            .iter()
            .filter(|((base, _), _)| *base == served.base);
        let (mut waiting, mut running) = (Vec::new(), Vec::new());
        for ((_, adapter), texts) in own {
            if texts.waiting > 0 {
                waiting.push(adapter.as_str());
            }
            if texts.running > 0 {
                running.push(adapter.as_str());
            }
        }
        let mut labels = of_model(served);
        labels.push(("max_lora", slots.to_string()));
        labels.push(("running_lora_adapters", running.join(",")));
        labels.push(("waiting_lora_adapters", waiting.join(",")));
        self.lora.get_or_create(&labels).set(now() as f64);
    }

    /// Forgets the rows whose labels have values of the last reading.
    pub fn forget_rows(&self) {
        self.lora.clear();
        self.cache_config.clear();
    }
}

/// Returns vLLM's name of the way in which a text ended.
fn finished_reason(phase: TextPhase) -> &'static str {
    match phase {
        TextPhase::Ended(FinishReason::Stop) => "stop",
        TextPhase::Ended(FinishReason::Length) => "length",
        TextPhase::Failed | TextPhase::Ended(FinishReason::NonFinite | FinishReason::Failed) => {
            "error"
        }
        _ => "abort",
    }
}
