//! Tools of `/v1/chat/completions`: the built-in model was not trained to call any, but what it must call, it calls.

use serde_json::{Value, json};
use wisp_tests::server::Server;

use super::{chat, merged};

const PATH: &str = "/v1/chat/completions";

/// Returns a chat with two tools, whose arguments are short.
fn with_tools(more: &Value) -> Value {
    let city = json!({ "enum": ["Rome", "Oslo"] });
    let weather = json!({ "type": "object", "properties": { "city": city }, "required": ["city"] });
    let tools = json!([
        { "type": "function", "function": { "name": "weather", "parameters": weather } },
        { "type": "function", "function": { "name": "now" } },
    ]);
    let fixed = json!({ "tools": tools, "tool_choice": "required", "max_completion_tokens": 96 });
    chat(&merged(fixed, more))
}

/// Joins the calls of the chunks of one choice as clients do.
#[track_caller]
fn joined_calls(chunks: &[Value], index: usize) -> Vec<Value> {
    let mut calls: Vec<Value> = Vec::new();
    let choices = chunks.iter().map(|chunk| &chunk["choices"][0]);
    let deltas = choices.filter(|choice| choice["index"] == index);
    let deltas = deltas.filter_map(|choice| choice["delta"]["tool_calls"].as_array());
    for delta in deltas.flatten() {
        let at = delta["index"].as_u64().expect("an index") as usize;
        let piece = delta["function"]["arguments"].as_str().expect("arguments");
        if at == calls.len() {
            let mut call = delta.clone();
            call.as_object_mut().expect("an object").remove("index");
            calls.push(call);
        } else {
            // Only the arguments go on.
            assert_eq!(delta["function"].as_object().expect("an object").len(), 1);
            assert!(delta.get("id").is_none(), "{delta}");
            let arguments = &mut calls[at]["function"]["arguments"];
            *arguments = format!("{}{piece}", arguments.as_str().expect("text")).into();
        }
    }
    calls
}

/// Returns the calls of a choice without their ids, which differ in each answer.
fn without_ids(calls: &[Value]) -> Vec<Value> {
    let each = calls.iter().cloned().map(|mut call| {
        let id = call["id"].take();
        assert!(
            id.as_str().is_some_and(|id| id.starts_with("call_")),
            "{id}"
        );
        call
    });
    each.collect()
}

#[test]
fn demanded_calls_follow_the_schema() {
    let server = Server::start(&[]);
    let named = json!({ "type": "function", "function": { "name": "weather" } });
    let allowed = |name: &str| {
        let tools = json!([{ "type": "function", "function": { "name": name } }]);
        let allowed = json!({ "mode": "required", "tools": tools });
        json!({ "type": "allowed_tools", "allowed_tools": allowed })
    };
    for (more, names, reason) in [
        (
            json!({ "parallel_tool_calls": false }),
            &["weather", "now"][..],
            "tool_calls",
        ),
        // As at OpenAI, a tool that the client names is called once, and the call is no decision of the model.
        (json!({ "tool_choice": named }), &["weather"], "stop"),
        (
            json!({ "tool_choice": allowed("now"), "parallel_tool_calls": false }),
            &["now"],
            "tool_calls",
        ),
        (
            json!({ "n": 2, "temperature": 1, "seed": 3, "parallel_tool_calls": false }),
            &["weather", "now"],
            "tool_calls",
        ),
    ] {
        let whole = server.json(PATH, &with_tools(&more));
        let mut body = with_tools(&more);
        body["stream"] = true.into();
        let chunks = server.stream(PATH, &body);
        for choice in whole["choices"].as_array().expect("choices") {
            assert_eq!(choice["finish_reason"], reason, "{whole}");
            assert_eq!(choice["message"]["content"], Value::Null);
            let calls = choice["message"]["tool_calls"].as_array().expect("calls");
            assert_eq!(calls.len(), 1);
            assert_eq!(calls[0]["type"], "function");
            let function = &calls[0]["function"];
            let arguments = function["arguments"].as_str().expect("text");
            let arguments: Value = serde_json::from_str(arguments).expect("JSON");
            let name = function["name"].as_str().expect("a name");
            assert!(names.contains(&name), "{name}");
            match name {
                "weather" => assert!(
                    ["Rome", "Oslo"]
                        .iter()
                        .any(|city| arguments["city"] == *city)
                ),
                _ => assert_eq!(arguments, json!({})),
            }
            let index = choice["index"].as_u64().expect("an index") as usize;
            let streamed = joined_calls(&chunks, index);
            assert_eq!(without_ids(&streamed), without_ids(calls), "{more}");
            let own = chunks.iter().map(|chunk| &chunk["choices"][0]);
            let own: Vec<_> = own.filter(|choice| choice["index"] == index).collect();
            assert_eq!(own[0]["delta"]["role"], "assistant");
            assert_eq!(own.last().expect("chunks")["finish_reason"], reason);
        }
    }
}

