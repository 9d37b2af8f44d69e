//! Clients share a model fairly.

use serde_json::{Value, json};
use wisp_tests::server::{Response, Server};

use super::{ONE_AT_A_TIME, completion};

const PATH: &str = "POST /v1/completions";

/// Returns the value of a metric for a client with this key.
fn metric(server: &Server, key: &str, name: &str) -> f64 {
    let text = server.request("GET /metrics", &[key], "").body;
    let name = format!("wisp_{name}{{model=\"wisp-tiny\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    value.map_or(0.0, |value| value.parse().expect("a number"))
}

/// One client has 24 texts in the queue when another one sends a single request: that is answered after the text that
/// runs, and not behind all others.
#[test]
fn a_client_with_many_requests_does_not_delay_another_one() {
    let keys = ["--api-key", "first", "--api-key", "second"];
    let server = Server::start(&[&ONE_AT_A_TIME[..], &keys].concat());
    let [first, second] = ["first", "second"].map(|key| format!("Authorization: Bearer {key}"));
    let many = json!({ "n": 24, "max_tokens": 40, "ignore_eos": true, "stream": true });
    let running = server.send(PATH, &[&first], &completion(&many).to_string());
    server.wait_until("the texts wait", || {
        metric(&server, &first, "texts_queued") > 20.0
    });
    let single = server.request(PATH, &[&second], &completion(&json!({})).to_string());
    assert_eq!(single.status, 200, "{}", single.body);
    let waiting = metric(&server, &first, "texts_queued");
    assert!(waiting > 15.0, "only {waiting} of 24 texts wait still");
    let events: Vec<Value> = Response::read(running).events();
    let ends = events
        .iter()
        .filter(|event| event["choices"][0]["finish_reason"] == "length");
    assert_eq!(ends.count(), 24);
}
