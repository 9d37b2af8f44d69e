//! `/v1/rerank` and `/v1/score`, with a cross-encoder.

use serde_json::{Value, json};
use wisp_tests::{bundled, encoder, program::run, server::Server};

const DOCUMENTS: [&str; 3] = ["the kitten runs.", "the cat sleeps", "."];

/// A server with a cross-encoder `ranker` and a model that generates, and the cross-encoder's folder.
fn server() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    encoder::cross_encoder(folder.path());
    let tiny = bundled::folder().join("wisp-tiny.gguf");
    let ranker = format!("ranker={}", folder.path().display());
    let tiny = format!("tiny={}", tiny.display());
    (
        Server::start(&["--model", &ranker, "--model", &tiny]),
        folder,
    )
}

#[test]
fn pairs_that_are_too_long_are_cut_to_the_limit_of_the_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    encoder::cross_encoder(folder.path());
    let path = folder.path().to_str().expect("UTF-8");
    let server = Server::start(&["--model", path, "--max-length", "8"]);
    let long = ["the cat sleeps"; 20].join(" ");
    let body = json!({ "query": "the cat", "documents": [long] });
    let answer = server.json("/v1/rerank", &body);
    assert_eq!(answer["usage"]["total_tokens"], 8, "{answer}");
}

#[test]
fn rankings_and_scores_equal_those_of_rerank() {
    let (server, folder) = server();
    let path = folder.path().to_str().expect("UTF-8");
    let query = "the cat runs";
    let fixed = [
        "rerank", "--json", "--device", "host", "--query", query, "--model", path,
    ];
    let expected = run([&fixed[..], &["--document"], &DOCUMENTS].concat()).json();
    let expected = expected["results"].as_array().expect("results");
    let body = json!({ "model": "ranker", "query": query, "documents": DOCUMENTS });
    for endpoint in ["/v1/rerank", "/v2/rerank", "/rerank"] {
        let answer = server.json(endpoint, &body);
        let results = answer["results"].as_array().expect("results");
        assert_eq!(results.len(), 3);
        for (found, expected) in results.iter().zip(expected) {
            assert_eq!(found["index"], expected["index"]);
            assert_eq!(found["relevance_score"], expected["score"]);
            assert_eq!(found["document"]["text"], expected["document"]);
        }
        assert!(
            answer["usage"]["total_tokens"].as_u64() > Some(9),
            "{answer}"
        );
    }
    // Objects, the best only, and without texts.
    let objects: Vec<Value> = DOCUMENTS
        .iter()
        .map(|text| json!({ "text": text }))
        .collect();
    let more = json!({ "documents": objects, "top_n": 1, "return_documents": false });
    let answer = server.json("/v1/rerank", &super::merged(body, &more));
    let best = json!([{
        "index": expected[0]["index"], "relevance_score": expected[0]["score"],
    }]);
    assert_eq!(answer["results"], best);
    // The scores in the order given, and of pairs.
    let score = |first: Value, second: Value| {
        let body = json!({ "model": "ranker", "text_1": first, "text_2": second });
        let answer = server.json("/v1/score", &body);
        let data = answer["data"].as_array().expect("scores").iter();
        data.map(|entry| entry["score"].clone())
            .collect::<Vec<Value>>()
    };
    let in_order = |index: usize| {
        let found = expected.iter().find(|result| result["index"] == index);
        found.expect("a result")["score"].clone()
    };
    let all: Vec<Value> = (0..3).map(in_order).collect();
    assert_eq!(score(json!(query), json!(DOCUMENTS)), all);
    assert_eq!(score(json!([query]), json!(DOCUMENTS)), all);
    let pairs = score(json!([query, "the", query]), json!(DOCUMENTS));
    super::assert_near(&json!([pairs[0], pairs[2]]), &json!([all[0], all[2]]));
    assert_ne!(pairs[1], all[1]);
    // More than go through the model at a time: the indices are those of the request.
    let many = vec![DOCUMENTS[0]; 70];
    let answer = server.json(
        "/rerank",
        &json!({ "model": "ranker", "query": query, "documents": many }),
    );
    let results = answer["results"].as_array().expect("results");
    let mut indices: Vec<u64> = results
        .iter()
        .filter_map(|result| result["index"].as_u64())
        .collect();
    indices.sort_unstable();
    assert_eq!(indices, (0..70).collect::<Vec<u64>>());
}

#[test]
fn invalid_requests_name_the_parameter() {
    let (server, _folder) = server();
    let rerank = |more: Value| {
        let fixed = json!({ "model": "ranker", "query": "the cat", "documents": ["a"] });
        ("/v1/rerank", super::merged(fixed, &more))
    };
    let score = |first: Value, second: Value| {
        (
            "/v1/score",
            json!({ "model": "ranker", "text_1": first, "text_2": second }),
        )
    };
    for ((path, body), param) in [
        (rerank(json!({ "query": null })), "query"),
        (rerank(json!({ "query": " " })), "query"),
        (rerank(json!({ "query": ["a"] })), "query"),
        (rerank(json!({ "query": "a ".repeat(20_000) })), "query"),
        (rerank(json!({ "documents": [] })), "documents"),
        (rerank(json!({ "documents": "a" })), "documents"),
        (rerank(json!({ "documents": ["a", ""] })), "documents[1]"),
        (rerank(json!({ "documents": ["a", 5] })), "documents[1]"),
        (
            rerank(json!({ "documents": [{ "title": "a" }] })),
            "documents[0]",
        ),
        (rerank(json!({ "documents": vec!["a"; 3000] })), "documents"),
        (rerank(json!({ "top_n": -1 })), "top_n"),
        (
            rerank(json!({ "return_documents": "no" })),
            "return_documents",
        ),
        (rerank(json!({ "model": "tiny" })), "model"),
        (score(json!(["a", "b"]), json!(["a"])), "text_1"),
        (score(json!("a"), json!(null)), "text_2"),
    ] {
        let response = server.post(path, &body);
        assert_eq!(response.status, 400, "{body}: {}", response.body);
        assert_eq!(
            response.json()["error"]["param"],
            param,
            "{}",
            response.body
        );
    }
    let response = server.post("/v1/rerank", &rerank(json!({ "model": "none" })).1);
    assert_eq!(response.status, 404);
}
