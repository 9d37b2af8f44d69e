//! `/v1/messages` and `/v1/messages/count_tokens`.

use serde_json::{Value, json};
use wisp_tests::server::Server;

use super::{generated, merged};

const PATH: &str = "/v1/messages";

/// Returns a greedy request with further fields.
fn request(more: &Value) -> Value {
    let messages = json!([{ "role": "user", "content": "Tell me a story." }]);
    let fixed =
        json!({ "model": "wisp-tiny", "messages": messages, "temperature": 0, "max_tokens": 24 });
    merged(fixed, more)
}

fn types(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect()
}

#[test]
fn answers_equal_those_of_generate_whole_and_as_events() {
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
    let body = request(&json!({ "system": "Be brief." }));
    let answer = server.json(PATH, &body);
    assert_eq!(answer["type"], "message");
    assert_eq!(
        answer["content"],
        json!([{ "type": "text", "text": expected["text"] }])
    );
    assert_eq!(answer["stop_reason"], "max_tokens");
    let prompt = expected["prompt_tokens"].as_array().expect("tokens").len();
    let count = server.json("/v1/messages/count_tokens", &body);
    assert_eq!(count, json!({ "input_tokens": prompt }));
    let turns = json!([
        { "role": "user", "content": "Tell me a story." },
        { "role": "system", "content": "Be brief." },
    ]);
    let among = server.json(PATH, &request(&json!({ "messages": turns })));
    assert_eq!(among["content"], answer["content"]);
    let response = server.post(PATH, &merged(body, &json!({ "stream": true })));
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    let events = response.named_events();
    let found = types(&events);
    assert_eq!(found[..3], ["message_start", "ping", "content_block_start"]);
    let end = found.len() - 3;
    assert_eq!(
        found[end..],
        ["content_block_stop", "message_delta", "message_stop"]
    );
    let deltas = &events[3..end];
    assert!(
        deltas
            .iter()
            .all(|event| event["type"] == "content_block_delta")
    );
    let text: String = deltas
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str())
        .collect();
    assert_eq!(text, expected["text"].as_str().expect("text"));
    let delta = &events[end + 1];
    assert_eq!(delta["delta"]["stop_reason"], "max_tokens");
    assert_eq!(
        delta["usage"]["output_tokens"],
        answer["usage"]["output_tokens"]
    );
    let usage = &events[0]["message"]["usage"];
    assert_eq!(usage["input_tokens"], prompt);
    // Tokens of the prefix cache are counted apart.
    let long = json!([{ "role": "user", "content": "a story ".repeat(60) }]);
    let long = request(&json!({ "messages": long, "max_tokens": 2 }));
    let first = server.json(PATH, &long)["usage"].clone();
    let second = server.json(PATH, &long)["usage"].clone();
    let sum = |usage: &Value| {
        let number = |name: &str| usage[name].as_u64().expect("a number");
        (
            number("cache_read_input_tokens"),
            number("cache_read_input_tokens") + number("input_tokens"),
        )
    };
    assert_eq!(sum(&first).0, 0);
    assert!(sum(&second).0 >= 32, "{second}");
    assert_eq!(sum(&first).1, sum(&second).1);
}

/// Returns a request with two tools, one of which must be called.
fn with_tools(more: &Value) -> Value {
    let city = json!({ "enum": ["Rome", "Oslo"] });
    let weather = json!({ "type": "object", "properties": { "city": city }, "required": ["city"] });
    let tools = json!([
        { "name": "weather", "description": "The weather.", "input_schema": weather },
        { "type": "custom", "name": "now", "input_schema": { "type": "object", "properties": {} } },
    ]);
    let choice = json!({ "type": "any", "disable_parallel_tool_use": true });
    let fixed = json!({ "tools": tools, "tool_choice": choice, "max_tokens": 96 });
    request(&merged(fixed, more))
}

