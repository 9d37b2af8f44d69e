//! `/v1/completions`.

use serde_json::{Value, json};
use wisp_engine::weights::gguf;
use wisp_tests::{bundled, server::Server};

use super::{PROMPT, assert_near, completion, generated, joined};

const PATH: &str = "/v1/completions";

fn text(answer: &Value) -> &str {
    answer["choices"][0]["text"].as_str().expect("a text")
}

#[test]
fn answers_equal_those_of_generate() {
    let server = Server::start(&[]);
    let greedy = generated(&["--max-new-tokens", "24", PROMPT]);
    let answer = server.json(PATH, &completion(&json!({})));
    assert_eq!(text(&answer), greedy["text"]);
    assert_eq!(answer["object"], "text_completion");
    assert_eq!(answer["model"], "wisp-tiny");
    assert_eq!(
        answer["choices"][0]["finish_reason"],
        greedy["finish_reason"]
    );
    let prompt = greedy["prompt_tokens"].as_array().expect("tokens");
    let tokens = greedy["tokens"].as_array().expect("tokens");
    assert_eq!(answer["usage"]["prompt_tokens"], prompt.len());
    assert_eq!(answer["usage"]["completion_tokens"], tokens.len());
    // The same prompt as tokens, and a list of prompts.
    let answer = server.json(PATH, &completion(&json!({ "prompt": prompt })));
    assert_eq!(text(&answer), greedy["text"]);
    let other = generated(&["--max-new-tokens", "24", "The dog"]);
    let prompts = json!({ "prompt": [PROMPT, "The dog"] });
    let answer = server.json(PATH, &completion(&prompts));
    let texts: Vec<&Value> = answer["choices"]
        .as_array()
        .expect("choices")
        .iter()
        .map(|choice| &choice["text"])
        .collect();
    assert_eq!(texts, [&greedy["text"], &other["text"]]);
    // A seed, with which OpenAI's default temperature applies.
    let flags = [
        "--max-new-tokens",
        "24",
        "--temperature",
        "1",
        "--seed",
        "7",
        PROMPT,
    ];
    let sampled = generated(&flags);
    let seed = json!({ "temperature": null, "seed": 7 });
    assert_eq!(
        text(&server.json(PATH, &completion(&seed))),
        sampled["text"]
    );
    // Only the most likely token is kept.
    let narrow = json!({ "temperature": 1, "seed": 7, "top_p": 0 });
    assert_eq!(
        text(&server.json(PATH, &completion(&narrow))),
        greedy["text"]
    );
    // Without the tokenizer's special tokens.
    let bare = json!({ "add_special_tokens": false });
    let bare = server.json(PATH, &completion(&bare));
    assert_eq!(bare["usage"]["prompt_tokens"], prompt.len() - 1);
    // llama.cpp's name of the limit, and no limit but the context.
    let named = json!({ "max_tokens": null, "n_predict": 24 });
    assert_eq!(
        text(&server.json(PATH, &completion(&named))),
        greedy["text"]
    );
    let endless = json!({ "max_tokens": -1, "ignore_eos": true });
    let answer = server.json(PATH, &completion(&endless));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert!(answer["usage"]["completion_tokens"].as_u64() > Some(100));
    // OpenAI's default length.
    let answer = server.json(
        PATH,
        &json!({ "prompt": PROMPT, "temperature": 0, "ignore_eos": true }),
    );
    assert_eq!(answer["usage"]["completion_tokens"], 16);
}

#[test]
fn streams_equal_whole_answers() {
    let server = Server::start(&[]);
    for more in [
        json!({}),
        json!({ "n": 3, "temperature": 1, "seed": 5 }),
        json!({ "echo": true }),
        json!({ "echo": true, "logprobs": 2 }),
        json!({ "echo": true, "max_tokens": 0 }),
        json!({ "echo": true, "prompt": [1, 300, 301], "logprobs": 0 }),
        json!({ "stop": [" a", "."] }),
        json!({ "prompt": [PROMPT, "The dog"], "logprobs": 0 }),
    ] {
        let whole = server.json(PATH, &completion(&more));
        let mut body = completion(&more);
        body["stream"] = true.into();
        let mut chunks = server.stream(PATH, &body);
        assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
        for choice in whole["choices"].as_array().expect("choices") {
            let index = choice["index"].as_u64().expect("an index") as usize;
            let (text, reason) = joined(&chunks, index, |choice| &choice["text"]);
            assert_eq!(choice["text"], text, "{more}");
            assert_eq!(choice["finish_reason"], reason, "{more}");
            for list in ["tokens", "token_logprobs", "text_offset", "top_logprobs"] {
                let own = chunks.iter().map(|chunk| &chunk["choices"][0]);
                let own = own.filter(|choice| choice["index"] == index);
                let parts = own.filter_map(|choice| choice["logprobs"][list].as_array());
                let streamed: Vec<Value> = parts.flatten().cloned().collect();
                let expected = choice["logprobs"][list].as_array().cloned();
                assert_near(&streamed.into(), &expected.unwrap_or_default().into());
            }
        }
        // The same with the numbers of tokens at the end.
        body["stream_options"] = json!({ "include_usage": true });
        chunks = server.stream(PATH, &body);
        let usage = chunks.pop().expect("chunks");
        assert_eq!(usage["choices"], json!([]));
        assert_eq!(usage["usage"], whole["usage"], "{more}");
        assert!(chunks.iter().all(|chunk| chunk["usage"].is_null()));
        // The same with those so far in every chunk.
        body["stream_options"]["continuous_usage_stats"] = true.into();
        chunks = server.stream(PATH, &body);
        let counts = chunks.iter().map(|chunk| &chunk["usage"]);
        let counts = counts.map(|usage| usage["completion_tokens"].as_u64().expect("a number"));
        let counts: Vec<u64> = counts.collect();
        assert!(counts.is_sorted(), "{counts:?}");
        assert_eq!(chunks.last().expect("chunks")["usage"], whole["usage"]);
    }
}

