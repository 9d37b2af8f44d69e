//! Thoughts in all interfaces: of the built-in model with a template that begins them, cut off by a limit.

use serde_json::{Value, json};
use wisp_engine::weights::gguf::Value as Metadata;
use wisp_tests::{bundled, server::Server};

use super::merged;

/// A template whose prompts end within a thought, unless thinking is switched off.
const TEMPLATE: &str = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}\
    {% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}";

#[test]
fn thoughts_come_before_the_answer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("thinker.gguf");
    let template = Metadata::String(TEMPLATE.into());
    let file = bundled::with_metadata(&[("tokenizer.chat_template", Some(template))]);
    std::fs::write(&path, file).expect("a file");
    let server = Server::start(&["--model", &path.display().to_string()]);
    let messages = json!([{ "role": "user", "content": "Tell me a story." }]);
    let body = json!({ "messages": messages, "temperature": 0, "max_tokens": 96 });
    let chat = json!({ "thinking_budget": 8 });
    let chat = server.json("/v1/chat/completions", &merged(body.clone(), &chat));
    let expected = &chat["choices"][0]["message"];
    let thoughts = expected["reasoning_content"].as_str().expect("thoughts");
    let text = expected["content"].as_str().expect("text");
    assert!(!thoughts.is_empty() && !text.is_empty(), "{chat}");

    let counted = |usage: &Value, details: &str| {
        let count = usage[details]["reasoning_tokens"].as_u64();
        count.expect("a number of tokens")
    };
    let in_thoughts = counted(&chat["usage"], "completion_tokens_details");
    let all = chat["usage"]["completion_tokens"].as_u64().expect("tokens");
    assert!(
        (2..=17).contains(&in_thoughts) && in_thoughts < all,
        "{chat}"
    );
    let streamed = json!({
        "thinking_budget": 8, "stream": true, "stream_options": { "include_usage": true },
    });
    let chunks = server.stream("/v1/chat/completions", &merged(body.clone(), &streamed));
    assert_eq!(chunks.last().expect("chunks")["usage"], chat["usage"]);

    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 8 } });
    let body = merged(body, &thinking);
    let message = server.json("/v1/messages", &body);
    let blocks = json!([
        { "type": "thinking", "thinking": thoughts, "signature": "" },
        { "type": "text", "text": text },
    ]);
    assert_eq!(message["content"], blocks);
    let stream = merged(body.clone(), &json!({ "stream": true }));
    let events = server.post("/v1/messages", &stream).named_events();
    let joined = |name: &str| -> String {
        let deltas = events.iter().map(|event| &event["delta"][name]);
        deltas.filter_map(Value::as_str).collect()
    };
    assert_eq!((&*joined("thinking"), &*joined("text")), (thoughts, text));
    for off in [json!({ "type": "disabled" }), Value::Null] {
        let off = merged(body.clone(), &json!({ "thinking": off }));
        let off = server.json("/v1/messages", &off);
        assert_eq!(off["content"][0]["type"], "text", "{off}");
    }
    let adaptive = merged(body, &json!({ "thinking": { "type": "adaptive" } }));
    let adaptive = server.json("/v1/messages", &adaptive);
    assert_eq!(adaptive["content"][0]["type"], "thinking", "{adaptive}");

    // A format holds behind the thoughts.
    let format = json!({ "thinking_budget": 8, "guided_choice": ["yes", "no"] });
    let chosen = json!({ "messages": messages, "temperature": 0, "max_tokens": 96 });
    let chosen = server.json("/v1/chat/completions", &merged(chosen, &format));
    let message = &chosen["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], thoughts, "{chosen}");
    assert!(
        message["content"] == "yes" || message["content"] == "no",
        "{chosen}"
    );

    // A thought without a limit lasts until the end here.
    let body = json!({ "input": "Tell me a story.", "temperature": 0, "max_output_tokens": 24 });
    let response = server.json("/v1/responses", &body);
    assert_eq!(response["output"][0]["type"], "reasoning", "{response}");
    assert_eq!(counted(&response["usage"], "output_tokens_details"), 24);
    let none = merged(body, &json!({ "reasoning": { "effort": "none" } }));
    let response = server.json("/v1/responses", &none);
    assert_eq!(response["output"][0]["type"], "message", "{response}");
    assert_eq!(counted(&response["usage"], "output_tokens_details"), 0);
}
