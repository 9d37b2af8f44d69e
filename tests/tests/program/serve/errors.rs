//! Requests that the server refuses, each with OpenAI's error object and the parameter's name.

use serde_json::{Value, json};
use wisp_tests::server::{Response, Server};

use super::{ONE_AT_A_TIME, chat, completion, long};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

#[track_caller]
fn assert_error(response: &Response, status: u16, param: &Value, code: &Value) {
    let shown = &response.body;
    assert_eq!(response.status, status, "{shown}");
    let error = &response.json()["error"];
    assert_eq!(&error["param"], param, "{shown}");
    assert_eq!(&error["code"], code, "{shown}");
    assert!(!error["message"].as_str().expect("a message").is_empty());
    assert!(error["type"].as_str().expect("a type").ends_with("_error"));
    assert!(response.header("x-request-id").is_some());
}

#[test]
fn invalid_requests_name_the_parameter() {
    let server = Server::start(&["--max-length", "256"]);
    let many = json!(vec!["a"; 3000]);
    let unsupported = json!("unsupported_parameter");
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    #[rustfmt::skip]
    let table = [
        (COMPLETIONS, completion(&json!({ "temperature": "hot" })), "temperature", Value::Null),
        (COMPLETIONS, completion(&json!({ "temperature": -1 })), "temperature", Value::Null),
        (COMPLETIONS, completion(&json!({ "top_p": 7 })), "top_p", Value::Null),
        (COMPLETIONS, completion(&json!({ "min_p": -0.5 })), "min_p", Value::Null),
        (COMPLETIONS, completion(&json!({ "repetition_penalty": 0 })), "repetition_penalty", Value::Null),
        (COMPLETIONS, completion(&json!({ "max_tokens": -2 })), "max_tokens", Value::Null),
        (COMPLETIONS, completion(&json!({ "logprobs": 21 })), "logprobs", Value::Null),
        (COMPLETIONS, completion(&json!({ "best_of": 2 })), "best_of", unsupported.clone()),
        (COMPLETIONS, completion(&json!({ "suffix": "end" })), "suffix", unsupported.clone()),
        (COMPLETIONS, completion(&json!({ "prompt": null })), "prompt", Value::Null),
        (COMPLETIONS, completion(&json!({ "prompt": [] })), "prompt", Value::Null),
        (COMPLETIONS, completion(&json!({ "prompt": [1, -1] })), "prompt[1]", Value::Null),
        (COMPLETIONS, completion(&json!({ "prompt": [4000000] })), "prompt", Value::Null),
        (COMPLETIONS, completion(&json!({ "prompt": [[1], []] })), "prompt", Value::Null),
        (COMPLETIONS, completion(&json!({ "prompt": many })), "prompt", Value::Null),
        (COMPLETIONS, completion(&json!({ "prompt": "a story ".repeat(400) })), "prompt", json!("context_length_exceeded")),
        (COMPLETIONS, completion(&json!({ "logit_bias": { "4000000": 1 } })), "logit_bias", Value::Null),
        (CHAT, chat(&json!({ "messages": null })), "messages", Value::Null),
        (CHAT, chat(&json!({ "messages": [{ "role": "user", "content": "a story ".repeat(400) }] })), "messages", json!("context_length_exceeded")),
        (CHAT, chat(&json!({ "top_logprobs": 2 })), "top_logprobs", Value::Null),
        (CHAT, chat(&json!({ "logprobs": true, "top_logprobs": 21 })), "top_logprobs", Value::Null),
        (CHAT, chat(&json!({ "tools": [{ "type": "function" }] })), "tools[0].function", Value::Null),
        (CHAT, chat(&json!({ "functions": [{ "name": "f" }] })), "functions", unsupported.clone()),
        (CHAT, chat(&json!({ "response_format": { "type": "xml" } })), "response_format.type", Value::Null),
        (CHAT, chat(&json!({ "guided_json": { "uniqueItems": true } })), "guided_json", Value::Null),
        // Also where a call is demanded, so that no answer has the format.
        (CHAT, chat(&json!({ "guided_json": { "uniqueItems": true }, "tools": tools, "tool_choice": "required" })), "guided_json", Value::Null),
        (COMPLETIONS, completion(&json!({ "guided_regex": "a(" })), "guided_regex", Value::Null),
        (COMPLETIONS, completion(&json!({ "mirostat": 2 })), "mirostat", unsupported.clone()),
        (CHAT, chat(&json!({ "chat_template": "{{ messages }}" })), "chat_template", unsupported.clone()),
        (CHAT, chat(&json!({ "guided_regex": "a(" })), "guided_regex", Value::Null),
        (CHAT, chat(&json!({ "structured_outputs": {} })), "structured_outputs", Value::Null),
        (COMPLETIONS, completion(&json!({ "grammar": "root ::= x" })), "grammar", unsupported),
        (CHAT, chat(&json!({ "stream_options": { "include_usage": true } })), "stream_options", Value::Null),
    ];
    for (path, body, param, code) in table {
        assert_error(&server.post(path, &body), 400, &json!(param), &code);
        // Before a stream begins, too.
        if param != "stream_options" {
            let body = super::merged(body, &json!({ "stream": true }));
            assert_error(&server.post(path, &body), 400, &json!(param), &code);
        }
    }
    // As LiteLLM and others recognise it.
    let long = completion(&json!({ "prompt": "a story ".repeat(400) }));
    let error = server.post(COMPLETIONS, &long).json();
    let message = error["error"]["message"].as_str().expect("a message");
    let words = "this model's maximum context length is 256 tokens";
    assert!(message.starts_with(words), "{message}");
    // None of them left anything behind.
    server.json(CHAT, &chat(&json!({})));
    let running = "wisp_texts_running{model=\"wisp-tiny\"}";
    server.wait_until("nothing runs", || server.metric(running) == 0.0);
}

