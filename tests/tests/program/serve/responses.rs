//! `/v1/responses`.

use serde_json::{Value, json};
use wisp_tests::server::Server;

use super::{assert_near, generated, merged};

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
    let more = json!({ "instructions": "Be brief.", "store": true, "metadata": { "a": "b" } });
    let response = server.json(PATH, &request(&more));
    assert_eq!(response["store"], false);
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
fn what_is_not_supported_is_refused_by_name() {
    let server = Server::start(&[]);
    for (more, param) in [
        (json!({ "n": 2 }), "n"),
        (
            json!({ "previous_response_id": "resp_1" }),
            "previous_response_id",
        ),
        (
            json!({ "tools": [{ "type": "web_search" }], "tool_choice": "required" }),
            "tool_choice",
        ),
        (json!({ "background": true }), "background"),
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (
            json!({ "text": { "format": { "type": "json_schema", "schema": { "type": "array", "uniqueItems": true } } } }),
            "text.format",
        ),
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
    // Tools that are no functions are left out.
    let others = json!({ "tools": [{ "type": "web_search" }], "tool_choice": "auto" });
    let response = server.json(PATH, &request(&others));
    assert_eq!(response["tools"], json!([]));
}

/// Returns a request with a tool that must be called.
fn with_tools(more: &Value) -> Value {
    let city = json!({ "enum": ["Rome", "Oslo"] });
    let weather = json!({ "type": "object", "properties": { "city": city }, "required": ["city"] });
    let tools = json!([{ "type": "function", "name": "weather", "parameters": weather }]);
    let fixed = json!({
        "tools": tools, "tool_choice": "required", "parallel_tool_calls": false,
        "max_output_tokens": 96,
    });
    request(&merged(fixed, more))
}

#[test]
fn demanded_calls_are_items() {
    let server = Server::start(&[]);
    let named = json!({ "tool_choice": { "type": "function", "name": "weather" } });
    for more in [json!({}), named] {
        let body = with_tools(&more);
        let response = server.json(PATH, &body);
        assert_eq!(response["status"], "completed", "{response}");
        assert_eq!(response["tools"], body["tools"]);
        assert_eq!(response["tool_choice"], body["tool_choice"]);
        let output = response["output"].as_array().expect("items");
        let [call] = &output[..] else {
            panic!("one item was expected: {response}");
        };
        assert_eq!(
            (&call["type"], &call["name"]),
            (&json!("function_call"), &json!("weather"))
        );
        let id = call["call_id"].as_str().expect("an id");
        assert!(id.starts_with("call_"), "{id}");
        let arguments = call["arguments"].as_str().expect("text");
        let parsed: Value = serde_json::from_str(arguments).expect("JSON");
        assert!(
            ["Rome", "Oslo"].iter().any(|city| parsed["city"] == *city),
            "{call}"
        );
        let events = server
            .post(PATH, &merged(body, &json!({ "stream": true })))
            .named_events();
        let mut types: Vec<&str> = events
            .iter()
            .filter_map(|event| event["type"].as_str())
            .collect();
        types.dedup();
        let sequence = [
            "created",
            "in_progress",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ];
        assert_eq!(types, sequence.map(|name| format!("response.{name}")));
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number);
        }
        let deltas = events.iter().filter_map(|event| event["delta"].as_str());
        assert_eq!(deltas.collect::<String>(), arguments);
        // The call and its result go on the conversation.
        let last = &events.last().expect("events")["response"]["output"][0];
        let result = json!({ "type": "function_call_output", "call_id": last["call_id"], "output": "Sunny." });
        let input = json!([{ "role": "user", "content": "How is it?" }, last, result]);
        let after = with_tools(&json!({ "input": input, "tool_choice": "auto" }));
        let answer = server.json(PATH, &after);
        assert_eq!(answer["output"][0]["type"], "message", "{answer}");
    }
    // A call that is cut off before its arguments leaves no text.
    for tokens in [1, 4] {
        let cut = server.json(PATH, &with_tools(&json!({ "max_output_tokens": tokens })));
        assert_eq!(cut["status"], "incomplete", "{cut}");
        let output = cut["output"].as_array().expect("items");
        assert_eq!(output.len(), 1, "{cut}");
        assert_eq!(output[0]["content"][0]["text"], "", "{cut}");
    }
}

#[test]
fn log_probabilities_come_with_the_text() {
    let server = Server::start(&[]);
    let included = [
        "message.output_text.logprobs",
        "reasoning.encrypted_content",
    ];
    let body = request(&json!({ "include": included, "top_logprobs": 2 }));
    let response = server.json(PATH, &body);
    let part = &response["output"][0]["content"][0];
    let scores = part["logprobs"].as_array().expect("log-probabilities");
    assert_eq!(
        scores.len() as u64,
        response["usage"]["output_tokens"]
            .as_u64()
            .expect("a number")
    );
    assert!(scores.iter().all(|entry| {
        entry["top_logprobs"]
            .as_array()
            .is_some_and(|top| top.len() == 2)
    }));
    let events = server
        .post(PATH, &merged(body, &json!({ "stream": true })))
        .named_events();
    let deltas = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta");
    let streamed = deltas.flat_map(|event| event["logprobs"].as_array().expect("a list").clone());
    let streamed: Vec<Value> = streamed.collect();
    // A token that is only a part of a character has no text of its own.
    let done = events
        .iter()
        .find(|event| event["type"] == "response.output_text.done");
    assert_near(&done.expect("an end")["logprobs"], &part["logprobs"]);
    assert!(streamed.len() <= scores.len() && !streamed.is_empty());
    // Nothing is there that nobody asked for.
    let response = server.json(PATH, &request(&json!({})));
    assert_eq!(response["output"][0]["content"][0]["logprobs"], json!([]));
}

#[test]
fn text_follows_its_format() {
    let server = Server::start(&[]);
    let city = json!({ "enum": ["Rome", "Oslo"] });
    let schema = json!({
        "type": "object", "properties": { "city": city }, "required": ["city"],
        "additionalProperties": false,
    });
    let format =
        json!({ "type": "json_schema", "name": "place", "schema": schema, "strict": true });
    let body = request(&json!({ "text": { "format": format }, "max_output_tokens": 96 }));
    let response = server.json(PATH, &body);
    assert_eq!(response["text"]["format"], format);
    let text = response["output"][0]["content"][0]["text"]
        .as_str()
        .expect("text");
    let parsed: Value = serde_json::from_str(text).expect("JSON");
    assert!(
        ["Rome", "Oslo"].iter().any(|city| parsed["city"] == *city),
        "{text}"
    );
}
