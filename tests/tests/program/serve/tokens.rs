//! `/tokenize`, `/detokenize` and `/apply-template`.

use serde_json::json;
use wisp_tests::{program::run, server::Server};

use super::{PROMPT, generated};

#[test]
fn tokens_equal_those_of_tokenize() {
    let server = Server::start(&[]);
    let with = run(["tokenize", "--json", PROMPT]).json();
    let without = run(["tokenize", "--json", "--no-special", PROMPT]).json();
    let answer = server.json("/tokenize", &json!({ "prompt": PROMPT }));
    assert_eq!(answer["tokens"], with["tokens"]);
    assert_eq!(
        answer["count"],
        with["tokens"].as_array().expect("tokens").len()
    );
    let answer = server.json("/tokenize", &json!({ "content": PROMPT }));
    assert_eq!(answer["tokens"], without["tokens"]);
    let text = server.json("/detokenize", &json!({ "tokens": without["tokens"] }));
    assert_eq!(text, json!({ "content": PROMPT, "prompt": PROMPT }));
    let pieces = server.json(
        "/tokenize",
        &json!({ "content": PROMPT, "with_pieces": true }),
    );
    let pieces = pieces["tokens"].as_array().expect("tokens").iter();
    let joined: String = pieces
        .map(|piece| piece["piece"].as_str().expect("text"))
        .collect();
    assert_eq!(joined.trim_start(), PROMPT);
    let body = json!({ "prompt": PROMPT, "return_token_strs": true });
    let answer = server.json("/tokenize", &body);
    let strings = answer["token_strs"].as_array().expect("tokens").iter();
    let strings: String = strings.map(|piece| piece.as_str().expect("text")).collect();
    assert_eq!(strings, "<|endoftext|>OnceĠuponĠaĠtime");
    // A chat.
    let messages = json!({ "messages": [{ "role": "user", "content": "Hello" }] });
    let chat = generated(&["--chat", "--max-new-tokens", "1", "Hello"]);
    assert_eq!(
        server.json("/tokenize", &messages)["tokens"],
        chat["prompt_tokens"]
    );
    let prompt = server.json("/apply-template", &messages)["prompt"].clone();
    let text = json!({ "prompt": prompt });
    assert_eq!(
        server.json("/tokenize", &text)["tokens"],
        chat["prompt_tokens"]
    );
    for (path, body, param) in [
        ("/tokenize", json!({}), "prompt"),
        ("/tokenize", json!({ "content": 5 }), "content"),
        ("/detokenize", json!({ "tokens": "a" }), "tokens"),
        ("/apply-template", json!({ "messages": "a" }), "messages"),
    ] {
        let response = server.post(path, &body);
        assert_eq!(response.status, 400, "{body}");
        assert_eq!(response.json()["error"]["param"], param, "{body}");
    }
}
