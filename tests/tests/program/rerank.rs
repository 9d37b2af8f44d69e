//! Rerankers: `wisp rerank` compared with transformers, and with the library.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use wisp_engine::{
    device::Device,
    pipelines::{
        EncodeRequest, EncoderTokenizer, ModelFiles, ModelLimits, Relevance, RerankOptions,
        TextEncoder,
    },
    session::InferenceSession,
};
use wisp_tests::{
    encoder::write_json,
    goldens::{RERANKERS, for_each},
    on_every_device_and_class,
    program::{LOGITS_WITHIN, TestDevice, run},
};

/// Transformers' results for a query and a document.
#[derive(Deserialize)]
struct Golden {
    query: Vec<u32>,
    document: Vec<u32>,
    tokens: Vec<u32>,
    types: Vec<u32>,
    scores: Vec<f32>,
}

const VOCAB: u32 = 67;

/// A tokenizer with a word for every token, which joins two texts as the model's family does.
fn tokenizer(name: &str) -> Value {
    let word = |id: u32| match id {
        0 => "[UNK]".to_string(),
        1 => "[CLS]".into(),
        2 => "[SEP]".into(),
        id => format!("w{id}"),
    };
    let vocab: serde_json::Map<String, Value> =
        (0..VOCAB).map(|id| (word(id), json!(id))).collect();
    let added: Vec<Value> = (0..3)
        .map(|id| {
            json!({ "id": id, "content": word(id), "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true })
        })
        .collect();
    let post_processor = match name {
        "xlm-roberta-reranker" => json!({ "type": "RobertaProcessing", "cls": ["[CLS]", 1],
            "sep": ["[SEP]", 2], "trim_offsets": true, "add_prefix_space": false }),
        _ => {
            let second = u32::from(name == "bert-reranker");
            let special = |id: &str, kind| json!({ "SpecialToken": { "id": id, "type_id": kind } });
            let text = |id: &str, kind| json!({ "Sequence": { "id": id, "type_id": kind } });
            let known = |id: &str, token| json!({ "id": id, "ids": [token], "tokens": [id] });
            let single = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)];
            let pair = [&single[..], &[text("B", second), special("[SEP]", second)]].concat();
            json!({ "type": "TemplateProcessing", "single": single, "pair": pair,
                "special_tokens": { "[CLS]": known("[CLS]", 1), "[SEP]": known("[SEP]", 2) } })
        }
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": post_processor,
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab,
        },
    })
}

fn words(tokens: &[u32]) -> String {
    let words: Vec<String> = tokens.iter().map(|id| format!("w{id}")).collect();
    words.join(" ")
}

/// A copy of a checkpoint with its tokenizer.
fn with_tokenizer(name: &str, directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(directory.join(file), copy.path().join(file)).unwrap();
    }
    write_json(copy.path(), "tokenizer.json", &tokenizer(name));
    copy
}

/// The results of `wisp rerank`, best first.
fn rerank(model: &Path, place: TestDevice, query: &str, documents: &[&str]) -> Vec<Value> {
    let fixed = [
        "rerank",
        "--json",
        "--query",
        query,
        "--model",
        model.to_str().unwrap(),
    ];
    let args = [&fixed[..], &place.args(), &["--document"], documents].concat();
    let json = run(args).json();
    serde_json::from_value(json["results"].clone()).unwrap()
}

fn logit_of(results: &[Value], index: usize) -> f32 {
    let found = results.iter().find(|result| result["index"] == index);
    found.unwrap()["logit"].as_f64().unwrap() as f32
}

/// A document alone, and in a batch between others.
fn scores_match_transformers(place: TestDevice) {
    for_each(RERANKERS, |name, directory, golden: &Golden| {
        let folder = with_tokenizer(name, directory);
        let (query, document) = (words(&golden.query), words(&golden.document));
        for documents in [&[&*document][..], &["w9", &document, "w4 w5 w6"]] {
            let index = documents.iter().position(|text| *text == document).unwrap();
            let results = rerank(folder.path(), place, &query, documents);
            let off = (logit_of(&results, index) - golden.scores[0]).abs();
            let what = format!("{name} on {place:?} among {}", documents.len());
            assert!(off <= LOGITS_WITHIN, "{what}: {off}");
            println!("{what}: within {off:.1e}");
            let scores: Vec<f64> = results
                .iter()
                .map(|result| result["score"].as_f64().unwrap())
                .collect();
            assert!(scores.is_sorted_by(|a, b| a >= b), "{what}: {scores:?}");
            for result in &results {
                let (logit, score) = (&result["logit"], result["score"].as_f64().unwrap());
                let expected = 1.0 / (1.0 + (-logit.as_f64().unwrap()).exp());
                assert!((score - expected).abs() < 1e-6, "{what}: {result}");
            }
        }
    });
}

