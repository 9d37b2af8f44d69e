//! The life of the server: its start, clients that go away, and its end.

use std::{
    io::{Read, Write},
    time::Duration,
};

use serde_json::json;
use wisp_tests::{
    bundled,
    hub::{Fault, Hub},
    program::{command, run_command},
    server::{Response, Server},
};

use super::{ONE_AT_A_TIME, completion, generated, long};

const RUNNING: &str = "wisp_texts_running{model=\"wisp-tiny\"}";

const KV_CACHE: &str = "wisp_kv_cache_use{model=\"wisp-tiny\"}";
const QUEUED: &str = "wisp_texts_queued{model=\"wisp-tiny\"}";

#[test]
fn client_that_goes_away_ends_its_texts() {
    let server = Server::start(&ONE_AT_A_TIME);
    // A stream, of which a part was read, and an answer that has not begun.
    let mut stream = server.send("POST /v1/completions", &[], &long(50).to_string());
    let mut some = [0; 500];
    stream
        .read_exact(&mut some)
        .expect("the begin of the stream");
    let mut whole = long(50);
    whole["stream"] = false.into();
    let waiting = server.send("POST /v1/completions", &[], &whole.to_string());
    server.wait_until("both run", || server.metric(QUEUED) > 50.0);
    server.wait_until("one runs", || server.metric(RUNNING) == 1.0);
    server.wait_until("it has pages", || server.metric(KV_CACHE) > 0.0);
    drop((stream, waiting));
    server.wait_until("none runs", || {
        server.metric(RUNNING) + server.metric(QUEUED) == 0.0
    });
    server.wait_until("no page is used", || server.metric(KV_CACHE) == 0.0);
    let generated = server.metric("wisp_generated_tokens_total{model=\"wisp-tiny\"}");
    assert!(generated < 60.0 * 512.0, "{generated} tokens");
    let gone = "wisp_requests_total{endpoint=\"/v1/completions\",status=\"499\"}";
    server.wait_until("neither had its whole answer", || {
        server.metric(gone) == 2.0
    });
    // The others go on.
    let answer = server.post("/v1/completions", &completion(&json!({})));
    assert_eq!(answer.status, 200);
}

#[cfg(unix)]
#[test]
fn signal_lets_running_requests_end_and_refuses_new_ones() {
    use nix::sys::signal::Signal;

    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        // More time than the texts take on the slowest machine.
        let server = Server::start(&[&ONE_AT_A_TIME[..], &["--shutdown-timeout", "600"]].concat());
        let mut running = server.send("POST /v1/completions", &[], &long(2).to_string());
        let mut first = [0; 16];
        running
            .read_exact(&mut first)
            .expect("the begin of the answer");
        server.signal(signal);
        server.wait_until("the end begins", || server.get("/health").status == 503);
        let response = server.post("/v1/completions", &completion(&json!({})));
        assert_eq!(response.status, 503);
        assert!(response.header("retry-after").is_some());
        let mut rest = String::new();
        running
            .read_to_string(&mut rest)
            .expect("the rest of the answer");
        assert!(rest.contains("data: [DONE]"), "{rest}");
        let (status, errors) = server.wait();
        assert_eq!(status.code(), Some(0), "{errors}");
    }
}

#[cfg(unix)]
#[test]
fn requests_that_do_not_end_in_time_are_cut_off() {
    let server = Server::start(&[&ONE_AT_A_TIME[..], &["--shutdown-timeout", "0"]].concat());
    let mut running = server.send("POST /v1/completions", &[], &long(50).to_string());
    let mut first = [0; 16];
    running
        .read_exact(&mut first)
        .expect("the begin of the answer");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    let (status, errors) = server.wait();
    assert_eq!(status.code(), Some(143), "{errors}");
    assert!(
        errors.contains("1 requests did not end within 0 s"),
        "{errors}"
    );
    let mut rest = String::new();
    let _ = running.read_to_string(&mut rest);
    assert!(!rest.contains("[DONE]"), "{rest}");
}