#[test]
fn invalid_bodies_and_paths_are_refused() {
    let server = Server::start(&["--max-body-bytes", "100000"]);
    let post = |body: &str| server.request("POST /v1/completions", &[], body);
    for body in [
        "",
        "{",
        "[]",
        "\"a\"",
        "{\"prompt\": \"a\",}",
        "\u{0}",
        "{\"a\": \"\\ud800",
    ] {
        assert_error(&post(body), 400, &Value::Null, &Value::Null);
    }
    let deep = format!("{{\"prompt\": {}1{}}}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(post(&deep).status, 400);
    let long = completion(&json!({ "prompt": "a".repeat(200_000) })).to_string();
    assert_error(&post(&long), 413, &Value::Null, &Value::Null);
    let unknown = completion(&json!({ "model": "gpt-5" }));
    let response = server.post(COMPLETIONS, &unknown);
    assert_error(&response, 404, &json!("model"), &json!("model_not_found"));
    let response = server.get("/v1/models/gpt-5");
    assert_error(&response, 404, &json!("model"), &json!("model_not_found"));
    assert_error(&server.get("/v1/nothing"), 404, &Value::Null, &Value::Null);
    assert_error(
        &server.get("/v1/completions"),
        405,
        &Value::Null,
        &Value::Null,
    );
}

#[test]
fn full_queue_is_answered_with_a_time_to_retry() {
    let server = Server::start(&[&ONE_AT_A_TIME[..], &["--max-queue", "99"]].concat());
    let body = long(50).to_string();
    let first = server.send("POST /v1/completions", &[], &body);
    let second = server.send("POST /v1/completions", &[], &body);
    let queued = "wisp_texts_queued{model=\"wisp-tiny\"}";
    server.wait_until("both are queued", || server.metric(queued) > 50.0);
    let response = server.post(COMPLETIONS, &completion(&json!({})));
    assert_error(&response, 429, &Value::Null, &json!("queue_full"));
    assert_eq!(response.header("retry-after"), Some("1"));
    drop((first, second));
    // More at a time than the server ever takes.
    let response = server.post(COMPLETIONS, &completion(&json!({ "n": 101 })));
    assert_error(&response, 400, &json!("n"), &Value::Null);
    server.wait_until("they are gone", || server.metric(queued) == 0.0);
    let ready = || server.post(COMPLETIONS, &completion(&json!({}))).status == 200;
    server.wait_until("the queue has room", ready);
}