#[test]
fn answers_beside_tools_are_calls_or_follow_the_format() {
    let server = Server::start(&[]);
    let schema = json!({
        "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"],
        "additionalProperties": false,
    });
    let answer = server.json(
        PATH,
        &with_tools(&json!({
            "tool_choice": "auto", "parallel_tool_calls": false, "n": 24, "temperature": 1.5, "seed": 5,
            "response_format": { "type": "json_schema", "json_schema": { "name": "a", "schema": schema } },
        })),
    );
    let (mut calls, mut texts) = (0, 0);
    for choice in answer["choices"].as_array().expect("choices") {
        let message = &choice["message"];
        match message["content"].as_str() {
            Some(text) => {
                let value: Value = serde_json::from_str(text).expect("JSON");
                assert!(value["ok"].is_boolean(), "{text}");
                assert_eq!(choice["finish_reason"], "stop", "{text}");
                texts += 1;
            }
            None => {
                assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
                calls += message["tool_calls"].as_array().expect("calls").len();
            }
        }
    }
    assert!(calls > 0 && texts > 0, "{answer}");
}

#[test]
fn calls_that_a_stop_string_cuts_end_with_stop() {
    let server = Server::start(&[]);
    let named = json!({ "mode": "required", "tools": [{ "type": "function", "function": { "name": "weather" } }] });
    for (stop, reason) in [("city", "stop"), ("</tool_call>", "tool_calls")] {
        let mut body = with_tools(&json!({
            "tool_choice": { "type": "allowed_tools", "allowed_tools": named }, "parallel_tool_calls": false, "stop": stop,
        }));
        let whole = server.json(PATH, &body)["choices"][0].clone();
        let calls = whole["message"]["tool_calls"].as_array().expect("calls");
        assert_eq!(calls[0]["function"]["name"], "weather");
        let arguments = calls[0]["function"]["arguments"].as_str().expect("text");
        let is_whole = serde_json::from_str::<Value>(arguments).is_ok();
        assert_eq!(is_whole, reason == "tool_calls", "{arguments}");
        assert_eq!(whole["finish_reason"], reason, "{whole}");
        body["stream"] = true.into();
        let chunks = server.stream(PATH, &body);
        let last = &chunks.last().expect("chunks")["choices"][0];
        assert_eq!(last["finish_reason"], reason, "{last}");
        assert_eq!(without_ids(&joined_calls(&chunks, 0)), without_ids(calls));
    }
}

#[test]
fn calls_that_are_cut_off_before_their_arguments_leave_no_text() {
    let server = Server::start(&[]);
    for tokens in 1..8 {
        let mut body = with_tools(&json!({ "max_completion_tokens": tokens }));
        let whole = server.json(PATH, &body)["choices"][0].clone();
        assert_eq!(whole["finish_reason"], "length", "{whole}");
        assert_eq!(whole["message"]["content"], Value::Null, "{whole}");
        body["stream"] = true.into();
        let chunks = server.stream(PATH, &body);
        for choice in chunks.iter().map(|chunk| &chunk["choices"][0]) {
            let content = &choice["delta"]["content"];
            assert_eq!(content.as_str().unwrap_or_default(), "", "{choice}");
        }
        let last = &chunks.last().expect("chunks")["choices"][0];
        assert_eq!(last["finish_reason"], "length", "{last}");
    }
}

