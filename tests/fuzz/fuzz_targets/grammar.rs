//! Any text as a constraint: after `schema `, `regex `, `lark ` or `choices `. It compiles or not, and a text that
//! follows it token by token, and ends, is valid.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use wisp_engine::{
    grammar::{Constraint, GrammarCompiler},
    pipelines::tokenizer::{HuggingFaceFiles, Tokenizer},
};

/// The number of tokens of a text.
const TOKENS: usize = 60;

/// A tokenizer of all bytes and a token that ends texts, and its compiler.
fn compiler() -> &'static (Tokenizer, GrammarCompiler) {
    static COMPILER: OnceLock<(Tokenizer, GrammarCompiler)> = OnceLock::new();
    COMPILER.get_or_init(|| {
        // GPT-2's letters for bytes: those that are no printable characters are the letters from U+0100 on.
        let is_printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let mut others = (0x100..).filter_map(char::from_u32);
        let mut letter = |byte: u8| match is_printable(&byte) {
            true => char::from(byte),
            false => others.next().expect("more letters than bytes"),
        };
        let vocab: serde_json::Map<String, Value> =
            (0..=255).map(|byte| (letter(byte).to_string(), byte.into())).collect();
        let end = json!({"id": vocab.len(), "content": "<|end|>", "special": true, "normalized": false,
                         "single_word": false, "lstrip": false, "rstrip": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let file = json!({"model": {"type": "BPE", "vocab": vocab, "merges": []}, "pre_tokenizer": bytes,
                          "decoder": bytes, "added_tokens": [end]});
        let file = file.to_string();
        let files = HuggingFaceFiles { tokenizer: file.as_bytes(), ..HuggingFaceFiles::default() };
        let tokenizer = Tokenizer::from_files(&files).expect("a tokenizer");
        let end = tokenizer.id("<|end|>").expect("the last token");
        let compiler = GrammarCompiler::new(&tokenizer, &[end]).expect("a small vocabulary");
        (tokenizer, compiler)
    })
}

fn constraint(text: &str) -> Option<Constraint> {
    let (kind, text) = text.split_once(' ')?;
    match kind {
        "schema" => Some(Constraint::JsonSchema(serde_json::from_str(text).ok()?)),
        "regex" => Some(Constraint::Regex(text.into())),
        "lark" => Some(Constraint::Lark(text.into())),
        "choices" => Some(Constraint::Choices(text.split(',').map(String::from).collect())),
        _ => None,
    }
}

fuzz_target!(|text: &str| {
    let Some(constraint) = constraint(text) else {
        return;
    };
    let (tokenizer, compiler) = compiler();
    let Ok(grammar) = compiler.compile(&constraint) else {
        return;
    };
    let mut matcher = grammar.matcher();
    let (mut mask, mut tokens) = (vec![0; tokenizer.vocab_size().div_ceil(32)], Vec::new());
    for choice in text.bytes().cycle().take(TOKENS) {
        if matcher.is_complete() || matcher.mask(&mut mask).is_err() {
            break;
        }
        let size = tokenizer.vocab_size() as u32;
        let allowed: Vec<u32> =
            (0..size).filter(|token| mask[*token as usize / 32] >> (token % 32) & 1 == 1).collect();
        assert!(!allowed.is_empty());
        let token = allowed[usize::from(choice) % allowed.len()];
        assert!(matcher.consume(token).is_ok(), "an allowed token is refused");
        tokens.push(token);
    }
    if matcher.is_complete() {
        let text = tokenizer.decode(&tokens, true);
        match constraint {
            // The syntax alone: `Value` refuses numbers beyond `f64`, such as 7e2523757, which are valid JSON.
            Constraint::JsonSchema(_) => assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{text:?}"),
            Constraint::Choices(choices) => assert!(choices.contains(&text), "{text:?}"),
            _ => {}
        }
    }
});
