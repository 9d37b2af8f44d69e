//! Tokenizers in the metadata of a GGUF file that try to panic, to hang or to use up memory.

use serde_json::{Value, json};
use wisp_engine::pipelines::tokenizer::{GgufMetadata, Tokenizer};
use wisp_tests::fault;

/// The tokenizer metadata of a GGUF file as JSON.
#[derive(Clone)]
struct Metadata {
    json: Value,
    tokens: Vec<String>,
}

impl GgufMetadata for Metadata {
    fn string(&self, key: &str) -> Option<&str> {
        self.json[key].as_str()
    }

    fn strings(&self, key: &str) -> Option<&[String]> {
        (key == "tokenizer.ggml.tokens").then_some(self.tokens.as_slice())
    }

    fn floats(&self, key: &str) -> Option<Vec<f32>> {
        let items = self.json[key].as_array()?.iter();
        Some(
            items
                .map(|item| item.as_f64().unwrap_or(f64::NAN) as f32)
                .collect(),
        )
    }

    fn ints(&self, key: &str) -> Option<Vec<i64>> {
        self.json[key]
            .as_array()?
            .iter()
            .map(Value::as_i64)
            .collect()
    }

    fn uint(&self, key: &str) -> Option<u64> {
        self.json[key].as_u64()
    }

    fn boolean(&self, key: &str) -> Option<bool> {
        self.json[key].as_bool()
    }
}

/// Loads a GGUF tokenizer with one kind for all tokens but the first, and encodes long texts.
fn try_gguf(model: &str, tokens: &[String], kind: i64, further: &Value) -> Result<(), String> {
    let mut json = json!({"tokenizer.ggml.model": model, "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.seperator_token_id": 0});
    let mut kinds = vec![kind; tokens.len() + 1];
    kinds[0] = 2;
    json["tokenizer.ggml.token_type"] = json!(kinds);
    for (key, value) in further.as_object().into_iter().flatten() {
        json[format!("tokenizer.ggml.{key}")] = value.clone();
    }
    let tokens = ["<unk>".to_owned()]
        .into_iter()
        .chain(tokens.iter().cloned())
        .collect();
    let metadata = Metadata { json, tokens };
    let tokenizer = fault::call_limited(move || {
        Tokenizer::from_gguf(&metadata).map_err(|error| error.to_string())
    })?;
    for text in [
        "a".repeat(50_000),
        " ".repeat(50_000),
        "\u{fdfa}b ".repeat(2_000),
    ] {
        let tokenizer = tokenizer.clone();
        fault::call_limited(move || {
            let tokens = tokenizer
                .encode(&text, true, true)
                .map_err(|error| error.to_string())?;
            assert!(tokenizer.decode(&tokens, false).len() < 50_000_000);
            Ok::<_, String>(())
        })?;
    }
    Ok(())
}

#[test]
fn tables_of_a_gguf_tokenizer_are_bounded() {
    let nested: Vec<String> = (1..2_000).map(|length| "a".repeat(length)).collect();
    for model in ["bert", "t5"] {
        let error = try_gguf(model, &nested, 1, &Value::Null).unwrap_err();
        assert!(error.contains("tokens of at most"), "{error}");
    }
    try_gguf("llama", &nested, 1, &Value::Null).unwrap();
    let short: Vec<String> = (1..100).map(|length| "a".repeat(length)).collect();
    for model in ["bert", "t5", "llama"] {
        try_gguf(model, &short, 1, &json!({"scores": vec![f64::NAN; 100]})).unwrap();
    }
    let many: Vec<String> = (0..70_000).map(|index| format!("<{index}>")).collect();
    try_gguf("llama", &many, 4, &Value::Null).unwrap();
    let nested: Vec<String> = (0..70_000).map(|index| format!("tok{index}")).collect();
    let error = try_gguf("llama", &nested, 4, &Value::Null).unwrap_err();
    assert!(error.contains("begin with another one"), "{error}");
}

#[test]
fn character_map_of_a_gguf_tokenizer_is_bounded() {
    // A trie that returns to its first state with every "a", without or with a replacement.
    let map = |leaf: u32, replacements: &[u8]| {
        let mut array = vec![0_u32; 512];
        array[0] = 256 << 10;
        array[256 + 0x61] = 0x61 | leaf | 0x61 << 10;
        let mut bytes = (array.len() as u32 * 4).to_le_bytes().to_vec();
        bytes.extend(array.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(replacements);
        json!({"precompiled_charsmap": bytes})
    };
    let tokens = ["a".to_owned(), "b".to_owned()];
    try_gguf("t5", &tokens, 1, &map(0, b"b\0")).unwrap();
    try_gguf("t5", &tokens, 1, &map(1 << 8, b"b\0")).unwrap();
    let long = [b" ".repeat(1_000_000), vec![0]].concat();
    let error = try_gguf("t5", &tokens, 1, &map(1 << 8, &long)).unwrap_err();
    assert!(error.contains("longer than their keys"), "{error}");
}
