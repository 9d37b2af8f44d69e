//! `/v1/chat/completions`.

use serde_json::{Value, json};
use wisp_tests::server::Server;

use super::{assert_near, chat, generated, joined};

const PATH: &str = "/v1/chat/completions";

#[test]
fn answers_equal_those_of_generate() {
    let server = Server::start(&[]);
    let flags = ["--max-new-tokens", "24", "--chat", "Tell me a story."];
    let expected = generated(&flags);
    let answer = server.json(PATH, &chat(&json!({})));
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], expected["text"]);
    assert_eq!(choice["message"]["role"], "assistant");
    assert_eq!(choice["finish_reason"], expected["finish_reason"]);
    assert_eq!(answer["object"], "chat.completion");
    let prompt = expected["prompt_tokens"].as_array().expect("tokens");
    assert_eq!(answer["usage"]["prompt_tokens"], prompt.len());
    // Parts of text, and the older name of the limit.
    let expected = generated(&[
        "--max-new-tokens",
        "24",
        "--chat",
        "Hello.\nTell me a story.",
    ]);
    let parts = json!([{ "type": "text", "text": "Hello." }, { "type": "text", "text": "Tell me a story." }]);
    let more = json!({
        "messages": [{ "role": "user", "content": parts }], "max_completion_tokens": null, "max_tokens": 24,
    });
    let answer = server.json(PATH, &chat(&more));
    assert_eq!(answer["choices"][0]["message"]["content"], expected["text"]);
    // A system message.
    let system = ["--system", "Be brief."];
    let expected = generated(&[&flags[..], &system].concat());
    let messages = json!([
        { "role": "developer", "content": "Be brief." },
        { "role": "user", "content": "Tell me a story." },
    ]);
    let answer = server.json(PATH, &chat(&json!({ "messages": messages })));
    assert_eq!(answer["choices"][0]["message"]["content"], expected["text"]);
}

#[test]
fn streams_equal_whole_answers() {
    let server = Server::start(&[]);
    for more in [
        json!({}),
        json!({ "n": 2, "temperature": 1, "seed": 3 }),
        json!({ "logprobs": true, "top_logprobs": 2 }),
    ] {
        let whole = server.json(PATH, &chat(&more));
        let mut body = chat(&more);
        body["stream"] = true.into();
        body["stream_options"] = json!({ "include_usage": true });
        let mut chunks = server.stream(PATH, &body);
        assert_eq!(chunks.pop().expect("chunks")["usage"], whole["usage"]);
        for choice in whole["choices"].as_array().expect("choices") {
            let index = choice["index"].as_u64().expect("an index") as usize;
            let (text, reason) = joined(&chunks, index, |choice| &choice["delta"]["content"]);
            assert_eq!(choice["message"]["content"], text, "{more}");
            assert_eq!(choice["finish_reason"], reason, "{more}");
            let own = chunks.iter().map(|chunk| &chunk["choices"][0]);
            let own: Vec<_> = own.filter(|choice| choice["index"] == index).collect();
            assert_eq!(own[0]["delta"]["role"], "assistant");
            let scores = own
                .iter()
                .filter_map(|choice| choice["logprobs"]["content"].as_array());
            let scores: Vec<Value> = scores.flatten().cloned().collect();
            let expected = choice["logprobs"]["content"].as_array().cloned();
            assert_near(&scores.into(), &expected.unwrap_or_default().into());
        }
    }
}

#[test]
fn log_probabilities_have_tokens_and_bytes() {
    let server = Server::start(&[]);
    let answer = server.json(PATH, &chat(&json!({ "logprobs": true, "top_logprobs": 2 })));
    let scores = answer["choices"][0]["logprobs"]["content"]
        .as_array()
        .expect("scores");
    assert_eq!(answer["usage"]["completion_tokens"], scores.len());
    for score in scores {
        // The greedy token is the most likely one.
        assert_eq!(score["top_logprobs"].as_array().expect("tokens").len(), 2);
        assert_eq!(score["top_logprobs"][0]["token"], score["token"]);
        assert_eq!(score["top_logprobs"][0]["logprob"], score["logprob"]);
    }
    let bytes = scores
        .iter()
        .flat_map(|score| score["bytes"].as_array().expect("bytes"));
    let bytes = bytes
        .map(|byte| byte.as_u64().expect("a byte") as u8)
        .collect();
    let text = String::from_utf8(bytes).expect("text");
    assert_eq!(answer["choices"][0]["message"]["content"], text);
}

#[test]
fn token_that_ends_an_answer_is_counted_and_scored() {
    let server = Server::start(&[]);
    let greedy = generated(&["--max-new-tokens", "24", "--chat", "Hello"]);
    assert_eq!(greedy["finish_reason"], "stop");
    let messages = json!([{ "role": "user", "content": "Hello" }]);
    let body = chat(&json!({ "messages": messages, "logprobs": true }));
    let answer = server.json(PATH, &body);
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], greedy["text"]);
    assert_eq!(choice["finish_reason"], "stop");
    // The model ended it, and not what the client named.
    assert!(choice["stop_reason"].is_null(), "{choice}");
    let count = greedy["tokens"].as_array().expect("tokens").len() + 1;
    assert_eq!(answer["usage"]["completion_tokens"], count);
    let scores = choice["logprobs"]["content"].as_array().expect("scores");
    assert_eq!(scores.len(), count);
}
