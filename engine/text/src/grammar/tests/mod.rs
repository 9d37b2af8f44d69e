//! Tests of grammars with a tokenizer of bytes and a few longer tokens.

mod constraints;
mod hostile;
mod random_texts;
mod schemas;
mod suite;

use serde_json::{Map, Value, json};

use super::{Constraint, GrammarCompiler, GrammarError, GrammarMatcher};
use crate::tokenizer::{HuggingFaceFiles, Tokenizer};

/// The tokens that end a text and begin a call.
const END: &str = "<|end|>";
const CALL: &str = "<|call|>";

/// A tokenizer of all bytes, of some merges that JSON uses, and of two control tokens.
fn tokenizer() -> Tokenizer {
    // The byte alphabet of GPT-2: bytes that are no printable characters are the letters from U+0100 on.
    let is_printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut others = (0x100..).filter_map(char::from_u32);
    let letters: Vec<String> = (0..=255u8)
        .map(|byte| match is_printable(&byte) {
            true => char::from(byte).to_string(),
            false => others.next().unwrap().to_string(),
        })
        .collect();
    let merges = [
        ["{", "\""],
        ["\"", ":"],
        ["t", "r"],
        ["u", "e"],
        ["tr", "ue"],
        ["1", "2"],
    ];
    let merged = merges.iter().map(|[a, b]| format!("{a}{b}"));
    let all = letters.iter().cloned().chain(merged);
    let vocab: Map<String, Value> = all
        .enumerate()
        .map(|(id, token)| (token, id.into()))
        .collect();
    let added = [END, CALL].iter().enumerate().map(|(at, content)| {
        json!({"id": vocab.len() + at, "content": content, "special": true, "normalized": false,
               "single_word": false, "lstrip": false, "rstrip": false})
    });
    let file = json!({
        "added_tokens": added.collect::<Vec<_>>(),
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges}
    });
    let file = file.to_string();
    let files = HuggingFaceFiles {
        tokenizer: file.as_bytes(),
        ..HuggingFaceFiles::default()
    };
    Tokenizer::from_files(&files).unwrap()
}

/// A compiler for [`tokenizer`].
struct Compiler {
    tokenizer: Tokenizer,
    compiler: GrammarCompiler,
    end: u32,
}

impl Compiler {
    fn new() -> Compiler {
        let tokenizer = tokenizer();
        let end = tokenizer.id(END).unwrap();
        let compiler = GrammarCompiler::new(&tokenizer, &[end]).unwrap();
        Compiler {
            tokenizer,
            compiler,
            end,
        }
    }

    fn matcher(&self, constraint: &Constraint) -> Result<GrammarMatcher, GrammarError> {
        Ok(self.compiler.compile(constraint)?.matcher())
    }

    fn schema(&self, schema: Value) -> GrammarMatcher {
        self.matcher(&Constraint::JsonSchema(schema)).unwrap()
    }

    /// Returns the tokens that may follow.
    fn allowed(&self, matcher: &mut GrammarMatcher) -> Vec<u32> {
        let mut mask = vec![0; self.tokenizer.vocab_size().div_ceil(32)];
        matcher.mask(&mut mask).unwrap();
        let size = self.tokenizer.vocab_size() as u32;
        let is_set = |token: &u32| mask[*token as usize / 32] >> (token % 32) & 1 == 1;
        (0..size).filter(is_set).collect()
    }

    /// Returns whether a text is accepted from its first token to its end.
    fn accepts(&self, matcher: &GrammarMatcher, text: &str) -> bool {
        let mut matcher = matcher.clone();
        for token in self.tokenizer.encode(text, false, false).unwrap() {
            if matcher.is_complete() {
                return false;
            }
            // The mask allows only the tokens that are forced, where some are; other spellings are accepted too.
            if matcher.consume(token).is_err() {
                return false;
            }
        }
        matcher.is_accepting()
    }
}
