//! Tokens from the prefix cache, and metrics under vLLM's names.

use serde_json::{Value, json};
use wisp_tests::{lora, server::Server};

use super::{chat, completion};

/// A prompt that fills several pages of the KV cache.
fn long_prompt() -> String {
    "a story ".repeat(60)
}

#[test]
fn usage_tells_the_tokens_that_the_prefix_cache_held() {
    let server = Server::start(&[]);
    let cached = |answer: &Value| {
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        let prompt = answer["usage"]["prompt_tokens"].as_u64();
        (cached.expect("a number"), prompt.expect("a number"))
    };
    let body = completion(&json!({ "prompt": long_prompt(), "max_tokens": 2 }));
    let (first, prompt) = cached(&server.json("/v1/completions", &body));
    assert_eq!(first, 0);
    let (second, _) = cached(&server.json("/v1/completions", &body));
    // Whole pages of 32 tokens, but not the last token.
    assert_eq!(second, (prompt - 1) / 32 * 32);
    assert!(second > 0);
    // Of several prompts, each is counted once, however many texts it has.
    let several = json!({ "prompt": [long_prompt(), "new"], "n": 3 });
    let answer = server.json("/v1/completions", &super::merged(body.clone(), &several));
    assert_eq!(cached(&answer).0, second);
    // In streams too.
    let stream = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let chunks = server.stream("/v1/completions", &super::merged(body, &stream));
    assert_eq!(cached(chunks.last().expect("chunks")).0, second);
    let messages = json!([{ "role": "user", "content": long_prompt() }]);
    let body = chat(&json!({ "messages": messages, "max_completion_tokens": 2 }));
    assert_eq!(cached(&server.json("/v1/chat/completions", &body)).0, 0);
    let (again, prompt) = cached(&server.json("/v1/chat/completions", &body));
    assert_eq!(again, (prompt - 1) / 32 * 32);
}

/// Checks that the metrics have a row of this name, with exactly these labels.
#[track_caller]
fn assert_row(metrics: &str, name: &str, labels: &[&str]) {
    let mut rows = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let row = rows
        .next()
        .unwrap_or_else(|| panic!("no {name}: {metrics}"));
    let (found, _) = row.split_once('}').expect("labels");
    let mut found: Vec<&str> = found
        .split("\",")
        .map(|label| label.split('=').next().expect("a name"))
        .collect();
    found.retain(|label| *label != "le");
    assert_eq!(found, labels, "{name}");
}

#[test]
fn metrics_of_vllm_have_its_names_and_labels() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let modules = [("model.layers.0.self_attn.q_proj".to_string(), [256, 256])];
    lora::Adapter::plain(1, &modules, 8, 64.0).write(folder.path());
    let adapter = format!("poet={}", folder.path().display());
    let server = Server::start(&["--metrics-compat", "vllm", "--lora", &adapter]);
    let body = completion(&json!({ "prompt": long_prompt(), "max_tokens": 8, "ignore_eos": true }));
    for model in ["wisp-tiny", "wisp-tiny", "poet"] {
        server.json(
            "/v1/completions",
            &super::merged(body.clone(), &json!({ "model": model })),
        );
    }
    let own = "{model_name=\"wisp-tiny\"}";
    let by_length =
        "vllm:request_success_total{model_name=\"wisp-tiny\",finished_reason=\"length\"}";
    server.wait_until("all are counted", || server.metric(by_length) == 3.0);
    assert_eq!(
        server.metric(&format!("vllm:generation_tokens_total{own}")),
        24.0
    );
    assert_eq!(
        server.metric(&format!("vllm:e2e_request_latency_seconds_count{own}")),
        3.0
    );
    assert_eq!(
        server.metric(&format!("vllm:time_to_first_token_seconds_count{own}")),
        3.0
    );
    let generated = "request_generation_tokens_sum";
    assert_eq!(server.metric(&format!("vllm:{generated}{own}")), 24.0);
    let own_lengths = "wisp_output_length_tokens_sum{model=\"wisp-tiny\"}";
    assert_eq!(server.metric(own_lengths), 16.0);
    let prompt = server.metric(&format!("vllm:prompt_tokens_total{own}"));
    assert_eq!(
        server.metric(&format!("vllm:prefix_cache_queries_total{own}")),
        prompt
    );
    assert!(server.metric(&format!("vllm:prefix_cache_hits_total{own}")) >= 32.0);
    assert!(server.metric(&format!("vllm:inter_token_latency_seconds_count{own}")) >= 3.0);
    let metrics = server.get("/metrics").body;
    for name in [
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "gpu_cache_usage_perc",
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "prompt_tokens_total",
        "generation_tokens_total",
        "request_queue_time_seconds_bucket",
        "request_prompt_tokens_bucket",
        "request_generation_tokens_bucket",
        "time_to_first_token_seconds_bucket",
        "time_per_output_token_seconds_bucket",
        "inter_token_latency_seconds_bucket",
        "request_time_per_output_token_seconds_bucket",
        "e2e_request_latency_seconds_bucket",
        "num_preemptions_total",
    ] {
        assert_row(&metrics, &format!("vllm:{name}"), &["model_name"]);
    }
    assert_row(
        &metrics,
        "vllm:cache_config_info",
        &["model_name", "block_size", "num_gpu_blocks"],
    );
    let labels = [
        "model_name",
        "max_lora",
        "running_lora_adapters",
        "waiting_lora_adapters",
    ];
    assert_row(&metrics, "vllm:lora_requests_info", &labels);
    // While a text of the adapter runs, its name is there.
    let long =
        json!({ "model": "poet", "prompt": "a", "n": 40, "max_tokens": 500, "stream": true });
    let stream = server.send(
        "POST /v1/completions",
        &[],
        &super::merged(body, &long).to_string(),
    );
    server.wait_until("the adapter runs", || {
        server
            .get("/metrics")
            .body
            .contains("running_lora_adapters=\"poet\"")
    });
    drop(stream);
    server.wait_until("no adapter runs", || {
        server
            .get("/metrics")
            .body
            .contains("running_lora_adapters=\"\"")
    });
    // Without the flag, only the server's own names.
    assert!(!Server::start(&[]).get("/metrics").body.contains("vllm:"));
}