/// A slow download keeps the server loading.
#[test]
fn server_answers_while_it_loads() {
    let file = std::fs::read(bundled::folder().join("wisp-tiny.gguf")).expect("the model");
    let (hub, home) = (
        Hub::start(),
        tempfile::tempdir().expect("a temporary folder"),
    );
    hub.add("org/tiny", "tiny.gguf", file);
    hub.inject("tiny.gguf", Fault::Slow(Duration::from_micros(300)), 100);
    let server = Server::start_with(&["--model", "org/tiny"], |command| {
        hub.configure(command, home.path());
    });
    for path in ["/health", "/v1/models"] {
        let response = server.get(path);
        assert_eq!(response.status, 503, "{path}");
        assert!(response.body.contains("loading"), "{}", response.body);
        assert!(response.header("retry-after").is_some());
    }
    let response = server.post("/v1/completions", &completion(&json!({})));
    assert_eq!(response.status, 503);
    assert_eq!(server.get("/version").status, 200);
    server.wait_until_ready();
    assert_eq!(server.get("/v1/models").json()["data"][0]["id"], "org/tiny");
    server.json(
        "/v1/completions",
        &completion(&json!({ "model": "org/tiny" })),
    );
}

#[test]
fn server_that_cannot_start_says_why_in_one_line() {
    for (flags, words) in [
        (&["--host", "0.0.0.0"][..], "--api-key"),
        (
            &["--host", "192.0.2.1", "--no-auth"],
            "cannot listen on 192.0.2.1",
        ),
        (&["--api-key", "odd key"], "API key"),
        (
            &["--model", "org/m", "--model", "org/n", "--lora", "a=b"],
            "--lora belongs to a single model",
        ),
        // Before any of them is loaded.
        (
            &["--model", "a=absent.gguf", "--model", "a=other.gguf"],
            "two models are called a:",
        ),
    ] {
        let fixed = ["serve", "--port", "0", "--device", "host"];
        let run = run_command(command([&fixed[..], flags].concat()), "");
        assert_eq!(run.status, Some(1), "{run:?}");
        assert!(
            run.stderr.starts_with("error: ") && run.stderr.contains(words),
            "{run:?}"
        );
        assert!(!run.stderr.contains("odd key"), "{run:?}");
        assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    }
    let absent = ["serve", "--port", "0", "--model", "absent.gguf"];
    let run = run_command(command(absent), "");
    assert_eq!(run.status, Some(1), "{run:?}");
    assert!(run.stderr.contains("absent.gguf"), "{run:?}");
}

#[test]
fn one_connection_takes_several_requests() {
    let server = Server::start(&[]);
    let body = completion(&json!({ "max_tokens": 4 })).to_string();
    let request = |last: &str| {
        let (host, length) = (&server.address, body.len());
        format!(
            "POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{last}\r\n{body}"
        )
    };
    let mut stream = server.connect();
    let both = request("") + &request("Connection: close\r\n");
    stream.write_all(both.as_bytes()).expect("requests");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("answers");
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
}

#[test]
fn metrics_count_tokens_and_times() {
    let server = Server::start(&[]);
    let expected = generated(&["--max-new-tokens", "24", super::PROMPT]);
    server.json("/v1/completions", &completion(&json!({})));
    let count = |list: &str| expected[list].as_array().expect("tokens").len() as f64;
    let metric = |name: &str| server.metric(&format!("wisp_{name}{{model=\"wisp-tiny\"}}"));
    server.wait_until("the text is counted", || {
        metric("generated_tokens_total") > 0.0
    });
    assert_eq!(metric("generated_tokens_total"), count("tokens"));
    assert_eq!(metric("prompt_tokens_total"), count("prompt_tokens"));
    assert_eq!(metric("time_to_first_token_seconds_count"), 1.0);
    assert_eq!(metric("time_per_output_token_seconds_count"), 1.0);
    // The same prompt again is in the cache if it fills a page.
    let again = completion(&json!({ "prompt": "a story ".repeat(40), "max_tokens": 1 }));
    server.json("/v1/completions", &again);
    server.json("/v1/completions", &again);
    server.wait_until("pages are found", || {
        metric("prefix_cache_hit_tokens_total") >= 32.0
    });
    let text = server.get("/metrics");
    let kind = text.header("content-type").expect("a type");
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(text.body.ends_with("# EOF\n"));
    let version = server.get("/version").json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let id = server.request("GET /health", &["X-Request-Id: my-id"], "");
    assert_eq!(id.header("x-request-id"), Some("my-id"));
    let answer: Response = server.get("/");
    assert!(
        answer
            .header("content-security-policy")
            .expect("a policy")
            .contains("default-src 'none'")
    );
}
