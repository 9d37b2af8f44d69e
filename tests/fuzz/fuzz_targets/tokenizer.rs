//! Any text as a `tokenizer.json`: no panic in loading, encoding and decoding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::pipelines::tokenizer::{HuggingFaceFiles, Tokenizer};

fuzz_target!(|json: &str| {
    let files = HuggingFaceFiles {
        tokenizer: json.as_bytes(),
        ..HuggingFaceFiles::default()
    };
    let Ok(tokenizer) = Tokenizer::from_files(&files) else {
        return;
    };
    for text in ["", "ab a<x>", "Hello, wörld!\n 12 \u{fdfa}"] {
        if let Ok(tokens) = tokenizer.encode(text, true, true) {
            tokenizer.decode(&tokens, false);
        }
    }
    tokenizer.decode(&[0, 1, u32::MAX], true);
});
