//! Answers that must match a schema, an expression, a grammar or one of several choices.

use serde_json::{Value, json};
use wisp_tests::server::Server;

use super::{chat, completion, joined};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

#[test]
fn answers_match_what_a_request_says() {
    let server = Server::start(&[]);
    let schema = json!({
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "kind": {"enum": ["cat", "dog"]}},
        "required": ["ok", "kind"],
        "additionalProperties": false
    });
    let format = json!({"type": "json_schema", "json_schema": {"name": "thing", "schema": schema, "strict": true}});
    let more = json!({"response_format": format, "max_completion_tokens": 250, "temperature": 1, "seed": 5, "n": 2});
    let answer = server.json(CHAT, &chat(&more));
    let mut body = chat(&more);
    body["stream"] = true.into();
    let chunks = server.stream(CHAT, &body);
    for (index, choice) in answer["choices"]
        .as_array()
        .expect("choices")
        .iter()
        .enumerate()
    {
        assert_eq!(choice["finish_reason"], "stop", "{choice}");
        let text = choice["message"]["content"].as_str().expect("a text");
        let value: Value = serde_json::from_str(text).expect("JSON");
        assert!(
            value["ok"].is_boolean()
                && ["cat", "dog"].contains(&value["kind"].as_str().expect("a kind"))
        );
        let (streamed, _) = joined(&chunks, index, |choice| &choice["delta"]["content"]);
        assert_eq!(text, streamed);
    }

    let object = server.json(
        CHAT,
        &chat(&json!({"response_format": {"type": "json_object"}, "max_completion_tokens": 3})),
    );
    assert_eq!(object["choices"][0]["finish_reason"], "length");
    let text = object["choices"][0]["message"]["content"]
        .as_str()
        .expect("a text");
    assert!(text.starts_with('{'), "{text}");

    let texts = [
        json!({"guided_choice": ["red", "blue"]}),
        json!({"structured_outputs": {"regex": "red|blue"}}),
        json!({"guided_grammar": "start: \"red\" | \"blue\""}),
        json!({"guided_json": {"const": "red"}}),
    ];
    for more in texts {
        let answer = server.json(COMPLETIONS, &completion(&more));
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "stop", "{more}");
        assert!(
            ["red", "blue", "\"red\""].contains(&choice["text"].as_str().expect("a text")),
            "{choice}"
        );
    }
}
