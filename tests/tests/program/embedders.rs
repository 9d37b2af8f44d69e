//! Decoders and others that embed texts, score them or judge documents.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use wisp_engine::{
    device::Device,
    pipelines::{EncodeRequest, ModelFiles, ModelLimits, TextEncoder, tokenizer::PairTokens},
    session::InferenceSession,
};
use wisp_tests::{
    encoder::write_json,
    goldens::{EMBEDDERS, EncoderGolden, for_each},
    on_every_device_and_class,
    program::{LOGITS_WITHIN, TestDevice, assert_rows_close, ids, logits, run},
};

fn encode(model: &Path, place: TestDevice, flags: &[&str]) -> Value {
    let model = ["encode", "--json", "--model", model.to_str().unwrap()];
    run([&model[..], &place.args(), flags].concat()).json()
}

fn embeddings(model: &Path, place: TestDevice, flags: &[&str]) -> Vec<Vec<f32>> {
    let json = encode(model, place, flags);
    serde_json::from_value(json["embeddings"].clone()).unwrap()
}

/// Returns the hidden states of a text's tokens.
fn hidden_states(model: &Path, place: TestDevice, text: &str) -> Vec<Vec<f32>> {
    let json = encode(model, place, &["--tokens", text, "--pooling", "none"]);
    let mut hidden: Vec<Vec<Vec<f32>>> = serde_json::from_value(json["hidden"].clone()).unwrap();
    hidden.remove(0)
}

/// The embedding of a text alone, and in a batch between other texts.
fn embeddings_match_transformers(place: TestDevice) {
    for_each(EMBEDDERS, |name, directory, golden: &EncoderGolden| {
        let what = format!("{name} on {place:?}");
        let text = ids(&golden.tokens);
        let hidden = hidden_states(directory, place, &text);
        assert_rows_close(&what, &hidden, &golden.last_hidden_state);
        let expected = vec![golden.embedding.clone(); 2];
        let texts = ["--tokens", &text, "--tokens", "5,6", "--tokens", &text];
        let mut got = embeddings(directory, place, &texts);
        got.remove(1);
        let off = assert_rows_close(&what, &got, &expected);
        println!("{what}: within {off:.1e}");
    });
}

on_every_device_and_class!(embeddings_match_transformers);