#[test]
fn texts_of_one_prompt_follow_their_seeds() {
    let server = Server::start(&[]);
    let sampled = |seed: u64, n: u64| {
        let more = json!({ "temperature": 1, "seed": seed, "n": n });
        server.json(PATH, &completion(&more))["choices"].clone()
    };
    let three = sampled(5, 3);
    for choice in 0..3 {
        assert_eq!(
            three[choice]["text"],
            sampled(5 + choice as u64, 1)[0]["text"]
        );
    }
    assert_ne!(three[0]["text"], three[1]["text"]);
    // So do those of every prompt.
    let more = json!({ "prompt": [PROMPT, PROMPT], "temperature": 1, "seed": 5 });
    let seeded = server.json(PATH, &completion(&more));
    let seeded = [0usize, 1].map(|prompt| &seeded["choices"][prompt]["text"]);
    assert_eq!(seeded, [&three[0]["text"]; 2]);
    // Without a seed equal prompts have texts that differ.
    let more = json!({ "prompt": [PROMPT, PROMPT], "temperature": 1 });
    let drawn = server.json(PATH, &completion(&more));
    assert_ne!(drawn["choices"][0]["text"], drawn["choices"][1]["text"]);
    // Without a seed each answer is another one.
    let random = || server.json(PATH, &completion(&json!({ "temperature": 1 })));
    assert_ne!(text(&random()), text(&random()));
}

#[test]
fn stop_strings_end_texts_and_are_not_part_of_them() {
    let server = Server::start(&[]);
    let whole = server.json(PATH, &completion(&json!({})));
    let whole = text(&whole);
    let found = &whole[whole.len() / 2..whole.len() / 2 + 3];
    let (before, _) = whole.split_once(found).expect("the stop string");
    for stop in [json!(found), json!([found, "not in the text"])] {
        let answer = server.json(PATH, &completion(&json!({ "stop": stop })));
        assert_eq!(text(&answer), before);
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        assert_eq!(answer["choices"][0]["stop_reason"], found);
    }
    let length = server.json(PATH, &completion(&json!({ "ignore_eos": true })));
    assert_eq!(length["choices"][0]["finish_reason"], "length");
    assert!(length["choices"][0]["stop_reason"].is_null());
}

#[test]
fn tokens_that_end_texts_are_not_part_of_them() {
    let server = Server::start(&[]);
    let more = json!({ "logprobs": 0, "ignore_eos": true });
    let whole = server.json(PATH, &completion(&more));
    let tokens = &whole["choices"][0]["logprobs"]["tokens"];
    let tokens = tokens.as_array().expect("tokens");
    let last = tokens.last().expect("a token").as_str().expect("text");
    let first = tokens.iter().position(|token| *token == last);
    let ids = server.json(
        "/tokenize",
        &json!({ "content": text(&whole), "with_pieces": true }),
    );
    let ids = ids["tokens"].as_array().expect("tokens").iter();
    let id = ids.rev().find(|entry| entry["piece"] == last);
    let id = &id.expect("the token")["id"];
    let stopped = json!({ "logprobs": 0, "ignore_eos": true, "stop_token_ids": [id] });
    let answer = server.json(PATH, &completion(&stopped));
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["stop_reason"], *id);
    // The token is counted, and its log-probability is the last.
    let found = choice["logprobs"]["tokens"].as_array().expect("tokens");
    assert_eq!(found[..], tokens[..=first.expect("the token")]);
    assert_eq!(answer["usage"]["completion_tokens"], found.len());
    let all = &whole["choices"][0];
    assert_near(
        &choice["logprobs"]["token_logprobs"],
        &json!(
            all["logprobs"]["token_logprobs"]
                .as_array()
                .expect("numbers")[..found.len()]
        ),
    );
    let before: String = found[..found.len() - 1]
        .iter()
        .map(|token| token.as_str().expect("text"))
        .collect();
    assert_eq!(choice["text"], before);
    let mut body = completion(&stopped);
    body["stream"] = true.into();
    let chunks = server.stream(PATH, &body);
    let last = chunks.last().expect("chunks");
    assert_eq!(last["choices"][0]["stop_reason"], *id);
    let parts = chunks.iter().map(|chunk| &chunk["choices"][0]["logprobs"]);
    let parts = parts.filter_map(|scores| scores["tokens"].as_array());
    assert_eq!(
        parts.flatten().collect::<Vec<_>>(),
        found.iter().collect::<Vec<_>>()
    );
}