#[test]
fn results_are_part_of_the_conversation() {
    let server = Server::start(&[]);
    let call = json!({
        "id": "call_1", "type": "function",
        "function": { "name": "weather", "arguments": "{\"city\": \"Rome\"}" },
    });
    let messages = json!([
        { "role": "user", "content": "How is it?" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "call_1", "content": "Sunny." },
    ]);
    let body = with_tools(&json!({ "messages": messages, "tool_choice": "none" }));
    let prompt = server.json("/apply-template", &body)["prompt"].clone();
    let prompt = prompt.as_str().expect("text");
    for text in [
        "\"name\":\"weather\",\"arguments\":{\"city\":\"Rome\"}",
        "Sunny.",
    ] {
        assert!(prompt.contains(text), "{prompt}");
    }
    // Without a choice of tools they are not described.
    assert!(!prompt.contains("<tools>"), "{prompt}");
    let auto = with_tools(&json!({ "messages": messages, "tool_choice": "auto" }));
    let described = server.json("/apply-template", &auto)["prompt"].clone();
    assert!(
        described.as_str().expect("text").contains("<tools>"),
        "{described}"
    );
    for body in [body, auto] {
        let answer = server.json(PATH, &body);
        let message = &answer["choices"][0]["message"];
        assert!(message["content"].is_string(), "{answer}");
        assert!(message.get("tool_calls").is_none(), "{answer}");
    }
}

#[test]
fn strict_tools_are_refused_if_their_schemas_cannot_be_enforced() {
    let server = Server::start(&[]);
    let list = json!({ "type": "array", "uniqueItems": true });
    let schema = json!({ "type": "object", "properties": { "a": list } });
    let function = |strict: bool| json!({ "name": "f", "parameters": schema, "strict": strict });
    let chat = |strict: bool, choice: &str| {
        let tools = json!([
            { "type": "function", "function": { "name": "now", "strict": true } },
            { "type": "function", "function": function(strict) },
        ]);
        with_tools(&json!({ "tools": tools, "tool_choice": choice, "max_completion_tokens": 4 }))
    };
    let response = |strict: bool, choice: &str| {
        let tool = merged(function(strict), &json!({ "type": "function" }));
        // Tools that are not functions are left out, but count.
        let tools = json!([{ "type": "web_search" }, tool]);
        json!({ "input": "Hi", "tools": tools, "tool_choice": choice, "max_output_tokens": 4 })
    };
    for choice in ["auto", "required"] {
        for (path, strict, free, param) in [
            (
                PATH,
                chat(true, choice),
                chat(false, choice),
                "tools[1].function.parameters",
            ),
            (
                "/v1/responses",
                response(true, choice),
                response(false, choice),
                "tools[1].parameters",
            ),
        ] {
            // Without strict, the arguments are free; they are checked first, so that their grammar is kept.
            server.json(path, &free);
            let refused = server.post(path, &strict);
            assert_eq!(refused.status, 400, "{}", refused.body);
            let error = &refused.json()["error"];
            assert_eq!(error["code"], "invalid_function_parameters", "{error}");
            assert_eq!(error["param"], param, "{error}");
            let message = error["message"].as_str().expect("a message");
            assert!(message.contains("`uniqueItems`"), "{message}");
        }
    }
}

#[test]
fn what_cannot_be_called_is_named() {
    let server = Server::start(&[]);
    let unknown = json!({ "type": "function", "function": { "name": "f" } });
    for (more, param) in [
        (json!({ "tool_choice": unknown }), "tool_choice"),
        (json!({ "tools": null }), "tool_choice"),
        (
            json!({ "tools": [{ "type": "web_search" }] }),
            "tools[0].type",
        ),
        (
            json!({ "messages": [{ "role": "tool", "content": "a" }] }),
            "messages[0].tool_call_id",
        ),
    ] {
        let response = server.post(PATH, &with_tools(&more));
        assert_eq!(response.status, 400, "{more}");
        assert_eq!(response.json()["error"]["param"], param, "{more}");
    }
}
