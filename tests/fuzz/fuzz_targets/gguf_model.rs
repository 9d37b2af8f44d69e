//! Any bytes as a model in GGUF: no panic in the specification, the tokenizer, the chat template and the estimate of
//! memory that its metadata lead to.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::pipelines::ModelFiles;

fuzz_target!(|file: &[u8]| {
    let Ok(files) = ModelFiles::from_bytes("fuzzed", file.to_vec()) else {
        return;
    };
    if let Ok(tokenizer) = &files.tokenizer {
        if let Ok(tokens) = tokenizer.encode("Hello, <|im_end|> ab 123 A", true, true) {
            tokenizer.decode(&tokens, false);
        }
    }
});