#[test]
fn sampling_that_the_file_recommends_applies_unless_the_client_sets_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("narrow.gguf");
    let narrow = [("general.sampling.top_k", Some(gguf::Value::I32(1)))];
    std::fs::write(&path, bundled::with_metadata(&narrow)).unwrap();
    let path = path.to_str().expect("a path in UTF-8");
    let flags = ["--max-new-tokens", "24", PROMPT];
    let greedy = generated(&flags);
    let sampled = generated(&[&flags[..], &["--temperature", "1", "--seed", "7"]].concat());
    assert_ne!(greedy["text"], sampled["text"]);
    let seed = json!({ "temperature": null, "seed": 7 });
    let all = json!({ "temperature": null, "seed": 7, "top_k": -1 });

    let server = Server::start(&["--model", path]);
    let answer = |more: &Value| server.json(PATH, &completion(more));
    assert_eq!(text(&answer(&seed)), greedy["text"]);
    assert_eq!(text(&answer(&all)), sampled["text"]);

    let server = Server::start(&["--model", path, "--generation-config", "none"]);
    let answer = server.json(PATH, &completion(&seed));
    assert_eq!(text(&answer), sampled["text"]);
}

#[test]
fn log_probabilities_equal_those_of_generate() {
    let server = Server::start(&[]);
    let flags = ["--max-new-tokens", "8", "--logprobs", "3", PROMPT];
    let expected = &generated(&flags)["logprobs"];
    let answer = server.json(
        PATH,
        &completion(&json!({ "max_tokens": 8, "logprobs": 3 })),
    );
    assert_near(&answer["choices"][0]["logprobs"], expected);
    // A bias that leaves only one token.
    let biased = json!({ "max_tokens": 4, "logit_bias": { "300": 1000 }, "logprobs": 0, "ignore_eos": true });
    let answer = server.json(PATH, &completion(&biased));
    let tokens = answer["choices"][0]["logprobs"]["tokens"]
        .as_array()
        .expect("tokens");
    assert_eq!(tokens.len(), 4);
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    // The token itself is among the most likely ones, however many those are.
    let answer = server.json(
        PATH,
        &completion(&json!({ "logprobs": 0, "temperature": 1 })),
    );
    let scores = &answer["choices"][0]["logprobs"];
    for at in 0..24 {
        let top = scores["top_logprobs"][at].as_object().expect("an object");
        let token = scores["tokens"][at].as_str().expect("text");
        assert_eq!(top.len(), 1);
        assert_eq!(top[token], scores["token_logprobs"][at]);
    }
    // An echo of tokens has the text of all of them.
    let echo = json!({ "prompt": [1, 300, 301], "echo": true, "logprobs": 0, "max_tokens": 4 });
    let answer = server.json(PATH, &completion(&echo));
    let tokens = answer["choices"][0]["logprobs"]["tokens"].as_array();
    let tokens = tokens.expect("tokens").iter();
    let joined: String = tokens.map(|token| token.as_str().expect("text")).collect();
    assert_eq!(joined, text(&answer));
    // Penalties.
    let flags = [
        "--max-new-tokens",
        "24",
        "--frequency-penalty",
        "1.5",
        "--presence-penalty",
        "1",
        PROMPT,
    ];
    let expected = generated(&flags);
    let more = json!({ "frequency_penalty": 1.5, "presence_penalty": 1 });
    assert_eq!(
        text(&server.json(PATH, &completion(&more))),
        expected["text"]
    );
}

#[test]
fn concurrent_requests_equal_those_that_run_alone() {
    let server = Server::start(&["--max-cache-batch-size", "4"]);
    let body = |number: u64| {
        let prompt = ["Once upon a time", "The dog", "A big", "Lily and Tom"][number as usize % 4];
        let more = json!({ "prompt": prompt, "temperature": 0.8, "seed": number, "max_tokens": 8 + number });
        completion(&more)
    };
    let alone: Vec<Value> = (0..12)
        .map(|number| server.json(PATH, &body(number)))
        .collect();
    let together: Vec<Value> = std::thread::scope(|scope| {
        let server = &server;
        let run = |number| scope.spawn(move || server.json(PATH, &body(number)));
        let threads: Vec<_> = (0..12).map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("an answer"))
            .collect()
    });
    for (alone, together) in alone.iter().zip(&together) {
        assert_eq!(alone["choices"], together["choices"]);
    }
    let running = "wisp_texts_running{model=\"wisp-tiny\"}";
    server.wait_until("nothing runs", || server.metric(running) == 0.0);
    let answered = "wisp_requests_total{endpoint=\"/v1/completions\",status=\"200\"}";
    server.wait_until("all answers are counted", || {
        server.metric(answered) == 24.0
    });
}