/// Copies the files of a model, but not folders.
fn copy(directory: &Path, to: &Path, without: &[&str]) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_file() && !without.contains(&name.as_str()) {
            std::fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

#[test]
fn decoders_embed_texts_by_their_last_token() {
    for_each(
        &["qwen3-embedding"],
        |name, directory, golden: &EncoderGolden| {
            let text = ids(&golden.tokens);
            let line = run([
                "generate",
                "--model",
                directory.to_str().unwrap(),
                "--tokens",
                "3",
            ])
            .failed("a model that embeds texts");
            assert!(line.contains("qwen3"), "{line}");
            // Without the list of modules it is a decoder, which embeds texts if asked to.
            let folder = tempfile::tempdir().unwrap();
            copy(directory, folder.path(), &["modules.json"]);
            let model = folder.path().to_str().unwrap();
            let args = [
                "generate",
                "--model",
                model,
                "--tokens",
                "3",
                "--max-new-tokens",
                "1",
                "--json",
            ];
            assert_eq!(run(args).json()["tokens"].as_array().unwrap().len(), 1);
            for flags in [&[][..], &["--pooling", "last"]] {
                let flags = [&["--tokens", &text], flags].concat();
                let got = embeddings(folder.path(), TestDevice::Host, &flags);
                assert_rows_close(name, &got, std::slice::from_ref(&golden.embedding));
            }
        },
    );
}

/// Copies a model without its list of modules, with another field of its configuration.
fn with_field(directory: &Path, key: &str, value: Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(directory, folder.path(), &["modules.json"]);
    let text = std::fs::read(directory.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    config[key] = value;
    write_json(folder.path(), "config.json", &config);
    folder
}

/// Checks that a model generates no text, and returns the error.
fn refused(model: &Path) -> String {
    let model = model.to_str().unwrap();
    run(["generate", "--model", model, "--tokens", "3"]).failed("a model that embeds texts")
}

/// Converts a model, and returns the path of the new file.
fn converted(model: &Path, folder: &Path) -> PathBuf {
    let out = folder.join("model.gguf");
    let [from, to] = [model, &out].map(|path| path.to_str().unwrap());
    let args = ["convert", "--model", from, "--out", to, "--encoding", "f32"];
    run(args).succeeded();
    out
}

#[test]
fn tokens_attend_to_later_ones_where_attention_is_not_causal() {
    for_each(&["qwen3-embedding"], |name, directory, _: &Value| {
        let folder = with_field(directory, "is_causal", json!(false));
        let line = refused(folder.path());
        assert!(line.contains("`is_causal` is false"), "{line}");
        let states = |model: &Path, text| hidden_states(model, TestDevice::Host, text);
        let expected = states(folder.path(), "3,5,9");
        assert_ne!(states(folder.path(), "3,5,7")[0], expected[0]);
        let out = tempfile::tempdir().unwrap();
        let gguf = converted(folder.path(), out.path());
        assert_rows_close(name, &states(&gguf, "3,5,9"), &expected);
    });
}

#[test]
fn decoders_without_an_output_layer_embed_texts_by_their_last_token() {
    for_each(
        &["qwen3-embedding"],
        |name, directory, golden: &EncoderGolden| {
            let folder = with_field(directory, "architectures", json!(["Qwen3Model"]));
            let line = refused(folder.path());
            assert!(line.contains("is an encoder"), "{line}");
            let (out, text) = (tempfile::tempdir().unwrap(), ids(&golden.tokens));
            let gguf = converted(folder.path(), out.path());
            for model in [folder.path(), &gguf] {
                let got = embeddings(model, TestDevice::Host, &["--tokens", &text]);
                assert_rows_close(name, &got, std::slice::from_ref(&golden.embedding));
            }
        },
    );
}

#[test]
fn embedders_in_gguf_keep_their_pooling() {
    for_each(EMBEDDERS, |name, directory, golden: &EncoderGolden| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("model.gguf");
        let paths = [directory, &out].map(|path| path.to_str().unwrap());
        let convert = [
            "convert",
            "--model",
            paths[0],
            "--out",
            paths[1],
            "--encoding",
            "f32",
        ];
        if name == "embedding-gemma" {
            let line = run(convert).failed("linear layers after the pooling");
            assert!(line.contains("linear layers"), "{line}");
            let plain = folder.path().join("plain");
            std::fs::create_dir(&plain).unwrap();
            copy(directory, &plain, &["modules.json"]);
            let convert = [
                "convert",
                "--model",
                plain.to_str().unwrap(),
                "--out",
                paths[1],
                "--encoding",
                "f32",
            ];
            run(convert).succeeded();
            let hidden = hidden_states(&out, TestDevice::Host, &ids(&golden.tokens));
            assert_rows_close(name, &hidden, &golden.last_hidden_state);
            return;
        }
        run(convert).succeeded();
        let got = embeddings(&out, TestDevice::Host, &["--tokens", &ids(&golden.tokens)]);
        assert_rows_close(name, &got, std::slice::from_ref(&golden.embedding));
    });
}

/// The scores of transformers for a text.
#[derive(Deserialize)]
struct Scores {
    tokens: Vec<u32>,
    scores: Vec<f32>,
}

#[test]
fn scores_of_the_last_token_match_transformers() {
    for_each(&["qwen3-classifier"], |name, directory, golden: &Scores| {
        let files = ModelFiles::open(directory).unwrap();
        let session = InferenceSession::new(Device::host(1).unwrap());
        let limits = ModelLimits {
            max_length: 64,
            ..Default::default()
        };
        let mut encoder = TextEncoder::load_blocking(&session, &files, limits).unwrap();
        let text = |tokens: &[u32]| PairTokens {
            tokens: tokens.to_vec(),
            types: vec![0; tokens.len()],
            cut: 0,
        };
        let texts = [text(&[4, 5]), text(&golden.tokens)];
        let request = EncodeRequest::Scores(texts.into());
        let mut results = pollster::block_on(encoder.run_requests(&[request]));
        let scores = results.remove(0).unwrap();
        let expected = vec![golden.scores.clone()];
        assert_rows_close(name, &scores[1..], &expected);
    });
}

/// A tokenizer whose tokens are words, with the words of the prompt by which documents are judged.
fn write_tokenizer(folder: &Path) {
    let words = [
        "<unk>",
        "<|im_start|>",
        "<|im_end|>",
        "yes",
        "no",
        "system",
        "user",
        "assistant",
        "Judge",
        "Document",
        "Query",
        "Instruct",
        "cats",
        "dogs",
        "purr",
        "bark",
        "loudly",
    ];
    let vocab: serde_json::Map<String, Value> = words
        .iter()
        .enumerate()
        .map(|(id, word)| (word.to_string(), json!(id)))
        .collect();
    let added = |id: u32| {
        json!({
            "id": id, "content": words[id as usize], "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    let tokenizer = json!({
        "version": "1.0", "added_tokens": [added(0), added(1), added(2)], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"},
    });
    write_json(folder, "tokenizer.json", &tokenizer);
}

#[test]
fn language_models_rank_documents_by_their_answers() {
    for_each(&["qwen3"], |_, directory, _: &Value| {
        let folder = tempfile::tempdir().unwrap();
        copy(
            directory,
            folder.path(),
            &["tokenizer.json", "tokenizer_config.json"],
        );
        write_tokenizer(folder.path());
        let (model, documents) = (
            folder.path().to_str().unwrap(),
            ["dogs bark", "cats purr loudly <|im_end|>"],
        );
        let args = [
            "rerank",
            "--json",
            "--device",
            "host",
            "--model",
            model,
            "--query",
            "cats",
            "--document",
        ];
        let results = run([&args[..], &documents].concat()).json();
        for result in results["results"].as_array().unwrap() {
            let document = result["document"].as_str().unwrap();
            // The prompt of Qwen3-Reranker's model card, of which the document is plain text.
            let part = |text: &str| -> Vec<u32> {
                let args = ["tokenize", "--json", "--model", model, "--text", text];
                serde_json::from_value(run(args).json()["tokens"].clone()).unwrap()
            };
            let before = part(
                "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the \
                 Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n",
            );
            let text = format!(
                "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: cats\n<Document>: {}",
                document.replace("<|im_end|>", "<| im_end |>")
            );
            let after = part("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
            let tokens = [before, part(&text), after].concat();
            let rows = logits(Some(folder.path()), TestDevice::Host, &tokens, &[]);
            let last = rows.last().unwrap();
            let (logit, expected) = (result["logit"].as_f64().unwrap() as f32, last[3] - last[4]);
            assert!(
                (logit - expected).abs() <= LOGITS_WITHIN,
                "{document}: {logit}, expected {expected}"
            );
        }
        // A tokenizer without the answers is named.
        let text = std::fs::read_to_string(folder.path().join("tokenizer.json")).unwrap();
        std::fs::write(
            folder.path().join("tokenizer.json"),
            text.replace("\"yes\"", "\"aye\""),
        )
        .unwrap();
        let line = run([&args[..], &documents].concat()).failed("no answers");
        assert!(line.contains("yes"), "{line}");
    });
}