#[test]
fn demanded_calls_are_blocks() {
    let server = Server::start(&[]);
    let named = |name: &str| {
        // It is called once, as at OpenAI.
        let choice = json!({ "type": "tool", "name": name });
        json!({ "tool_choice": choice })
    };
    for (more, names) in [
        (json!({}), &["weather", "now"][..]),
        (named("weather"), &["weather"]),
        (named("now"), &["now"]),
    ] {
        let body = with_tools(&more);
        let answer = server.json(PATH, &body);
        assert_eq!(answer["stop_reason"], "tool_use", "{answer}");
        let content = answer["content"].as_array().expect("blocks");
        let [call] = &content[..] else {
            panic!("one block was expected: {answer}");
        };
        assert_eq!(call["type"], "tool_use");
        let id = call["id"].as_str().expect("an id");
        assert!(id.starts_with("toolu_"), "{id}");
        let name = call["name"].as_str().expect("a name");
        assert!(names.contains(&name), "{name}");
        let city = &call["input"]["city"];
        match name {
            "weather" => assert!(["Rome", "Oslo"].iter().any(|name| city == name), "{call}"),
            _ => assert_eq!(call["input"], json!({})),
        }
        let events = server
            .post(PATH, &merged(body, &json!({ "stream": true })))
            .named_events();
        let mut found = types(&events);
        found.dedup();
        let expected = [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ];
        assert_eq!(found, expected);
        let begun = &events[2]["content_block"];
        assert_eq!(
            (&begun["type"], &begun["name"]),
            (&call["type"], &call["name"])
        );
        assert_eq!(begun["input"], json!({}));
        let deltas = events.iter().map(|event| &event["delta"]);
        let deltas = deltas.filter(|delta| delta["type"] == "input_json_delta");
        let json: String = deltas
            .filter_map(|delta| delta["partial_json"].as_str())
            .collect();
        let input: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(input, call["input"]);
        let end = &events[events.len() - 2];
        assert_eq!(end["delta"]["stop_reason"], "tool_use");
    }
    // A call that is cut off has begun, but is not to be run.
    let cut = server.json(
        PATH,
        &with_tools(&merged(named("weather"), &json!({ "max_tokens": 12 }))),
    );
    assert_eq!(cut["stop_reason"], "max_tokens", "{cut}");
    // Before its arguments, it leaves no text.
    for tokens in [1, 4] {
        let cut = server.json(PATH, &with_tools(&json!({ "max_tokens": tokens })));
        assert_eq!(cut["stop_reason"], "max_tokens", "{cut}");
        assert_eq!(cut["content"], json!([{ "type": "text", "text": "" }]));
    }
}

#[test]
fn calls_results_and_tools_are_in_the_prompt() {
    let server = Server::start(&[]);
    let count = |body: &Value| {
        let counted = server.json("/v1/messages/count_tokens", body);
        counted["input_tokens"].as_u64().expect("a number")
    };
    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "weather", "input": { "city": "Rome" } });
    let result = json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny." });
    let messages = json!([
        { "role": "user", "content": "How is it?" },
        { "role": "assistant", "content": [{ "type": "text", "text": "Wait." }, call] },
        { "role": "user", "content": [result] },
    ]);
    let body = with_tools(&json!({ "messages": messages, "tool_choice": { "type": "auto" } }));
    // The same conversation in the other interface.
    let call = json!({
        "id": "toolu_1", "type": "function",
        "function": { "name": "weather", "arguments": "{\"city\":\"Rome\"}" },
    });
    let messages = json!([
        { "role": "user", "content": "How is it?" },
        { "role": "assistant", "content": "Wait.", "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "toolu_1", "content": "Sunny." },
    ]);
    let tools = body["tools"].as_array().expect("tools").iter();
    let tools = tools.map(|tool| {
        let function = json!({
            "name": tool["name"], "description": tool["description"],
            "parameters": tool["input_schema"],
        });
        json!({ "type": "function", "function": function })
    });
    let chat = json!({ "messages": messages, "tools": tools.collect::<Vec<Value>>() });
    let expected = server.json("/tokenize", &chat)["count"]
        .as_u64()
        .expect("a number");
    assert_eq!(count(&body), expected);
    let none = merged(body.clone(), &json!({ "tool_choice": { "type": "none" } }));
    assert!(count(&none) < expected);
    let answer = server.json(PATH, &body);
    assert_eq!(answer["usage"]["input_tokens"], expected);
    assert_eq!(answer["content"][0]["type"], "text", "{answer}");
}

