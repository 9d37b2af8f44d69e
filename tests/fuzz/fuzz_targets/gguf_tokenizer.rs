//! Any JSON as the tokenizer metadata of a GGUF file and, after a line of dashes, a text to encode: an error, or
//! tokens of the vocabulary that can be decoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use wisp_engine::pipelines::tokenizer::{GgufMetadata, Tokenizer};

/// Metadata and its arrays of strings.
struct Metadata(Map<String, Value>, Vec<(String, Vec<String>)>);

impl GgufMetadata for Metadata {
    fn string(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    fn strings(&self, key: &str) -> Option<&[String]> {
        let mut lists = self.1.iter();
        lists.find(|(found, _)| found == key).map(|(_, list)| list.as_slice())
    }

    fn floats(&self, key: &str) -> Option<Vec<f32>> {
        let items = self.0.get(key)?.as_array()?.iter();
        items.map(|item| item.as_f64().map(|float| float as f32)).collect()
    }

    fn ints(&self, key: &str) -> Option<Vec<i64>> {
        self.0.get(key)?.as_array()?.iter().map(Value::as_i64).collect()
    }

    fn uint(&self, key: &str) -> Option<u64> {
        self.0.get(key)?.as_u64()
    }

    fn boolean(&self, key: &str) -> Option<bool> {
        self.0.get(key)?.as_bool()
    }
}

fuzz_target!(|input: &str| {
    let (json, text) = input.split_once("\n---\n").unwrap_or((input, "Hello, wörld! 12 <s>aab"));
    let Ok(Value::Object(entries)) = serde_json::from_str(json) else {
        return;
    };
    let lists = entries.iter().filter_map(|(key, value)| {
        let items = value.as_array()?.iter();
        let items = items.map(|item| item.as_str().map(str::to_owned));
        Some((key.clone(), items.collect::<Option<Vec<String>>>()?))
    });
    let lists = lists.collect();
    let Ok(tokenizer) = Tokenizer::from_gguf(&Metadata(entries, lists)) else {
        return;
    };
    for parse_special in [true, false] {
        if let Ok(tokens) = tokenizer.encode(text, true, parse_special) {
            assert!(tokens.iter().all(|&token| (token as usize) < tokenizer.vocab_size()));
            tokenizer.decode(&tokens, true);
        }
    }
});
