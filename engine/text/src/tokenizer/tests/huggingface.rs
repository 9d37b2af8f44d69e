//! Tokenizers from directories in Hugging Face's layout.

use serde_json::{Value, json};

use super::*;

/// A byte-level BPE tokenizer like Llama 3's, with eight tokens.
pub(crate) fn tokenizer_json() -> Value {
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": [
            {"id": 5, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
            {"id": 6, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
            {"id": 7, "content": "  ", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}
        ],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġa": 4},
            "merges": ["a b", "Ġ a"]}
    })
}

/// Writes files into a new directory and loads it.
pub(crate) fn load(files: &[(&str, Value)]) -> Result<Tokenizer, TokenizerError> {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let text = match (content, name.ends_with(".jinja")) {
            (Value::String(text), true) => text.clone(),
            _ => content.to_string(),
        };
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    Tokenizer::from_dir(directory.path())
}

#[test]
fn all_files_of_a_folder_are_used() {
    let tokenizer = load(&[
        ("tokenizer.json", tokenizer_json()),
        (
            "tokenizer_config.json",
            json!({"bos_token": "<s>", "eos_token": {"content": "<|im_end|>"},
                "added_tokens_decoder": {"8": {"content": "<tool>", "special": true}},
                "chat_template": [{"name": "default", "template": "old"}, {"name": "rag", "template": "r"}]}),
        ),
        ("generation_config.json", json!({"eos_token_id": [6, 1, 99]})),
        ("chat_template.jinja", json!("new")),
    ])
    .unwrap();
    assert_eq!(tokenizer.bos(), Some(5));
    assert!(tokenizer.adds_bos());
    assert_eq!(tokenizer.eos(), Some(6));
    assert_eq!(
        tokenizer
            .end_of_generation()
            .iter()
            .copied()
            .collect::<Vec<_>>(),
        [1, 6]
    );
    assert_eq!(tokenizer.vocab_size(), 9);
    assert_eq!(tokenizer.chat_template(None), Some("new"));
    assert_eq!(tokenizer.chat_template(Some("rag")), Some("r"));
    // The truncation to two tokens in the file is ignored.
    assert_eq!(
        tokenizer.encode("ab a ab", true, true).unwrap(),
        [5, 2, 4, 3, 2]
    );
    assert_eq!(
        tokenizer.encode("a<s>  a", false, true).unwrap(),
        [0, 5, 7, 0]
    );
    // Special tokens are text now, and other added tokens still match.
    assert_eq!(
        tokenizer.encode("a<s>  a", false, false).unwrap(),
        [0, 7, 0]
    );
    assert_eq!(tokenizer.decode(&[5, 2, 4, 7, 0, 6, 1000], true), "ab a  a");
    assert_eq!(tokenizer.decode(&[5, 2, 8], false), "<s>ab<tool>");
}

#[test]
fn decoding_equals_that_of_the_tokenizers_crate() {
    let json = tokenizer_json();
    let ours = load(&[("tokenizer.json", json.clone())]).unwrap();
    let library = tokenizers::Tokenizer::from_bytes(json.to_string()).unwrap();
    for tokens in [&[5, 2, 4, 7, 1][..], &[3, 3, 0], &[], &[6, 7]] {
        for skip in [true, false] {
            assert_eq!(
                ours.decode(tokens, skip),
                library.decode(tokens, skip).unwrap()
            );
        }
    }
}

#[test]
fn bos_follows_the_configuration() {
    let config = |add: bool| {
        let config = json!({"bos_token": "<s>", "add_bos_token": add});
        let files = [
            ("tokenizer.json", tokenizer_json()),
            ("tokenizer_config.json", config),
        ];
        load(&files).unwrap().encode("a", true, true).unwrap()
    };
    assert_eq!(config(true), [5, 0]);
    assert_eq!(config(false), [0]);
    let mut without = tokenizer_json();
    without["post_processor"] = Value::Null;
    let config = json!({"bos_token": "<s>", "add_bos_token": true});
    let tokenizer = load(&[
        ("tokenizer.json", without),
        ("tokenizer_config.json", config),
    ]);
    assert_eq!(tokenizer.unwrap().encode("a", true, true).unwrap(), [5, 0]);
}

#[test]
fn eos_follows_the_configuration() {
    let tokens = |config: Value, post_processor: bool| {
        let mut tokenizer = tokenizer_json();
        if !post_processor {
            tokenizer["post_processor"] = Value::Null;
        }
        let files = [
            ("tokenizer.json", tokenizer),
            ("tokenizer_config.json", config),
        ];
        load(&files).unwrap().encode("a", true, true).unwrap()
    };
    let plain = tokens(json!({"eos_token": "<s>"}), false);
    let added = tokens(json!({"eos_token": "<s>", "add_eos_token": true}), false);
    assert_eq!((plain, added), (vec![0], vec![0, 5]));
    // BOS stays.
    let both = json!({"bos_token": "<s>", "eos_token": "<s>", "add_eos_token": true});
    assert_eq!(tokens(both, true), [5, 0, 5]);
}

#[test]
fn missing_tokenizer_json_is_named_with_a_remedy() {
    let error = load(&[]).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json is missing"), "{error}");
    assert!(error.contains("copy it from"), "{error}");
}

#[test]
fn damaged_files_are_errors() {
    let whole = tokenizer_json().to_string();
    for length in 0..whole.len() {
        let files = HuggingFaceFiles {
            tokenizer: &whole.as_bytes()[..length],
            ..HuggingFaceFiles::default()
        };
        assert!(Tokenizer::from_files(&files).is_err(), "{length}");
    }
    let mut long = tokenizer_json();
    long["model"]["merges"] = json!([["ab", "ab"]]);
    assert!(load(&[("tokenizer.json", long)]).is_err());
    let mut absent = tokenizer_json();
    absent["model"]["merges"] = json!(["x y"]);
    assert!(load(&[("tokenizer.json", absent)]).is_err());
    let files = [
        ("tokenizer.json", tokenizer_json()),
        ("tokenizer_config.json", json!("text")),
    ];
    assert!(load(&files).is_ok());
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("tokenizer.json"), whole).unwrap();
    std::fs::write(directory.path().join("tokenizer_config.json"), b"{").unwrap();
    let error = Tokenizer::from_dir(directory.path())
        .unwrap_err()
        .to_string();
    assert!(error.contains("tokenizer_config.json"), "{error}");
}

/// Python writes infinity as a word, which JSON does not have.
#[test]
fn numbers_of_configurations_may_be_infinite() {
    let json = tokenizer_json().to_string();
    let files = HuggingFaceFiles {
        tokenizer: json.as_bytes(),
        config: Some(br#"{"time_step_limit": [0.0, Infinity], "eos_token_id": 6}"#),
        ..HuggingFaceFiles::default()
    };
    assert_eq!(Tokenizer::from_files(&files).unwrap().eos(), Some(6));
}