#[test]
fn tools_of_anthropics_servers_are_left_out() {
    let server = Server::start(&[]);
    let search = json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": 5 });
    let answer = server.json(PATH, &request(&json!({ "tools": [search] })));
    assert_eq!(
        answer["content"],
        server.json(PATH, &request(&json!({})))["content"]
    );
    let stop = server.post(PATH, &request(&json!({ "stop": "a" })));
    assert_eq!(stop.status, 400, "{}", stop.body);
}

#[test]
fn stop_sequences_are_named() {
    let server = Server::start(&[]);
    let whole = server.json(PATH, &request(&json!({})));
    let text = whole["content"][0]["text"].as_str().expect("text");
    let (stop, expected) = (
        &text[8..11],
        text[..text.find(&text[8..11]).expect("it")].to_string(),
    );
    let body = request(&json!({ "stop_sequences": ["never said", stop] }));
    let answer = server.json(PATH, &body);
    assert_eq!(answer["stop_reason"], "stop_sequence");
    assert_eq!(answer["stop_sequence"], stop);
    assert_eq!(answer["content"][0]["text"], expected);
    let events = server
        .post(PATH, &merged(body, &json!({ "stream": true })))
        .named_events();
    let delta = &events[events.len() - 2]["delta"];
    assert_eq!(
        *delta,
        json!({ "stop_reason": "stop_sequence", "stop_sequence": stop })
    );
}

#[test]
fn text_follows_its_format() {
    let server = Server::start(&[]);
    let schema = json!({
        "type": "object", "properties": { "city": { "enum": ["Rome", "Oslo"] } }, "required": ["city"],
        "additionalProperties": false,
    });
    let format = json!({ "type": "json_schema", "schema": schema });
    for more in [
        json!({ "output_config": { "format": format, "effort": "low" } }),
        json!({ "output_format": format }),
    ] {
        let body = request(&merged(more, &json!({ "max_tokens": 96 })));
        let answer = server.json(PATH, &body);
        let text = answer["content"][0]["text"].as_str().expect("text");
        let parsed: Value = serde_json::from_str(text).expect("JSON");
        assert!(["Rome", "Oslo"].iter().any(|city| parsed["city"] == *city));
    }
    for more in [
        json!({ "output_config": { "effort": "huge" } }),
        json!({ "output_config": { "format": { "type": "json_schema" } } }),
        json!({ "output_format": { "type": "json_schema", "schema": { "uniqueItems": true } } }),
    ] {
        assert_eq!(server.post(PATH, &request(&more)).status, 400, "{more}");
    }
}

