//! Traces of requests, in a build with the feature `otel`.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::mpsc::channel,
    time::Duration,
};

use serde_json::json;
use wisp_tests::{program::run, server::Server};

use super::completion;

/// Starts a collector: returns its address, and the heads and bodies of the requests that it receives.
fn collector() -> (String, std::sync::mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
            let whole = loop {
                let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
                let length = text.split("content-length: ").nth(1);
                let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
                let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
                if let (Some(length), Some(end)) = (length, end)
                    && bytes.len() >= end + 4 + usize::min(length, 1 << 20)
                {
                    break (text[..end].to_string(), bytes.split_off(end + 4));
                }
                match stream.read(&mut buffer) {
                    Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
                    _ => return,
                }
            };
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
            if sender.send(whole).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

/// Returns whether the program sends traces.
fn has_traces() -> bool {
    let help = run(["serve", "--help"]).succeeded().stdout;
    let has_traces = help.contains("--otlp-endpoint");
    if !has_traces {
        println!("skipped: the program is built without the feature otel");
    }
    has_traces
}

#[test]
fn lost_traces_are_reported_once_a_minute() {
    if !has_traces() {
        return;
    }
    let address = "http://127.0.0.1:9/v1/traces";
    let server = Server::start_with(&["--otlp-endpoint", address], |command| {
        command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
        command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    });
    server.wait_until_ready();
    for _ in 0..3 {
        server.json("/v1/completions", &completion(&json!({ "max_tokens": 1 })));
        std::thread::sleep(Duration::from_millis(500));
    }
    let errors = server.kill();
    let lost = format!("traces are lost: {address}: ");
    assert_eq!(errors.matches(&lost).count(), 1, "{errors}");
    assert!(
        errors.contains("OTEL_EXPORTER_OTLP_PROTOCOL=grpc"),
        "{errors}"
    );
}

#[test]
fn no_traces_are_sent_if_the_environment_forbids_it() {
    if !has_traces() {
        return;
    }
    let (address, received) = collector();
    let server = Server::start_with(&["--otlp-endpoint", &address], |command| {
        command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
        command.env("OTEL_SDK_DISABLED", "true");
    });
    server.wait_until_ready();
    server.json("/v1/completions", &completion(&json!({ "max_tokens": 1 })));
    assert!(received.recv_timeout(Duration::from_secs(1)).is_err());
}

#[test]
fn a_span_of_a_request_arrives_at_the_collector() {
    if !has_traces() {
        return;
    }
    let (address, received) = collector();
    let server = Server::start_with(&["--otlp-endpoint", &address], |command| {
        command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
    });
    server.wait_until_ready();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("traceparent: 00-{trace}-b7ad6b7169203331-01");
    let body = completion(&json!({ "max_tokens": 3, "ignore_eos": true })).to_string();
    let headers = [parent.as_str(), "X-Request-Id: my-id"];
    let answer = server.request("POST /v1/completions", &headers, &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let contains = |body: &[u8], part: &[u8]| body.windows(part.len()).any(|other| other == part);
    let trace: Vec<u8> = (0..16)
        .map(|at| u8::from_str_radix(&trace[2 * at..2 * at + 2], 16).expect("a byte"))
        .collect();
    // The spans of requests that came while the server was loading may come first.
    let (head, body) = loop {
        let sent = received
            .recv_timeout(Duration::from_secs(30))
            .expect("spans");
        if contains(&sent.1, &trace) {
            break sent;
        }
    };
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf"),
        "{head}"
    );
    for part in [
        "POST /v1/completions",
        "my-id",
        "gen_ai.operation.name",
        "text_completion",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "wisp-tiny",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.latency.time_in_queue",
        "gen_ai.latency.time_to_first_token",
        "service.name",
    ] {
        assert!(contains(&body, part.as_bytes()), "{part}");
    }
    // No text of the request.
    assert!(!contains(&body, super::PROMPT.as_bytes()));
}