on_every_device_and_class!(scores_match_transformers);

#[test]
fn pairs_have_the_tokens_and_types_of_the_tokenizer() {
    for_each(RERANKERS, |name, directory, golden: &Golden| {
        let folder = with_tokenizer(name, directory);
        let tokenizer = EncoderTokenizer::of(&ModelFiles::open(folder.path()).unwrap());
        let (query, document) = (words(&golden.query), words(&golden.document));
        let pair = tokenizer
            .tokenize_pair(1, &query, &document, false)
            .unwrap();
        assert_eq!(
            (pair.tokens, pair.types),
            (golden.tokens.clone(), golden.types.clone())
        );
        let long = "w5 ".repeat(80);
        let error = tokenizer
            .tokenize_pair(3, &query, &long, false)
            .unwrap_err();
        assert!(error.to_string().contains("text 3 has"), "{error}");
        let cut = tokenizer.tokenize_pair(3, &query, &long, true).unwrap();
        let most = if name.starts_with("xlm") { 65 } else { 64 };
        assert_eq!(cut.tokens.len(), most, "{name}");
        assert!(
            cut.tokens.starts_with(&golden.tokens[..8]),
            "the query is whole"
        );
        assert_eq!(cut.tokens.last(), Some(&2));
    });
}

#[test]
fn library_ranks_like_the_command_line_in_batches_of_any_size() {
    for_each(RERANKERS, |name, directory, golden: &Golden| {
        let folder = with_tokenizer(name, directory);
        let query = words(&golden.query);
        let documents = ["w3", "w9 w12 w40", &words(&golden.document), "w6 w6", "w3"];
        let expected = rerank(folder.path(), TestDevice::Host, &query, &documents);
        let files = ModelFiles::open(folder.path()).unwrap();
        let session = InferenceSession::new(Device::host(1).unwrap());
        for max_batch in [1, 2, 5] {
            let limits = ModelLimits {
                max_length: 64,
                max_batch,
                ..Default::default()
            };
            let mut encoder = TextEncoder::load_blocking(&session, &files, limits).unwrap();
            let pairs = documents.map(|document| (query.as_str(), document));
            let tokenizer = encoder.tokenizer().clone();
            let pairs = tokenizer.tokenize_pairs(&pairs, RerankOptions::default());
            let pairs = pairs.unwrap();
            let tokens: Vec<usize> = pairs.iter().map(|pair| pair.tokens.len()).collect();
            let request = EncodeRequest::Scores(pairs);
            let mut results = pollster::block_on(encoder.run_requests(&[request]));
            let mut ranking = Relevance::of_scores(&results.remove(0).unwrap(), tokens);
            ranking.sort_by(|a, b| b.logit.total_cmp(&a.logit));
            assert_eq!(ranking.len(), documents.len());
            for (got, expected) in ranking.iter().zip(&expected) {
                assert_eq!(expected["index"], got.index, "{name}");
                let logit = expected["logit"].as_f64().unwrap() as f32;
                assert!((got.logit - logit).abs() <= 1e-5, "{name}: {got:?}");
            }
        }
    });
}

#[test]
fn models_that_do_not_rank_are_named() {
    for_each(&["bert-reranker"], |name, directory, _: &Golden| {
        let folder = with_tokenizer(name, directory);
        let model = folder.path().to_str().unwrap();
        let text = std::fs::read(folder.path().join("config.json")).unwrap();
        let mut config: Value = serde_json::from_slice(&text).unwrap();
        let args = [
            "rerank",
            "--device",
            "host",
            "--query",
            "w3",
            "--document",
            "w4",
            "--model",
            model,
        ];
        run([&args[..], &["--top-n", "1"]].concat()).succeeded();
        config["architectures"] = json!(["BertModel"]);
        write_json(folder.path(), "config.json", &config);
        let line = run(args).failed("no head");
        assert!(line.contains("no head that scores texts"), "{line}");
        config["architectures"] = json!(["BertForSequenceClassification"]);
        config["id2label"] = json!({ "0": "A", "1": "B" });
        write_json(folder.path(), "config.json", &config);
        let line = run(args).failed("a head of another size");
        assert!(line.contains("2 labels instead of one score"), "{line}");
    });
    let args = [
        "rerank",
        "--device",
        "host",
        "--query",
        "a",
        "--document",
        "b",
    ];
    let line = run(args).failed("a decoder");
    assert!(line.contains("no token \"yes\""), "{line}");
    assert_eq!(run(["rerank", "--query", "a"]).status, Some(2));
}
