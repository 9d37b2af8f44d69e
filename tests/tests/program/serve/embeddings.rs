//! `/v1/embeddings`, with an encoder beside a model that generates.

use serde_json::{Value, json};
use wisp_tests::{
    encoder,
    program::{assert_rows_close, run},
    server::Server,
};

use super::{chat, completion};

const PATH: &str = "/v1/embeddings";

fn vectors(answer: &Value) -> Vec<Vec<f32>> {
    let data = answer["data"].as_array().expect("embeddings").iter();
    data.map(|entry| serde_json::from_value(entry["embedding"].clone()).expect("numbers"))
        .collect()
}

#[test]
fn embeddings_equal_those_of_encode() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    encoder::bert(folder.path());
    let path = folder.path().to_str().expect("UTF-8");
    let tiny = wisp_tests::bundled::folder().join("wisp-tiny.gguf");
    let bert = format!("bert={path}");
    let path_of_model = path;
    let server = Server::start(&["--model", tiny.to_str().expect("UTF-8"), "--model", &bert]);
    let texts = ["the cat sleeps", "the kitten runs."];
    let encode = ["encode", "--json", "--device", "host", "--model", path];
    let expected = run([&encode[..], &texts].concat()).json();
    let expected: Vec<Vec<f32>> =
        serde_json::from_value(expected["embeddings"].clone()).expect("numbers");
    let answer = server.json(PATH, &json!({ "model": "bert", "input": texts }));
    assert_eq!(vectors(&answer), expected);
    assert_eq!(
        answer["usage"]["prompt_tokens"],
        answer["usage"]["total_tokens"]
    );
    let one = server.json(PATH, &json!({ "model": "bert", "input": texts[0] }));
    assert_rows_close("one text", &vectors(&one), &expected[..1]);
    // Python's client asks for this.
    let more = json!({ "model": "bert", "input": texts, "encoding_format": "base64" });
    let text = server.json(PATH, &more)["data"][1]["embedding"].clone();
    assert_eq!(
        text.as_str().expect("text").len(),
        (encoder::HIDDEN * 4).div_ceil(3) * 4
    );
    // Tokens.
    let tokens = server.json(
        PATH,
        &json!({ "model": "bert", "input": [[2, 5, 6, 3], [2, 7, 3]] }),
    );
    let ids = ["--tokens", "2,5,6,3", "--tokens", "2,7,3"];
    let expected = run([&encode[..], &ids].concat()).json();
    assert_eq!(json!(vectors(&tokens)), expected["embeddings"]);
    assert_eq!(tokens["usage"]["prompt_tokens"], 7);
    // A blank text is its special tokens.
    let blank = server.json(PATH, &json!({ "model": "bert", "input": ["", " "] }));
    let special = json!({ "model": "bert", "input": [[2, 3], [2, 3]] });
    assert_eq!(vectors(&blank), vectors(&server.json(PATH, &special)));
    // Fewer dimensions, of which the embedding has length 1 again.
    let short = json!({ "model": "bert", "input": [[2, 5, 6, 3]], "dimensions": 4 });
    let short = vectors(&server.json(PATH, &short)).remove(0);
    let mut all = vectors(&tokens).remove(0);
    all.truncate(4);
    let length = all.iter().map(|x| x * x).sum::<f32>().sqrt();
    let expected: Vec<f32> = all.iter().map(|x| x / length).collect();
    assert_rows_close("4 dimensions", &[short], &[expected]);
    // vLLM's way to cut long texts.
    let long = json!({
        "model": "bert", "input": "the ".repeat(100), "truncate_prompt_tokens": -1,
    });
    let cut = server.json(PATH, &long);
    assert_eq!(cut["usage"]["prompt_tokens"], encoder::POSITIONS);
    // Both models by their names.
    let list = server.get("/v1/models").json();
    let names: Vec<&Value> = list["data"]
        .as_array()
        .expect("models")
        .iter()
        .map(|m| &m["id"])
        .collect();
    assert_eq!(names, ["wisp-tiny", "bert"]);
    assert_eq!(server.get("/v1/models/bert").json()["object"], "model");
    server.json(
        "/v1/chat/completions",
        &chat(&json!({ "model": "wisp-tiny" })),
    );
    for (path, body, param) in [
        (PATH, json!({ "model": "wisp-tiny", "input": "a" }), "model"),
        (
            PATH,
            json!({ "model": "bert", "input": [[5], []] }),
            "input",
        ),
        (
            PATH,
            json!({ "model": "bert", "input": "the ".repeat(100) }),
            "input",
        ),
        (PATH, json!({ "model": "bert", "input": [99] }), "input"),
        (
            PATH,
            json!({ "model": "bert", "input": "the", "dimensions": encoder::HIDDEN + 1 }),
            "dimensions",
        ),
        (
            PATH,
            json!({ "model": "bert", "input": "the", "truncate_prompt_tokens": 5 }),
            "truncate_prompt_tokens",
        ),
        (
            PATH,
            json!({ "model": "bert", "input": "the", "embed_dtype": "bfloat16" }),
            "embed_dtype",
        ),
        (
            PATH,
            json!({ "model": "bert", "input": "the", "encoding_format": "hex" }),
            "encoding_format",
        ),
        (
            "/v1/chat/completions",
            chat(&json!({ "model": "bert" })),
            "model",
        ),
        ("/tokenize", chat(&json!({ "model": "bert" })), "model"),
        (
            "/v1/completions",
            completion(&json!({ "model": "bert" })),
            "model",
        ),
    ] {
        let response = server.post(path, &body);
        assert_eq!(response.status, 400, "{body}: {}", response.body);
        assert_eq!(
            response.json()["error"]["param"],
            param,
            "{body}: {}",
            response.body
        );
        // Clients do not learn the paths of models.
        assert!(!response.body.contains(path_of_model), "{}", response.body);
    }
}

#[test]
fn more_texts_than_a_batch_has_are_embedded_in_parts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    encoder::bert(folder.path());
    let server = Server::start(&["--model", &format!("bert={}", folder.path().display())]);
    let texts = ["the cat sleeps", "the kitten runs."];
    let vectors = |input: &[&str]| vectors(&server.json(PATH, &json!({ "input": input })));
    let pair = vectors(&texts);
    let mut many: Vec<&str> = (0..40).map(|at| texts[at % 2]).collect();
    let expected: Vec<Vec<f32>> = (0..40).map(|at| pair[at % 2].clone()).collect();
    assert_rows_close("40 texts", &vectors(&many), &expected);
    let long = "the ".repeat(100);
    many[34] = &long;
    let response = server.post(PATH, &json!({ "input": many }));
    assert_eq!(response.status, 400, "{}", response.body);
    assert!(response.body.contains("text 35 has"), "{}", response.body);
}