#[test]
fn errors_have_the_format_of_the_interface() {
    let server = Server::start(&["--api-key", "key", "--max-body-bytes", "10000"]);
    let post = |key: &str, path: &str, body: &str| {
        server.request(
            &format!("POST {path}"),
            &[&format!("x-api-key: {key}"), "X-Request-Id: my-id"],
            body,
        )
    };
    let hello = request(&json!({}));
    let bad = request(&json!({ "max_tokens": null })).to_string();
    let unknown = request(&json!({ "model": "gpt-5" })).to_string();
    let tools = request(&json!({ "tools": [{ "name": "a b" }] })).to_string();
    let long = request(&json!({ "system": "a".repeat(20_000) })).to_string();
    for (key, path, body, status, kind) in [
        (
            "wrong",
            PATH,
            &hello.to_string(),
            401,
            "authentication_error",
        ),
        ("key", PATH, &bad, 400, "invalid_request_error"),
        ("key", PATH, &tools, 400, "invalid_request_error"),
        ("key", PATH, &"{".to_string(), 400, "invalid_request_error"),
        ("key", PATH, &unknown, 404, "not_found_error"),
        ("key", PATH, &long, 413, "request_too_large"),
        ("key", "/v1/messages/batches", &bad, 404, "not_found_error"),
        (
            "key",
            "/v1/messages/count_tokens",
            &"{}".to_string(),
            400,
            "invalid_request_error",
        ),
    ] {
        let response = post(key, path, body);
        assert_eq!(response.status, status, "{body}: {}", response.body);
        let error = response.json();
        assert_eq!(error["type"], "error", "{error}");
        assert_eq!(error["error"]["type"], kind, "{error}");
        assert_eq!(error["request_id"], "my-id");
        assert!(
            !error["error"]["message"]
                .as_str()
                .expect("a message")
                .is_empty()
        );
    }
    // Claude Code shortens a conversation where an error begins like this.
    let long = request(&json!({ "system": "a story ".repeat(400) }));
    let error = post("key", PATH, &long.to_string()).json();
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.starts_with("prompt is too long: "), "{message}");
    assert_eq!(post("key", PATH, &hello.to_string()).status, 200);
    // Other endpoints keep OpenAI's format.
    let other = post("key", "/v1/completions", "{}").json();
    assert_eq!(other["error"]["param"], "prompt");
}

#[test]
fn an_answer_that_the_client_begins_goes_on() {
    let server = Server::start(&[]);
    let messages = json!([
        { "role": "user", "content": "Tell me a story." },
        { "role": "assistant", "content": "There was a" },
    ]);
    let begun = json!({ "messages": messages });
    let continued = merged(begun.clone(), &json!({ "continue_final_message": true }));
    let prompt = server.json("/apply-template", &continued)["prompt"].clone();
    let prompt = prompt.as_str().expect("text");
    assert!(prompt.ends_with("There was a"), "{prompt}");
    let tokens = server.json("/tokenize", &continued)["tokens"].clone();
    let fixed = json!({ "temperature": 0, "max_tokens": 24 });
    let plain = merged(fixed.clone(), &json!({ "prompt": tokens }));
    let plain = server.json("/v1/completions", &plain);
    let expected = &plain["choices"][0]["text"];
    let message = server.json(PATH, &request(&begun));
    assert_eq!(
        message["content"],
        json!([{ "type": "text", "text": expected }])
    );
    let count = server.json("/v1/messages/count_tokens", &request(&begun));
    assert_eq!(count["input_tokens"], message["usage"]["input_tokens"]);
    let chat = server.json("/v1/chat/completions", &merged(fixed.clone(), &continued));
    assert_eq!(&chat["choices"][0]["message"]["content"], expected);
    // Otherwise a chat begins a new answer.
    let tokens = |body: &Value| server.json("/tokenize", body)["count"].as_u64();
    assert!(tokens(&begun) > tokens(&continued));
    let unprompted = merged(begun.clone(), &json!({ "add_generation_prompt": false }));
    assert!(tokens(&unprompted) < tokens(&begun));
    let user = json!([{ "role": "user", "content": "Hi" }]);
    let wrong = json!({ "messages": user, "continue_final_message": true });
    let response = server.post("/v1/chat/completions", &merged(fixed, &wrong));
    assert_eq!(response.status, 400, "{}", response.body);
    assert_eq!(response.json()["error"]["param"], "continue_final_message");
    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 8 } });
    let response = server.post(PATH, &merged(request(&begun), &thinking));
    assert_eq!(response.status, 400, "{}", response.body);
}
