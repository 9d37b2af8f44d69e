//! Any text as a `tokenizer.json` and, after a line of dashes, a text to encode: an error, or tokens of the
//! vocabulary that decode to the same text at once and one by one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wisp_engine::pipelines::tokenizer::{HuggingFaceFiles, Tokenizer};

fuzz_target!(|input: &str| {
    let (json, text) = input.split_once("\n---\n").unwrap_or((input, "Hello, wörld! 12 <s>aab"));
    let files = HuggingFaceFiles { tokenizer: json.as_bytes(), ..HuggingFaceFiles::default() };
    let Ok(tokenizer) = Tokenizer::from_files(&files) else {
        return;
    };
    for (add_special, parse_special) in [(true, true), (false, false)] {
        let Ok(tokens) = tokenizer.encode(text, add_special, parse_special) else {
            continue;
        };
        assert_eq!(tokenizer.encode(text, add_special, parse_special).ok().as_ref(), Some(&tokens));
        let mut detokenizer = tokenizer.detokenizer(false);
        let mut decoded = String::new();
        for &token in &tokens {
            decoded.extend(detokenizer.push(token));
        }
        decoded.extend(detokenizer.finish());
        assert_eq!(decoded, tokenizer.decode(&tokens, false));
    }
});
