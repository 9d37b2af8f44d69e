//! `/v1/responses`.

use serde_json::{Value, json};
use wisp_tests::server::Server;

use super::{generated, merged};

const PATH: &str = "/v1/responses";

/// Returns a greedy request with further fields.
fn request(more: &Value) -> Value {
    let fixed = json!({ "input": "Tell me a story.", "temperature": 0, "max_output_tokens": 24 });
    merged(fixed, more)
}

#[test]
fn responses_equal_those_of_generate_whole_and_as_events() {
    let server = Server::start(&[]);
    let flags = [
        "--max-new-tokens",
        "24",
        "--chat",
        "Tell me a story.",
        "--system",
        "Be brief.",
    ];
    let expected = generated(&flags);
    let more = json!({ "instructions": "Be brief.", "store": false, "metadata": { "a": "b" } });
    let response = server.json(PATH, &request(&more));
    assert_eq!(response["object"], "response");
    assert_eq!(response["status"], "incomplete");
    assert_eq!(
        response["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    assert_eq!(response["metadata"], json!({ "a": "b" }));
    let part = &response["output"][0]["content"][0];
    assert_eq!(part["type"], "output_text");
    assert_eq!(part["text"], expected["text"]);
    let prompt = expected["prompt_tokens"].as_array().expect("tokens").len();
    assert_eq!(response["usage"]["input_tokens"], prompt);
    // A conversation of items, in which an answer comes back as it was given.
    let items = json!([
        { "role": "developer", "content": "Be brief." },
        { "role": "user", "content": [{ "type": "input_text", "text": "Tell me a story." }] },
    ]);
    let again = server.json(PATH, &request(&json!({ "input": items })));
    assert_eq!(again["output"][0]["content"][0]["text"], expected["text"]);
    let more_items =
        json!([items[0], items[1], response["output"][0], { "role": "user", "content": "More" }]);
    server.json(PATH, &request(&json!({ "input": more_items })));
    let body = merged(request(&more), &json!({ "stream": true }));
    let events = server.post(PATH, &body).named_events();
    let numbers: Vec<u64> = events
        .iter()
        .filter_map(|event| event["sequence_number"].as_u64())
        .collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<u64>>());
    let mut types: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    types.dedup();
    let sequence = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "incomplete",
    ];
    assert_eq!(types, sequence.map(|name| format!("response.{name}")));
    let deltas = events.iter().filter_map(|event| event["delta"].as_str());
    assert_eq!(
        deltas.collect::<String>(),
        expected["text"].as_str().expect("text")
    );
    let last = &events.last().expect("events")["response"];
    assert_eq!(
        last["output"][0]["content"],
        response["output"][0]["content"]
    );
    assert_eq!(last["usage"], response["usage"]);
}

#[test]
fn state_and_tools_are_refused_by_name() {
    let server = Server::start(&[]);
    for (more, param) in [
        (json!({ "store": true }), "store"),
        (
            json!({ "previous_response_id": "resp_1" }),
            "previous_response_id",
        ),
        (
            json!({ "tools": [{ "type": "function", "name": "f" }] }),
            "tools",
        ),
        (json!({ "background": true }), "background"),
        (json!({ "temperature": -1 }), "temperature"),
        (json!({ "input": "a story ".repeat(400) }), "input"),
        (json!({ "metadata": 5 }), "metadata"),
    ] {
        let response = server.post(PATH, &request(&more));
        assert_eq!(response.status, 400, "{more}: {}", response.body);
        assert_eq!(
            response.json()["error"]["param"],
            param,
            "{}",
            response.body
        );
    }
    // What asks for nothing is accepted.
    let nothing =
        json!({ "tools": [], "tool_choice": "auto", "previous_response_id": null, "include": [] });
    server.json(PATH, &request(&nothing));
}
